package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/job"
)

// Archive is one that is being read.
type Archive struct {
	Manifest

	tar     *tar.Reader
	entries int
}

// Place is a directory that exists.
type Place struct {
	Dir *durable.Dir
	Rel string
}

// Open reads what an archive is of.
func Open(from io.Reader) (*Archive, error) {
	in := bufio.NewReaderSize(from, 64<<10)
	start, err := in.Peek(len(manifestName))
	switch {
	case len(start) == 0 && errors.Is(err, io.EOF):
		return nil, fault("there is nothing in it")
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return nil, fault("it is compressed; write: gunzip -c FILE | rlminit profile import -")
	}
	// What ends within the first header is an export, or no archive at all.
	begun := strings.HasPrefix(manifestName, string(start))
	a := &Archive{tar: tar.NewReader(in)}
	h, err := a.next()
	switch {
	case errors.Is(err, tar.ErrHeader), errors.Is(err, ErrFault) && !begun:
		return nil, fault("it is no tar archive")
	case err != nil:
		return nil, err
	case h.Name != manifestName || h.Typeflag != tar.TypeReg:
		return nil, fault("it is no export of a profile, which begins with %s", manifestName)
	}
	if err := a.decode(h, &a.Manifest); err != nil {
		return nil, err
	}
	if a.Format != Format {
		return nil, fault("it has format %d, and this rlminit (%s wrote it) reads %d; import it with one of the other's version", a.Format, document.Quote(a.Version), Format)
	}
	switch {
	case a.Desired != "" && a.Desired != "running" && a.Desired != "stopped":
		return nil, fault("its %s has desired %s; only running and stopped can be desired", manifestName, document.Quote(a.Desired))
	case a.Port < 0 || a.Port > 65535:
		return nil, fault("its %s has port %d; a port is 1 to 65535", manifestName, a.Port)
	}
	return a, nil
}

// next is the next header. The end is never without its entry.
func (a *Archive) next() (*tar.Header, error) {
	h, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, cutShort()
	case errors.Is(err, tar.ErrHeader) && a.entries > 0:
		return nil, fault("it is damaged behind entry %d", a.entries)
	case errors.Is(err, tar.ErrFieldTooLong): // an extended header of more than 1 MB
		return nil, fault("behind entry %d is one whose header is larger than any export has", a.entries)
	case err != nil:
		return nil, err
	}
	if a.entries++; a.entries > maxEntries {
		return nil, fault("it has more than %d entries", maxEntries)
	}
	return h, nil
}

func (a *Archive) decode(h *tar.Header, v any) error {
	if h.Size > maxManifest {
		return fault("its %s is larger than %d KB", h.Name, maxManifest>>10)
	}
	content, err := io.ReadAll(io.LimitReader(a.tar, maxManifest))
	if err != nil {
		return unexpected(err)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fault("its %s is damaged: %v", h.Name, err)
	}
	return nil
}

// unexpected is an error of reading on.
func unexpected(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return cutShort()
	}
	return err
}

// Unpack writes what the archive holds into two empty directories, onto the disk.
// skip are names at the top of the profile that are left out, as is what jobs keep there:
// an archive of somebody else's may have that all the same. After an error what was
// written is still there.
func (a *Archive) Unpack(profile, log Place, skip ...string) error {
	u := unpacking{Archive: a, profile: profile, log: log, skip: skip}
	for {
		h, err := a.next()
		if err != nil {
			return err
		}
		if h.Name == endName {
			return u.finish(h)
		}
		if err := u.entry(h); err != nil {
			return err
		}
	}
}

// unpacking is one Unpack.
type unpacking struct {
	*Archive
	profile, log Place
	skip         []string
	directories  []made
}

// made is a directory whose mode is set when all is in it.
type made struct {
	at   Place
	mode uint32
}

// finish is the end: of the archive, and of what was made.
func (u *unpacking) finish(h *tar.Header) error {
	var last end
	if err := u.decode(h, &last); err != nil {
		return err
	}
	if last.Entries != u.entries-1 {
		return fault("it has %d entries and says that there are %d", u.entries-1, last.Entries)
	}
	if _, err := u.tar.Next(); !errors.Is(err, io.EOF) {
		return fault("it goes on behind its end")
	}
	for _, m := range slices.Backward(u.directories) {
		if err := m.at.Dir.Chmod(m.at.Rel, m.mode); err != nil {
			return err
		}
		if err := m.at.Dir.SyncDir(m.at.Rel); err != nil {
			return err
		}
	}
	for _, p := range []Place{u.profile, u.log} {
		if err := p.Dir.SyncDir(p.Rel); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry below the place of its part.
func (u *unpacking) entry(h *tar.Header) error {
	name, directory := strings.CutSuffix(h.Name, "/")
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if why := wrongName(name); why != "" {
		return fault("its entry %s %s", document.Quote(h.Name), why)
	}
	part, rel, below := strings.Cut(name, "/")
	if !below {
		if part == profilePart && h.Typeflag == tar.TypeDir && directory {
			return nil // which is there
		}
		return fault("its entry %s is no part of a profile", document.Quote(h.Name))
	}
	switch part {
	case profilePart:
		if top, _, _ := strings.Cut(rel, "/"); slices.Contains(u.skip, top) || job.Keeps(top) {
			return nil
		}
		if rel == definitionName && h.Typeflag != tar.TypeReg {
			return fault("its entry %s is no file; write one in its place and export the profile again", document.Quote(h.Name))
		}
		return u.named(h, u.write(h, u.profile, rel))
	case logPart:
		if h.Typeflag != tar.TypeReg || !logName().MatchString(rel) {
			return fault("its entry %s is no file of a log", document.Quote(h.Name))
		}
		return u.named(h, u.file(h, Place{u.log.Dir, path.Join(u.log.Rel, rel)}, h.Mode&0o777|0o600))
	}
	return fault("its entry %s is no part of a profile", document.Quote(h.Name))
}

// named says of an error that is the archive's fault which entry it is of.
func (u *unpacking) named(h *tar.Header, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault("its entry %s is there twice", document.Quote(h.Name))
	case errors.Is(err, unix.ELOOP):
		return fault("its entry %s lies behind a link", document.Quote(h.Name))
	case errors.Is(err, unix.ENOTDIR):
		return fault("its entry %s lies below a file", document.Quote(h.Name))
	case errors.Is(err, fs.ErrNotExist):
		return fault("its entry %s comes before its directory", document.Quote(h.Name))
	}
	return err
}

func (u *unpacking) write(h *tar.Header, p Place, rel string) error {
	at := Place{p.Dir, path.Join(p.Rel, rel)}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := at.Dir.Mkdir(at.Rel, 0o700); err != nil {
			return err
		}
		u.directories = append(u.directories, made{at, uint32(h.Mode&0o777) | 0o700})
		return nil
	case tar.TypeReg:
		return u.file(h, at, h.Mode&0o777|0o600)
	case tar.TypeSymlink:
		if why := outside(h.Name, h.Linkname); why != "" {
			return fault("its entry %s is a link %s", document.Quote(h.Name), why)
		}
		return at.Dir.Symlink(h.Linkname, at.Rel)
	case tar.TypeLink:
		return fault("its entry %s is a second name of %s; only rlminit profile export writes what is read here",
			document.Quote(h.Name), document.Quote(h.Linkname))
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return fault("its entry %s is a device or a pipe", document.Quote(h.Name))
	}
	return fault("its entry %s is of a kind that no export has", document.Quote(h.Name))
}

func (u *unpacking) file(h *tar.Header, at Place, mode int64) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a short archive of a long file
			return fault("its entry %s is of a kind that no export has", document.Quote(h.Name))
		}
	}
	f, err := at.Dir.OpenRegular(at.Rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	failed := func(err error) error {
		return &durable.Error{Do: "write", Path: at.Dir.Path(at.Rel), Err: err, Remedy: durable.Room(err)}
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := u.tar.Read(buf)
		if n > 0 {
			if _, err := f.Write(buf[:n]); err != nil {
				return failed(durable.Bare(err))
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return unexpected(err)
		}
	}
	// By its name: the file may be another user's, and the descriptor does not help
	// then. Nobody else knows of the directory yet.
	if err := at.Dir.Chmod(at.Rel, uint32(mode)); err != nil {
		return err
	}
	if err := at.Dir.Date(at.Rel, h.ModTime); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return failed(durable.Bare(err))
	}
	return nil
}

// wrongName says what is wrong with the name of an entry, as the end of a
// sentence; "" if nothing is.
func wrongName(name string) string {
	switch {
	case path.IsAbs(name):
		return "has an absolute name"
	case name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "/../") || strings.HasSuffix(name, "/.."):
		return "climbs out of the archive"
	case name == "" || path.Clean(name) != name || strings.ContainsRune(name, 0):
		return "has a name that no export gives"
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > maxPart }):
		return fmt.Sprintf("has a name of more than %d bytes", maxPart)
	case len(name) > maxName || strings.Count(name, "/") > maxDepth+1:
		return "has a name that is too long"
	}
	return ""
}

// outside says, as the end of a sentence, that the link at a name of the archive
// leads out of the profile; "" if it does not. It may climb at its beginning
// alone, and no higher than to the profile's directory: what follows leads from a
// directory to those below, or through another link of which the same is true.
func outside(name, target string) string {
	climbs, rest := 0, target
	for rest == ".." || strings.HasPrefix(rest, "../") {
		climbs++
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".."), "/")
	}
	switch {
	case target == "" || len(target) > maxName || strings.ContainsRune(target, 0):
		return "that leads nowhere"
	case path.IsAbs(target):
		return "to an absolute path, " + document.Quote(target)
	case climbs >= strings.Count(strings.TrimSuffix(name, "/"), "/"):
		return "out of the profile, to " + document.Quote(target)
	case slices.Contains(strings.Split(rest, "/"), ".."):
		return "that climbs behind a name, to " + document.Quote(target)
	}
	return ""
}
