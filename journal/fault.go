package journal

// faulty is a disk whose faults a test decides.
type faulty struct {
	disk
	fault func(call string) error
}

type faultyFile struct {
	file
	fault func(call string) error
}

func (d faulty) wrap(f file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d.fault}, nil
}

func (d faulty) create(name string) (file, error) {
	if err := d.fault("write"); err != nil {
		return nil, err
	}
	return d.wrap(d.disk.create(name))
}

func (d faulty) open(name string, write bool) (file, error) {
	return d.wrap(d.disk.open(name, write))
}

func (d faulty) rename(from, to string) error {
	if err := d.fault("write"); err != nil {
		return err
	}
	if err := d.disk.rename(from, to); err != nil {
		return err
	}
	return d.fault("sync")
}

func (d faulty) remove(name string) error {
	if err := d.fault("write"); err != nil {
		return err
	}
	return d.disk.remove(name)
}

func (d faulty) named(name string, f file) bool { return d.disk.named(name, f.(faultyFile).file) }

func (d faulty) sync() error {
	if err := d.fault("sync"); err != nil {
		return err
	}
	return d.disk.sync()
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fault("write"); err != nil {
		return 0, err
	}
	return f.file.WriteAt(b, at)
}

func (f faultyFile) truncate(size int64) error {
	if err := f.fault("write"); err != nil {
		return err
	}
	return f.file.truncate(size)
}

func (f faultyFile) sync() error {
	if err := f.fault("sync"); err != nil {
		return err
	}
	return f.file.sync()
}
