package vm

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// archive is an initramfs: cpio in the "newc" format, as the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst has it.
type archive struct {
	buffer bytes.Buffer
	inode  int
	dirs   []string

	libraries []string
}

const modeDir, modeFile = 0o040000, 0o100000

func (a *archive) entry(name string, mode int, content []byte) {
	a.inode++
	fmt.Fprintf(&a.buffer, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.pad()
	a.buffer.Write(content)
	a.pad()
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad() {
	for a.buffer.Len()%4 != 0 {
		a.buffer.WriteByte(0)
	}
}

// file adds a file, root's, and the directories above it.
func (a *archive) file(name string, mode int, content []byte) {
	a.dir(filepath.Dir(name))
	a.entry(name, modeFile|mode, content)
}

func (a *archive) dir(name string) {
	if name == "." || slices.Contains(a.dirs, name) {
		return
	}
	a.dir(filepath.Dir(name))
	a.dirs = append(a.dirs, name)
	a.entry(name, modeDir|0o755, nil)
}

// copyOf adds a file of the host.
func (a *archive) copyOf(host, name string, mode int) error {
	content, err := os.ReadFile(host)
	if err != nil {
		return fmt.Errorf("cannot make an initramfs: %w", err)
	}
	a.file(name, mode, content)
	return nil
}

// write ends the archive and writes it, compressed.
func (a *archive) write(w io.Writer) error {
	a.entry("TRAILER!!!", 0, nil)
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := a.buffer.WriteTo(z); err != nil {
		return err
	}
	return z.Close()
}

// linked adds a program of the host with the libraries that it is linked with.
func (a *archive) linked(program string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("cannot make an initramfs: %w", err)
	}
	if err := a.copyOf(path, "usr/local/bin/"+program, 0o755); err != nil {
		return err
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return fmt.Errorf("cannot make an initramfs: what %s is linked with: %w", program, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if name := strings.TrimPrefix(word, "/"); name != word && !slices.Contains(a.libraries, name) {
			a.libraries = append(a.libraries, name)
			if err := a.copyOf(word, name, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// system adds what a container has in its root, and so does a machine that stands
// for one: the programs, users and a configuration.
func (a *archive) system(root, programs, config string) error {
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "data", "etc"} {
		a.dir(root + d)
	}
	for _, p := range []string{"rlminit", "gateway", "nasty"} {
		if err := a.copyOf(filepath.Join(programs, p), root+"usr/local/bin/"+p, 0o755); err != nil {
			return err
		}
	}
	a.file(root+"etc/passwd", 0o644, []byte("root:x:0:0::/:/\napp:x:1000:1000::/data:/\n"))
	a.file(root+"etc/group", 0o644, []byte("root:x:0:\napp:x:1000:\n"))
	a.file(root+"etc/rlminit/rlminit.yaml", 0o644, []byte(config))
	return nil
}

// initramfs makes the machine's root file system: the kernel's modules for a
// disk, and a system; or one for containers in /container, and the engine's programs.
func initramfs(file string, k kernel, programs, config string, engine bool) error {
	var a archive
	modules, err := k.moduleFiles("virtio_pci", "virtio_blk")
	if err != nil {
		return err
	}
	var order []string
	for _, m := range modules {
		order = append(order, filepath.Base(m))
		if err := a.copyOf(m, "modules/"+filepath.Base(m), 0o644); err != nil {
			return err
		}
	}
	a.file("modules/order", 0o644, []byte(strings.Join(order, "\n")))
	if err := a.copyOf(filepath.Join(programs, "vminit"), "init", 0o755); err != nil {
		return err
	}
	if err := a.system("", programs, config); err != nil {
		return err
	}
	if engine {
		if err := a.system("container/", programs, config); err != nil {
			return err
		}
		for _, program := range []string{"podman", "conmon", "runc"} {
			if err := a.linked(program); err != nil {
				return err
			}
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("cannot make an initramfs: %w", err)
	}
	if err := a.write(f); err != nil {
		return fmt.Errorf("cannot make an initramfs: %w", err)
	}
	return f.Close()
}
