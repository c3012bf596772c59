package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"rlminit/config"
	"rlminit/internal/trust"
	"rlminit/service"
)

// IsPage tells whether a service is the one that the section page makes.
func (p *Preparer) IsPage(d *service.Definition) bool {
	return d.Name == config.PageService && p.Config().Page != nil
}

// ErrPageUntold is of a page that has neither a uid nor a tag of its own: the control
// socket would take it for the service user.
var ErrPageUntold = errors.New("nothing tells it from the service user here, and so it could do anything: page needs a container that runs as root, or one that can set tags; see rlminit doctor")

// checkPage says why the page is not run. It is started with access to all services, and so
// root alone may be able to put another program in its place; and the services' user, where
// we are somebody else, may not be able to read its token or key: any service could use the
// page with it.
func (p *Preparer) checkPage(d *service.Definition) error {
	program := d.Command[0]
	for _, path := range []string{filepath.Dir(program), program} {
		if err := trust.OnlyRoots(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no %s: the page is a program of its own, which belongs beside rlminit; put it there, or take page out of the configuration", program)
		} else if err != nil {
			return err
		}
	}
	for _, secret := range []string{d.Secrets["token"], d.Secrets["key"]} {
		if secret == "" || p.User == nil {
			continue
		}
		if file, err := p.User.Open(secret); err == nil {
			file.Close()
			us := p.Policy.Supervisor
			return fmt.Errorf("cannot use %s: services can read it; make it the supervisor's alone: chown %d:%d and chmod 400", secret, us.UID, us.GID)
		}
	}
	return nil
}
