package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kernelPackage is Debian's small kernel for virtual machines. It depends on
// the newest of its kind.
const kernelPackage = "linux-image-cloud-amd64"

// kernel is a Linux kernel and where its modules are.
type kernel struct{ image, modules string }

// findKernel fetches Debian's kernel into a cache directory, or finds it there.
// Nothing is installed.
func findKernel(cache string) (kernel, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return kernel{}, fmt.Errorf("cannot fetch a kernel: %w", err)
	}
	if k, err := kernelIn(cache); err == nil {
		return k, nil
	}
	script := `set -e; k=$(apt-cache depends ` + kernelPackage + ` | awk '/Depends: linux-image-/ {print $2; exit}')
		apt-get download -qq "$k" 2>/dev/null; dpkg-deb -x linux-image-*.deb .; rm linux-image-*.deb`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = cache
	if out, err := cmd.CombinedOutput(); err != nil {
		return kernel{}, fmt.Errorf("cannot fetch %s: %w\n%s", kernelPackage, err, out)
	}
	return kernelIn(cache)
}

func kernelIn(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return kernel{}, fmt.Errorf("cannot find a kernel: %w", err)
	}
	if len(images) == 0 {
		return kernel{}, fmt.Errorf("cannot find a kernel in %s: %w", dir, fs.ErrNotExist)
	}
	version := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	return kernel{images[0], filepath.Join(dir, "lib", "modules", version)}, nil
}

// modules are the files of the named modules and of all they need, in the
// order in which they must be loaded.
func (k kernel) moduleFiles(names ...string) ([]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(k.modules, func(path string, _ fs.DirEntry, err error) error {
		if name, found := strings.CutSuffix(filepath.Base(path), ".ko"); found {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list modules: %w", err)
	}
	var order []string
	done := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if done[name] {
			return nil
		}
		done[name] = true
		file, ok := files[name]
		if !ok {
			return fmt.Errorf("cannot find the module %s", name)
		}
		needs, err := depends(file)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		order = append(order, file)
		return nil
	}
	for _, n := range names {
		if err := add(n); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// depends reads a module's own word on what it needs, from its section
// .modinfo.
func depends(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, errors.New("no .modinfo"))
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	for field := range bytes.SplitSeq(data, []byte{0}) {
		if list, found := strings.CutPrefix(string(field), "depends="); found && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
