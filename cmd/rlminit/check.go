package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/process"
)

// checked is the outcome for a file.
type checked struct {
	File   string       `json:"file"`
	Valid  bool         `json:"valid"`
	Note   string       `json:"note,omitempty"` // the parts not looked at, or not as they seem
	Faults []checkFault `json:"faults"`
}

type checkFault struct {
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	said  string // in one line
}

func checkVerb(t *terminal) *cobra.Command {
	volume := ""
	cmd := forPrograms(t, &cobra.Command{
		Use:   "check [FILE…]",
		Short: "validate configuration and definitions, and run nothing",
		Long: `Reads each file and prints every fault with its file, line and field. A
profile.yaml and a file of services.d are checked as such, a service.yaml as the
definition of the service that its directory is named after, and any other file
as a configuration with the services.d beside it. Without FILE it checks the
configuration that init would read here.

It also checks whether the configuration can work in this place: without FILE;
for a profile.yaml of this volume, whose program, directory and secrets it looks
for; for a service that has the name of a profile of this volume; and for every
configuration in a container of rlminit. Elsewhere it assumes a container that
begins as root, and does not fault users that are unknown here; RLMINIT_USER
stands for the user of docker run --user. As a container's command, check starts
nothing else. If the delays between restarts are so long that a restart limit
cannot be reached within its window, a line says so, but that is no fault. The
exit code is 0 if there is no fault, and 1 otherwise.

With --volume it says which profiles of the volume at PATH the configuration
would refuse, which gateways that run it defines otherwise than when they were
started, and which waiting plans and profiles in the trash do not fit it. No
rlminit need run. Nothing is locked or changed, no secret is read, and root
reads with the rights of the owners. Exit code: 14 if a profile is refused, else
1 if one cannot be read. With --json: an object, which docs/json.md has.

With --json: an array of objects with file, valid, note (what was not checked,
or does not do what it seems to; absent if there is nothing) and faults: each
with text, and, if they apply, file, line and field.`,
		Example: `  rlminit check
  rlminit check rlminit.yaml --json | jq -r '.[].faults[] | "\(.line): \(.text)"'
  docker run --rm -v "$PWD:/x:ro" IMAGE rlminit check /x/rlminit.yaml
  docker run --rm -v box-data:/data:ro NEWIMAGE rlminit check --volume /data`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if volume != "" {
				return t.checkVolume(cmd, volume, files)
			}
			all := []checked{}
			for _, file := range files {
				note, err := check(file)
				all = append(all, checkedFile(file, note, err))
			}
			if len(files) == 0 {
				note, faults, err := checkHere(configPath())
				if err != nil {
					return err
				}
				all = append(all, checkedFile(configPath(), note, faults))
			}
			return t.tellChecked(all)
		},
	}, "write a JSON array")
	cmd.Flags().StringVar(&volume, "volume", "", "show the configuration's effect on the profiles of the volume at `PATH`")
	return cmd
}

// checkedFile is the outcome for a file; err has its faults.
func checkedFile(file, note string, err error) checked {
	c := checked{File: file, Valid: err == nil, Note: strings.TrimPrefix(note, "; "), Faults: []checkFault{}}
	var faults document.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			c.Faults = append(c.Faults, checkFault{f.File, f.Line, f.Field, f.Text, f.Error()})
		}
	case err != nil:
		c.Faults = append(c.Faults, checkFault{Text: err.Error(), said: err.Error()})
	}
	return c
}

// tellChecked prints the outcome.
func (t *terminal) tellChecked(all []checked) error {
	faulty := slices.ContainsFunc(all, func(c checked) bool { return !c.Valid })
	if t.json {
		if err := t.printJSON(all); err != nil {
			return err
		}
		all = nil
	}
	for _, c := range all {
		if note := c.Note; c.Valid {
			if note != "" {
				note = "; " + note
			}
			t.printf("%s: valid%s\n", printable(c.File), printable(note))
		}
		for _, f := range c.Faults {
			t.complain(f.said)
		}
	}
	if faulty {
		return exitStatus(control.ExitFailed)
	}
	return nil
}

// check finds the faults of one file, which they name as it was given.
func check(file string) (note string, err error) {
	full, err := filepath.Abs(file)
	if err != nil {
		return "", control.Failed("cannot check %s: %v", file, err)
	}
	dir := filepath.Dir(full)
	switch base := filepath.Base(full); {
	case base == "profile.yaml":
		return checkProfile(file, dir)
	case base == "service.yaml":
		return checkService(file, filepath.Base(dir))
	case filepath.Base(dir) == "services.d":
		return checkService(file, strings.TrimSuffix(base, ".yaml"))
	}
	c, err := checkConfig(file)
	switch {
	case err != nil && isDeclaredSet(full):
		return "", control.BadRequest("%s is a declared set of profiles, and no configuration; rlminit plan -f %s says what is wrong with it, and what it would change", file, file)
	case err != nil:
		return "", err
	case control.Open().UnderInit():
		return limits(c) + unlimited(c), checkCompiled(c)
	}
	note, err = checkUser(c)
	return note + limits(c), err
}

// unlimited says which limits and guards of a configuration are not in force in this place.
func unlimited(c *config.Config) (note string) {
	host, err := hostOfInit()
	if err != nil {
		return "" // which is said as a fault
	}
	for _, one := range c.Unlimited(host) {
		note += "; but " + one
	}
	return note
}

// isDeclaredSet tells whether a file declares profiles, as those for rlminit plan do, and no
// configuration does.
func isDeclaredSet(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	declared, _ := plan.Parse(path, filepath.Dir(path), text) // its faults are for rlminit plan
	return len(declared.Profiles) > 0
}

// limits says which restart limits of a configuration, and what else of it, do not hold what
// they seem to.
func limits(c *config.Config) (note string) {
	if g := c.Gateway; g != nil {
		samples := g.Samples(c)
		for _, section := range slices.Sorted(maps.Keys(samples)) {
			note += limit(section, samples[section])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		note += limit("services."+name, c.Services[name])
	}
	for _, caution := range c.Cautions() {
		note += "; but " + strings.ReplaceAll(caution, "; ", ": ")
	}
	return note
}

// limit is limits for one definition.
func limit(what string, d *service.Definition) string {
	takes, is := d.Restart.Unreachable()
	if !is {
		return ""
	}
	note := fmt.Sprintf("; but %s.restart: %d restarts take %s at the least, so limit is never reached within a window of %s",
		what, d.Restart.Limit, takes.Round(100*time.Millisecond), d.Restart.Window)
	if d.Ready != nil {
		note += " by runs that were ready"
	}
	return note + "; write a longer window or a lower limit"
}

// checkCompiled says what init would refuse of a configuration in this place, which is
// a container of rlminit's.
func checkCompiled(c *config.Config) error {
	host, err := hostOfInit()
	if err == nil {
		_, err = config.Compile(c, host, nil)
	}
	return err
}

// hostOfInit is this place as init finds it: where PID 1 is rlminit and another user
// than the caller, with the caller's rights.
func hostOfInit() (config.Host, error) {
	host, err := config.ThisHost()
	if err == nil && control.Open().UnderInit() {
		host = host.Of(1)
	}
	return host, err
}

// checkConfig finds the faults of a configuration. They name its files by the
// directory too: many are called rlminit.yaml.
func checkConfig(file string) (*config.Config, error) {
	bundle, err := config.ReadUntrusted(file)
	if err != nil {
		return nil, err
	}
	c, faults := config.Parse(bundle, os.LookupEnv)
	return c, in(filepath.Dir(file), faults)
}

// in puts faults of files that are named from a directory on into words.
func in(dir string, faults config.Faults) error {
	for i := range faults {
		if faults[i].File != "" {
			faults[i].File = filepath.Join(dir, faults[i].File)
		}
	}
	return faults.Err()
}

// checkUser says whether there is the user of a configuration, and that it is not
// root: init is root, unless the container is told otherwise. What is not known here may
// be known in the image that the file is for.
func checkUser(c *config.Config) (note string, err error) {
	host, err := config.ThisHost()
	if err != nil {
		return "", err
	}
	err = config.CheckUser(c, host.Accounts)
	if err != nil && !errors.Is(err, config.ErrRoot) && !errors.Is(err, config.ErrNoUser) {
		return "; but in this place " + err.Error(), nil
	}
	return "", err
}

// checkHere finds the faults of the configuration that init would read, and
// what this place would refuse of it. An error keeps it from looking.
func checkHere(path string) (note string, faults, err error) {
	host, err := hostOfInit()
	if err != nil {
		return "", nil, control.Failed("%v", err)
	}
	bundle, err := config.ReadBundle(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, control.Failed("cannot check %s: there is no such file, so rlminit init is a pure init; name another with rlminit check FILE", path)
	}
	if err == nil {
		c, faults := config.Parse(bundle, host.Lookup)
		if err = in(filepath.Dir(path), faults); err == nil {
			_, err = config.Compile(c, host, nil)
			note = limits(c)
			if control.Open().UnderInit() { // else PID 1 has no cgroups to give
				note += unlimited(c)
			}
		}
		if err == nil {
			err = checkNames(c, path)
		}
		if err == nil && !control.Open().UnderInit() { // the caller may be no root, as init will be
			err = config.CheckUser(c, host.Accounts)
		}
	}
	return note, err, nil
}

// checkNames says which services have the name of a profile on this volume. The caller
// may not look into one that has a user of its own: then its directory is enough.
func checkNames(c *config.Config, path string) error {
	var faults document.Faults
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if c.Gateway == nil {
			break
		}
		dir := filepath.Join(c.Home, config.ProfilesDir, name)
		if there, err := os.Lstat(dir); err != nil || !there.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, c.Gateway.Marker)); err == nil || errors.Is(err, fs.ErrPermission) {
			faults = append(faults, document.Fault{
				File: path, Field: "services." + name,
				Text: fmt.Sprintf("is the name of the profile in %s, which cannot be run then; give one of them another: rlminit profile rename %s NEW", dir, name),
			})
		}
	}
	return faults.Err()
}

// checkService finds the faults of a static service's definition.
func checkService(file, name string) (note string, err error) {
	data, err := config.ReadUntrustedFile(file, service.MaxSize)
	if err != nil {
		return "", err
	}
	d, faults := service.Decode(file, name, data, os.LookupEnv)
	if err := faults.Err(); err != nil {
		return "", err
	}
	return limit(name, d), nil
}

// checkProfile finds the faults of a profile.yaml, which changes what the
// configuration says of every gateway; of one on this volume also what its gateway
// would not find here.
func checkProfile(file, dir string) (note string, err error) {
	c, err := checkConfig(configPath())
	if err != nil {
		return "", control.Failed("cannot check %s: the configuration that it changes cannot be used: %v", file, firstLine(err.Error()))
	}
	if c.Gateway == nil {
		return "", control.Failed("cannot check %s: %s has no gateway section, so there are no profiles", file, configPath())
	}
	data, err := config.ReadUntrustedFile(file, document.MaxSize)
	if err != nil {
		return "", err
	}
	profile := config.Profile{Name: filepath.Base(dir), Dir: dir, Port: c.Gateway.PortsOf(c.Gateway.KindNamed(config.KindIn(data))).Low}
	here := filepath.Dir(dir) == filepath.Join(c.Home, config.ProfilesDir)
	if here {
		if err := profiles.CheckName(profile.Name, profiles.SettingsOf(c).Services); err != nil {
			return "", control.Failed("%s: its directory is no profile: %v", file, err)
		}
	}
	d, faults := c.ProfileDefinition(profile, file, data)
	if err := faults.Err(); err != nil {
		return "", err
	}
	note = limit(profile.Name, d)
	if here {
		err = checkPlace(c, profile, d, file)
	}
	return note, err
}

// checkPlace says what a gateway would not find: a secret, its directory, its
// program. It sees no more than the caller may see.
func checkPlace(c *config.Config, profile config.Profile, d *service.Definition, file string) error {
	host, err := config.ThisHost()
	if err != nil {
		return err
	}
	id, err := config.Identify(c, host)
	if err != nil {
		return err
	}
	env, err := config.Environment(c, id, host.Environ, d, profile)
	if err == nil {
		err = process.Prepare(process.Ourselves, process.WhereOf(d, id.Home), d.Command, env).Err
	}
	if err != nil {
		return control.Failed("%s: %v", file, err)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
