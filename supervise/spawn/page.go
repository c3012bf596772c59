package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"rlminit/config"
	"rlminit/rights"
	"rlminit/service"
)

// IsPage tells whether a service is the one that the section page makes.
func (p *Preparer) IsPage(d *service.Definition) bool {
	return d.Name == config.PageService && p.Config().Page != nil
}

// ErrPageUntold is of a page that has neither a uid nor a tag of its own: the control
// socket would take it for the service user.
var ErrPageUntold = errors.New("nothing tells it from the service user here, and so it could do anything: page needs a container that runs as root, or one that can set tags; see rlminit doctor")

// checkPage says why the page's program is not run: it is started with access to all
// services, and so root alone may be able to put another one in its place.
func checkPage(program string) error {
	for _, path := range []string{filepath.Dir(program), program} {
		if err := config.OnlyRoots(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no %s: the page is a program of its own, which belongs beside rlminit; put it there, or take page out of the configuration", program)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkToken refuses a token, or a key, that the services' user can read, where we are
// somebody else: any service could use the page with it.
func checkToken(services *rights.User, files map[string]string) error {
	for _, name := range []string{"token", "key"} {
		if files[name] == "" || services == nil {
			continue
		}
		file, err := services.Open(files[name])
		if err == nil {
			file.Close()
			return fmt.Errorf("cannot use %s: services can read it; make it the supervisor's alone: chown %s, chmod 400", files[name], config.SupervisorUser)
		}
	}
	return nil
}
