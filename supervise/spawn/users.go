package spawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/prepare"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/wire"
)

// ProfileUsers are the users that profiles can have, and who changes owners; nil where nobody
// can. Where profiles can have no users, root's files are the services' user's for the asking.
func (p *Preparer) ProfileUsers() profiles.Owners {
	if p.Files == nil {
		return nil
	}
	return profileOwners{p}
}

// profileOwners is profiles.Owners.
type profileOwners struct{ *Preparer }

func (o profileOwners) Auto() bool { return o.Policy.Profiles.Auto }
func (o profileOwners) Range() (low, high uint32) {
	return o.Policy.Profiles.Low, o.Policy.Profiles.High
}
func (o profileOwners) Services() uint32                 { return o.Policy.User.UID }
func (o profileOwners) Helper(uid uint32) durable.Helper { return o.User.As(uid) }
func (o profileOwners) Give(uid uint32, directory int) (durable.Handed, error) {
	return o.Files.owner(wire.GiveProgram, uid, directory)
}

func (o profileOwners) Take(uid uint32, directory int) (durable.Handed, error) {
	return o.Files.owner(wire.TakeProgram, uid, directory)
}

// Own is Owners'.
func (o profileOwners) Own(profile string) (did durable.Handed, err error) {
	said, err := o.Files.answered(&wire.Spawn{Name: wire.OwnProgram, Targets: []int32{1}, Argv: []string{profile}})
	if err != nil {
		return did, err
	}
	did, done := prepare.ParseAnswer(strings.TrimSuffix(said, "\n"))
	if !done {
		err = errors.New(strings.TrimPrefix(strings.TrimSuffix(said, "\n"), wire.Failed))
	}
	return did, err
}

// Settle is Owners'.
func (o profileOwners) Settle() error { return o.Files.settle("") }

// ownerWithin bounds how long a directory may take to change hands, before its file
// system is said not to answer. What is left then is done at the next start.
const ownerWithin = 10 * time.Minute

// madeWithin bounds how long it may take to make the supervisor's directories again: what is
// to be recorded waits for it.
const madeWithin = 20 * time.Second

var errSilent = errors.New("its file system does not answer")

// errNotGiven is of a process that was not started, or did not come to its end: it is
// tried again.
var errNotGiven = errors.New("the process that does that has ended before; try again")

// owner has tier 1 change whose a directory is, and waits for it.
func (f *Files) owner(program string, uid uint32, directory int) (did durable.Handed, err error) {
	given, err := unix.FcntlInt(uintptr(directory), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return did, err
	}
	said, err := f.answered(&wire.Spawn{Name: program, UID: uid, Targets: []int32{wire.GivenFD, wire.AnswerFD}}, given)
	if err != nil {
		return did, err
	}
	did, done := prepare.ParseAnswer(said)
	if !done {
		err = errors.New(said)
	}
	return did, err
}

// answered has one of the programs that change owners run with descriptors, which it closes,
// and a last one for its answer, and waits for that. Without an answer it is an error.
func (f *Files) answered(m *wire.Spawn, fds ...int) (said string, err error) {
	var ends [2]int
	var limit time.Duration
	began := time.Now()
	if m.Name == wire.DirectoriesProgram {
		limit = madeWithin
	}
	if err = f.settle(m.Name); err == nil {
		err = f.turn(m.Name, limit)
	}
	if err == nil {
		if err = unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			f.leave(f.turns(m.Name))
		}
	}
	if err != nil {
		wire.CloseAll(fds)
		return "", err
	}
	answer := os.NewFile(uintptr(ends[0]), m.Name)
	defer answer.Close()
	fds = append(fds, ends[1])
	until := time.Now().Add(ownerWithin)
	if limit > 0 {
		until = began.Add(limit)
	}
	_, ended := f.spawn(m, fds, fds)
	if err := answer.SetReadDeadline(until); err != nil {
		return "", err
	}
	text := make([]byte, 4096)
	n := 0
	for n < len(text) {
		more, err := answer.Read(text[n:])
		n += more
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", errSilent
		}
		if err != nil {
			break
		}
	}
	if n == 0 {
		return "", notGiven(ended)
	}
	return string(text[:n]), nil
}

// notStarted is errNotGiven of a process that could not be started.
type notStarted struct{ why string }

func (e notStarted) Error() string        { return e.why }
func (e notStarted) Is(target error) bool { return target == errNotGiven }

// notGiven is why a process has answered nothing: what tier 1 says of it comes another
// way, and perhaps later.
func notGiven(ended <-chan string) error {
	select {
	case why := <-ended:
		if why != "" {
			return notStarted{why}
		}
	case <-time.After(time.Second):
	}
	return errNotGiven
}

// userWithin is how long a user that is given to a profile may take to be recorded.
const userWithin = 10 * time.Second

// OwnUser is who a service's processes are, and who touches what it names: of a
// profile with a user of its own that one, and its files are its own when this
// returns; else 0, for the services' user.
func (p *Preparer) OwnUser(d *service.Definition) (uint32, *rights.User, error) {
	if p.IsPage(d) {
		return p.Policy.Profiles.Page, p.User, nil
	}
	store := p.Volume.Store()
	if d.Profile == "" || store == nil || p.Policy.Profiles.Low == 0 {
		if d.Profile != "" && p.Policy.Profiles.Auto && d.Profile != profiles.Default {
			return 0, nil, fmt.Errorf("profile %s has no user: %s", d.Profile, p.Volume.Absent())
		}
		return 0, p.User, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), userWithin)
	defer cancel()
	uid, err := store.Ownership.User(ctx, d.Profile)
	if err != nil || uid == 0 {
		return 0, p.User, err
	}
	return uid, p.User.As(uid), nil
}

// Identity is who a service with a profile's user, or 0, is.
func (p *Preparer) Identity(uid uint32, d *service.Definition) wire.Identity {
	switch {
	case uid == 0:
		return p.Policy.User
	case p.IsPage(d):
		return wire.Identity{UID: uid, GID: uid, Name: config.PageService, Home: "/"}
	}
	return wire.Identity{
		UID: uid, GID: uid, Groups: p.Policy.Profiles.Groups, Name: fmt.Sprint(uid),
		Home: config.ProfileDir(p.Config().For(d.Name).Home, d.Profile),
	}
}

// RecordedUser is ownUser without a change of anything: for what is looked at.
func (p *Preparer) RecordedUser(d *service.Definition) (uint32, *rights.User) {
	if p.IsPage(d) {
		return p.Policy.Profiles.Page, p.User
	}
	store := p.Volume.Store()
	if d.Profile == "" || store == nil {
		return 0, p.User
	}
	if uid := store.Ownership.Recorded(d.Profile); uid != 0 {
		return uid, p.User.As(uid)
	}
	return 0, p.User
}

// reader is who reads the files that the environment of a profile with its own user
// is made of: what root's configuration names, the services' user, but what lies in
// the profile's directory, or is named by its own file, that user. Nobody can have
// the one read for it what only the other may.
func (p *Preparer) reader(d *service.Definition, uid uint32, of config.Profile) config.Reader {
	if uid == 0 {
		return nil
	}
	base := sync.OnceValue(func() *service.Definition {
		of.Kind = d.Kind
		base, _ := p.Config().For(d.Name).GatewayDefinition(of)
		return base
	})
	kinds := func(file string) bool {
		return slices.Contains(base().EnvFile, file) || slices.Contains(base().EnvFile, "?"+file)
	}
	return func(variable, file string) *rights.User {
		switch {
		case strings.HasPrefix(file, of.Dir+"/"):
		case variable == "" && kinds(file):
			return p.User
		case variable == "":
		case base().Environment[variable] == d.Environment[variable]:
			return p.User
		}
		return p.User.As(uid)
	}
}

// secretReader is the same for secrets, all of which root's configuration names. Those of
// the page are kept from services, and we read them ourselves.
func (p *Preparer) secretReader(d *service.Definition) func(file string) *rights.User {
	if p.IsPage(d) {
		return func(string) *rights.User { return nil }
	}
	uid, user := p.RecordedUser(d)
	if uid == 0 {
		return func(string) *rights.User { return p.User }
	}
	dir := config.ProfileDir(p.Config().For(d.Name).Home, d.Profile)
	return func(file string) *rights.User {
		if strings.HasPrefix(file, dir+"/") {
			return user
		}
		return p.User
	}
}
