package config

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What init does without a configuration too: key, variable and flag.
func TestInitAbilities(t *testing.T) {
	const text = "version: 1\nparent_death: \"${SIGNAL:-INT}\"\nwarn_on_reap: true\nverbose: 1\nmain: {signal_group: true, exits: {success: [5, 78]}}\n"
	b := bundle(text)
	env := vars{}
	check := func(signal unix.Signal, warn bool, verbose int, group bool, success, fatal []int) {
		t.Helper()
		c, faults := Parse(b, env.lookup)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if c.ParentDeath != signal || c.WarnOnReap != warn || c.Verbose != verbose || c.Main.SignalGroup != group {
			t.Errorf("%v, %v, %d, %v", c.ParentDeath, c.WarnOnReap, c.Verbose, c.Main.SignalGroup)
		}
		if !slices.Equal(c.Main.Exits.Success, success) || !slices.Equal(c.Main.Exits.Fatal, fatal) {
			t.Errorf("success %v, fatal %v", c.Main.Exits.Success, c.Main.Exits.Fatal)
		}
	}
	check(unix.SIGINT, true, 1, true, []int{5, 78}, nil)
	env["SIGNAL"] = ""
	env["RLMINIT_WARN_ON_REAP"], env["RLMINIT_VERBOSE"], env["RLMINIT_SIGNAL_GROUP"], env["RLMINIT_SUCCESS"] = "no", "0", "off", "9,3"
	check(unix.SIGINT, false, 0, false, []int{0, 3, 9}, nil)
	env["RLMINIT_PARENT_DEATH"] = "SIGTERM"
	b.Flags = map[string]string{"warn_on_reap": "on", "verbose": "3", "signal_group": "on", "success": "78,75"}
	check(unix.SIGTERM, true, 3, true, []int{0, 75, 78}, nil)

	b = bundle("version: 1\nparent_death: \"${SIGNAL}\"\n")
	b.Flags, env = nil, vars{"SIGNAL": ""}
	check(0, false, 0, false, []int{0}, []int{78})
}

func TestInitAbilitiesRefused(t *testing.T) {
	env := vars{
		"RLMINIT_PARENT_DEATH": "TREM", "RLMINIT_WARN_ON_REAP": "maybe", "RLMINIT_VERBOSE": "4", "RLMINIT_SUCCESS": "1,256",
		"RLMINIT_SIGNAL_GROUP": "group",
	}
	for variable, want := range map[string]string{
		"RLMINIT_PARENT_DEATH": `RLMINIT_PARENT_DEATH: "TREM" is no signal; write TERM or KILL, say`,
		"RLMINIT_WARN_ON_REAP": `RLMINIT_WARN_ON_REAP: "maybe" is refused; write on or off`,
		"RLMINIT_VERBOSE":      `RLMINIT_VERBOSE: "4" is refused; write a whole number from 0 to 3`,
		"RLMINIT_SUCCESS":      `RLMINIT_SUCCESS: "256" is no exit code; write 0 to 255`,
		"RLMINIT_SIGNAL_GROUP": `RLMINIT_SIGNAL_GROUP: "group" is refused; write on or off`,
	} {
		_, faults := Parse(bundle("version: 1\n"), vars{variable: env[variable]}.lookup)
		if got := faults.Error(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	_, faults := Parse(bundle("version: 1\nparent_death: NOSUCH\nverbose: 9\n"), nil)
	const want = "rlminit.yaml:2: parent_death: \"NOSUCH\" is no signal; write TERM or KILL, say\n" +
		"rlminit.yaml:3: verbose: \"9\" is refused; write a whole number from 0 to 3"
	if got := faults.Error(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
