package s6

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// scanDirs are the paths by which users of s6 name what is supervised as a whole.
var scanDirs = []string{"/run/service", "/var/run/service", "/run/s6/services", "/var/run/s6/services", "/run/s6-rc/servicedirs", "/service", "/etc/service", "/services"}

// serviceOf is the name of the service whose directory a path is: its last element.
func serviceOf(path string) (string, error) {
	if path == "" {
		return "", syscall.ENOENT
	}
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) && (path == "." || filepath.Base(path) == "..") {
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = filepath.Join(here, path)
	}
	name := filepath.Base(path)
	if isScanDir(path) || name == "/" || name == ".." {
		return "", fmt.Errorf("it is no service's directory; write %s/NAME", path)
	}
	return name, nil
}

// isScanDir tells whether a path names all services.
func isScanDir(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if slices.Contains(scanDirs, path) {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	return err == nil && filepath.Base(real) == "services" && isRuntime(filepath.Dir(real))
}
