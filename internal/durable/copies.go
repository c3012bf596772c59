package durable

import (
	"path"

	"golang.org/x/sys/unix"
)

// Copies are files that are written together, and none of which has to outlive a
// power cut.
type Copies struct {
	Files []string
	Texts [][]byte // for each of Files
	Was   [][]byte // what each text takes the place of: Write.Over
	Mode  uint32
}

// WriteBelow does WriteFile, with Over and Loose, of those files below d whose
// directory belongs to whom it is done as; it costs hands one errand. It returns those
// for which it was not done, or nobody knows, which takes a closer look.
func (c Copies) WriteBelow(d *Dir) (left []string) {
	if d.hands != nil {
		a, _, err := d.ask(Request{Op: OpCopies, Rels: c.Files, Texts: c.Texts, Wases: c.Was, Mode: c.Mode})
		if err != nil {
			return c.Files
		}
		for _, e := range a.Entries {
			left = append(left, e.Name)
		}
		return left
	}
	for i, file := range c.Files {
		if i >= len(c.Texts) || i >= len(c.Was) || c.write(d, i) != nil {
			left = append(left, file)
		}
	}
	return left
}

func (c Copies) write(d *Dir, i int) error {
	in, base := path.Split(c.Files[i])
	in = path.Clean(in)
	fd, err := openUnmounted(d.fd, in)
	if err != nil {
		return err
	}
	own := &Dir{fd: fd, path: d.Path(in), fault: d.fault}
	defer own.Close()
	at, err := own.lstat(".")
	if err != nil {
		return err
	}
	if us, _ := rights(); int(at.Uid) != us {
		return unix.EPERM
	}
	return own.WriteFile(base, c.Texts[i], Write{Mode: c.Mode, Loose: true, Over: true, Was: c.Was[i]})
}
