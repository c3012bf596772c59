package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/revision"
)

// checkedVolume is a configuration's effect on the profiles of a volume.
type checkedVolume struct {
	Volume   string          `json:"volume"`
	File     string          `json:"file"`
	Profiles int             `json:"profiles"` // on the volume
	Refused  []volumeProfile `json:"refused"`  // by the configuration
	Unread   []volumeProfile `json:"unread"`   // those that could not be read here
	Restarts []volumeProfile `json:"restarts"` // those that run with another definition
	Trash    []volumeProfile `json:"trash"`    // deleted ones that it would refuse
	Plans    []volumeProfile `json:"plans"`    // changes that it would refuse, in plans that wait
	Notes    []string        `json:"notes"`    // what could not be looked at, or is no profile
}

// volumeProfile is one profile, and what would become of it.
type volumeProfile struct {
	Profile string `json:"profile"`
	Entry   string `json:"entry,omitempty"` // its name in the trash
	Plan    string `json:"plan,omitempty"`  // the hash of the plan that changes it
	Why     string `json:"why"`
}

// checkVolume tells a configuration's effect on the profiles of a volume, where no
// rlminit need run.
func (t *terminal) checkVolume(cmd *cobra.Command, volume string, files []string) error {
	if len(files) > 1 {
		return misused(cmd, "--volume goes with one FILE")
	}
	file := slices.Concat(files, []string{configPath()})[0]
	c, err := checkConfig(file)
	if err != nil {
		return t.tellChecked([]checked{checkedFile(file, "", err)})
	}
	if c.Gateway == nil {
		return control.Failed("%s has no gateway section: no profile of %s would run with it", file, volume)
	}
	is := checkedVolume{
		Volume: volume, File: file, Refused: []volumeProfile{}, Unread: []volumeProfile{}, Restarts: []volumeProfile{},
		Trash: []volumeProfile{}, Plans: []volumeProfile{}, Notes: []string{},
	}
	outside, err := profiles.OpenOutside(volume, profiles.SettingsOf(c), is.note)
	if err != nil {
		return control.Failed("%s", unreadableVolume(err))
	}
	defer outside.Close()
	list, err := outside.List()
	if err != nil {
		return control.Failed("%s", unreadableVolume(err))
	}
	if _, err := outside.Supervisors().Lstat(journal.Home); errors.Is(err, fs.ErrNotExist) {
		is.note(fmt.Sprintf("rlminit has never run with %s, which has no %s: is it the right volume?", volume, journal.Home))
	}
	is.profiles(c, list)
	is.trash(c, outside)
	is.plans(c, outside)
	slices.Sort(is.Notes)
	return t.tellVolume(is)
}

func (v *checkedVolume) note(line string) { v.Notes = append(v.Notes, line) }

// profiles judges those that a boot with the configuration would register.
func (v *checkedVolume) profiles(c *config.Config, list []profiles.Profile) {
	v.Profiles = len(list)
	for _, p := range list {
		d, err := p.DefinitionAt(c, config.ProfileDir(c.Home, p.Name))
		if err != nil {
			list, why := &v.Refused, profiles.Reason(err)
			if p.Unread() || errors.Is(p.Fault, fs.ErrPermission) { // which a boot may be able to, or mends
				list, why = &v.Unread, unreadableVolume(p.Fault)
			}
			*list = append(*list, volumeProfile{Profile: p.Name, Why: why})
			continue
		}
		// Which of its secrets are in force is not known here.
		if why := service.StartOf(d).Differs(p.Record.Started, "secrets"); why != "" && p.Running(c.Gateway) {
			v.Restarts = append(v.Restarts, volumeProfile{Profile: p.Name, Why: why})
		}
	}
}

// trash judges the profiles that were deleted, as a restore would.
func (v *checkedVolume) trash(c *config.Config, outside *profiles.Outside) {
	deleted, err := outside.Deleted()
	if err != nil {
		v.note("the trash was not looked at: " + unreadableVolume(err))
	}
	for _, d := range deleted {
		err := d.Err
		if err == nil {
			err = fits(c, d.Profile, d.Entry+"/profile.yaml", d.Text)
		}
		if err != nil {
			v.Trash = append(v.Trash, volumeProfile{Profile: d.Profile, Entry: d.Entry, Why: unreadableVolume(err)})
		}
	}
}

// plans judges what plans would make of profiles that wait for approval.
func (v *checkedVolume) plans(c *config.Config, outside *profiles.Outside) {
	err := revision.Files{Home: outside.Supervisors()}.Waiting(func(hash string, p *plan.Plan, err error) {
		if err != nil {
			v.note(fmt.Sprintf("the plan %s cannot be read: %v", hash, err))
			return
		}
		for _, change := range p.Changes {
			if change.After == nil || change.Kind != plan.KindProfile {
				continue
			}
			text, err := plan.Text(change.After.Definition)
			if err == nil {
				err = fits(c, change.Name, "its profile.yaml", text)
			}
			if err != nil {
				v.Plans = append(v.Plans, volumeProfile{Profile: change.Name, Plan: hash, Why: profiles.Reason(err)})
			}
		}
	})
	if err != nil {
		v.note("the plans that wait for approval were not looked at: " + unreadableVolume(err))
	}
}

// unreadableVolume is why something of a volume cannot be judged: what the caller may not read is
// nobody's fault, and no owner is to be changed for it.
func unreadableVolume(err error) string {
	var e *durable.Error
	if errors.As(err, &e) && errors.Is(err, fs.ErrPermission) {
		return fmt.Sprintf("cannot read %s: check runs as uid %d without the right to; run it as root, with the capabilities that root has in a container (docker run --user 0, and no --cap-drop)", e.Path, os.Geteuid())
	}
	return profiles.Reason(err)
}

// fits names the fault of a profile.yaml, of a profile that is not there, in a
// configuration.
func fits(c *config.Config, name, file string, text []byte) error {
	if err := profiles.CheckTaken(name, profiles.SettingsOf(c).Services); err != nil {
		return err
	}
	_, faults := c.ProfileDefinition(config.Profile{
		Name: name, Dir: config.ProfileDir(c.Home, name), Port: c.Gateway.PortsOf(c.Gateway.KindNamed(config.KindIn(text))).Low,
	}, file, text)
	return faults.Err()
}

// tellVolume prints it.
func (t *terminal) tellVolume(is checkedVolume) error {
	err := answer(t, is, func() {
		line := func(what, name, why string) { t.printf("%-9s%s  %s\n", what, printable(name), printable(why)) }
		for _, p := range is.Refused {
			line("refused", p.Profile, p.Why)
		}
		for _, p := range is.Unread {
			line("unread", p.Profile, p.Why)
		}
		for _, p := range is.Restarts {
			line("restarts", p.Profile, p.Why)
		}
		for _, p := range is.Trash {
			line("trash", p.Entry, p.Why)
		}
		for _, p := range is.Plans {
			line("plan", p.Plan, p.Profile+": "+p.Why)
		}
		for _, note := range is.Notes {
			t.printf("%-9s%s\n", "note", printable(note))
		}
		t.printf("%s: %d of %d profiles would be refused, and %d restarted, by %s\n", printable(is.Volume), len(is.Refused), is.Profiles, len(is.Restarts), printable(is.File))
	})
	switch {
	case err != nil:
		return err
	case len(is.Refused) > 0:
		return exitStatus(control.ExitPending)
	case len(is.Unread) > 0:
		return exitStatus(control.ExitFailed)
	}
	return nil
}
