package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/document"
	"rlminit/service"
)

func checkVerb(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE…]",
		Short: "validate configuration and definitions, and run nothing",
		Long: `Reads each file and prints every fault with its file, line and field. A
profile.yaml and the files of a services.d are taken as what they are, a
service.yaml as the definition of the service that its directory is named
after, and all else as a configuration with the services.d beside it. Without
FILE it checks the configuration that init would read here, and whether it can
be had in this place. The exit code is 0 if there is no fault, and 1 otherwise.`,
		Example: `  rlminit check
  docker run --rm -v "$PWD:/x:ro" IMAGE rlminit check /x/rlminit.yaml`,
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return checkHere(t)
			}
			faulty := false
			for _, file := range files {
				if !t.verdict(file, check(file)) {
					faulty = true
				}
			}
			if faulty {
				return exitStatus(control.ExitFailed)
			}
			return nil
		},
	}
}

// verdict prints what was found of a file, and tells whether it is valid.
func (t *terminal) verdict(file string, err error) bool {
	if err == nil {
		t.printf("%s: valid\n", printable(file))
		return true
	}
	for line := range strings.Lines(err.Error()) {
		t.complain(line)
	}
	return false
}

// check finds the faults of one file.
func check(file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return control.Failed("cannot check %s: %v", file, err)
	}
	dir := filepath.Dir(file)
	switch base := filepath.Base(file); {
	case base == "profile.yaml":
		return checkProfile(file)
	case base == "service.yaml":
		return checkService(file, filepath.Base(dir))
	case filepath.Base(dir) == "services.d":
		return checkService(file, strings.TrimSuffix(base, ".yaml"))
	}
	_, err = checkConfig(file)
	return err
}

// checkConfig finds the faults of a configuration.
func checkConfig(file string) (*config.Config, error) {
	bundle, err := config.ReadUntrusted(file)
	if err != nil {
		return nil, err
	}
	c, faults := config.Parse(bundle, os.LookupEnv)
	return c, faults.Err()
}

// checkHere finds the faults of the configuration that init would read, and
// what this place would refuse of it.
func checkHere(t *terminal) error {
	path := configPath()
	host, err := config.ThisHost()
	if err != nil {
		return control.Failed("%v", err)
	}
	bundle, err := config.ReadBundle(path)
	if errors.Is(err, fs.ErrNotExist) {
		return control.Failed("cannot check %s: there is no such file, so rlminit init is a pure init; name another with rlminit check FILE", path)
	}
	if err == nil {
		c, faults := config.Parse(bundle, host.Lookup)
		if err = faults.Err(); err == nil {
			_, err = config.Compile(c, host, nil)
		}
	}
	if !t.verdict(path, err) {
		return exitStatus(control.ExitFailed)
	}
	return nil
}

// checkService finds the faults of a static service's definition.
func checkService(file, name string) error {
	data, err := config.ReadUntrustedFile(file, service.MaxSize)
	if err != nil {
		return err
	}
	_, faults := service.Decode(file, name, data, os.LookupEnv)
	return faults.Err()
}

// checkProfile finds the faults of a profile.yaml, which changes what the
// configuration says of every gateway.
func checkProfile(file string) error {
	c, err := checkConfig(configPath())
	if err != nil {
		return control.Failed("cannot check %s: the configuration that it changes cannot be used: %v", file, firstLine(err))
	}
	if c.Gateway == nil {
		return control.Failed("cannot check %s: %s has no gateway section, so there are no profiles", file, configPath())
	}
	data, err := config.ReadUntrustedFile(file, document.MaxSize)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	profile := config.Profile{Name: filepath.Base(dir), Dir: dir, Port: c.Gateway.Ports.Low}
	_, faults := c.ProfileDefinition(profile, file, data)
	return faults.Err()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// configPath is where init looks for the configuration when no flag names it.
func configPath() string {
	if path := os.Getenv("RLMINIT_CONFIG"); path != "" {
		return path
	}
	return config.DefaultPath
}
