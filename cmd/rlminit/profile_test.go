package main

import (
	"testing"
	"time"

	"rlminit/control"
)

func aliceProfile() control.Profile {
	return control.Profile{
		Name: "alice", Profile: "alice", Kind: "default", Dir: "/data/profiles/alice", Service: "gateway-alice", Port: ptr(9471),
		Desired: "running", State: "running", Environment: map[string]string{"TOKEN": "a b", "LANG": "C"},
	}
}

func TestProfileCreate(t *testing.T) {
	tell(t, map[string]any{"POST /v1/profiles": control.Outcome{Service: alice(), Changed: true}}, []story{
		{
			args: []string{"profile", "create", "alice"}, out: "alice: running (pid 42, port 9471, 0.0s)\n",
			asks: []string{`POST /v1/profiles {"name":"alice","wait":{}}`},
		},
		{
			name: "all flags", args: []string{"profile", "create", "--stopped", "--env", "A=b=c", "--env=D=", "--port", "9300", "--exist-ok", "--no-wait", "alice"},
			out:  "alice: running (pid 42, port 9471)\n",
			asks: []string{`POST /v1/profiles {"name":"alice","stopped":true,"environment":{"A":"b=c","D":""},"port":9300,"exist_ok":true}`},
		},
		{args: []string{"profile", "create", "x", "--env", "A"}, code: 2, err: "rlminit: \"A\" is no variable; write KEY=VALUE; see rlminit help profile create\n", asks: []string{}},
		{args: []string{"profile", "create", "x", "--port", "0"}, code: 2, err: "rlminit: --port takes 1 to 65535, not 0; see rlminit help profile create\n"},
		{args: []string{"profile", "create", "x", "--port", "y"}, code: 2, err: "rlminit: --port: \"y\": write a whole number; see rlminit help profile create\n"},
		{args: []string{"profile", "create"}, code: 2, err: "rlminit: NAME is missing; see rlminit help profile create\n"},
		{args: []string{"profile", "craete", "x"}, code: 2, err: "rlminit: no verb \"craete\" of profile; did you mean \"create\"?\n"},
	})
	kept := alice()
	kept.State, kept.PID = "stopped", nil
	tell(t, map[string]any{"POST /v1/profiles": control.Outcome{Service: kept}}, []story{
		{args: []string{"profile", "create", "alice", "--exist-ok"}, out: "alice: already stopped (port 9471)\n"},
	})
	kept.Port = nil
	tell(t, map[string]any{"POST /v1/profiles": control.Outcome{Service: kept, Changed: true}}, []story{
		{name: "none wanted", args: []string{"profile", "create", "alice", "--stopped"}, out: "alice: stopped\n"},
	})
	const full = "no port: all of gateway.ports are taken"
	tell(t, map[string]any{"POST /v1/profiles": control.Outcome{Service: kept, Changed: true, Note: full}}, []story{
		{name: "full", args: []string{"profile", "create", "alice", "--stopped"}, out: "alice: stopped; no port: all of gateway.ports are taken\n"},
	})
	tell(t, map[string]any{"POST /v1/profiles": control.NewProblem(control.KindExists, `profile "alice" exists already; use --exist-ok to keep it as it is`)}, []story{
		{name: "exists", args: []string{"profile", "create", "alice"}, code: 17, err: "rlminit: profile \"alice\" exists already; use --exist-ok to keep it as it is\n"},
	})
	tell(t, map[string]any{"POST /v1/profiles": control.Outcome{Service: bob(), Changed: true, Problem: control.Failed("bob: cannot run \"agent\": not found in PATH (/bin)")}}, []story{
		{name: "fails", args: []string{"profile", "create", "bob"}, code: 1, err: "rlminit: bob: cannot run \"agent\": not found in PATH (/bin)\n"},
	})
}

func TestProfileDelete(t *testing.T) {
	tell(t, map[string]any{
		"DELETE /v1/profiles/alice": control.Deleted{Trash: "/data/trash/alice-2026-05-24"},
		"DELETE /v1/profiles/bob":   control.Deleted{},
		"DELETE /v1/profiles/carol": control.Deleted{LogLeft: "/data/logs/gateways/carol"},
		"DELETE /v1/profiles/alcie": control.NoSuchProfile("alcie", []string{"alice"}),
	}, []story{
		{args: []string{"profile", "delete", "alice"}, out: "alice: deleted; its directory is now /data/trash/alice-2026-05-24\n", asks: []string{"DELETE /v1/profiles/alice"}},
		{args: []string{"profile", "delete", "--purge", "bob"}, out: "bob: deleted\n", asks: []string{"DELETE /v1/profiles/bob?purge=true"}},
		{
			args: []string{"profile", "delete", "--purge", "carol"}, out: "carol: deleted\n",
			err: "rlminit: cannot remove the log of carol: it lies behind a symbolic link, which is not followed; remove it yourself: rm -r /data/logs/gateways/carol\n",
		},
		{args: []string{"profile", "delete", "alcie"}, code: 4, err: "rlminit: no profile \"alcie\"; did you mean \"alice\"?\n"},
	})
}

func TestProfileListAndShow(t *testing.T) {
	tell(t, map[string]any{"GET /v1/profiles": []control.Profile{aliceProfile()}, "GET /v1/profiles/alice": aliceProfile()}, []story{
		{args: []string{"profile", "list"}, out: `NAME   STATE    DESIRED  PORT  DIR
alice  running  running  9471  /data/profiles/alice
`},
		{args: []string{"profile", "show", "alice"}, out: `name:     alice
state:    running
desired:  running
service:  gateway-alice
port:     9471
dir:      /data/profiles/alice
environment:
  LANG=C
  TOKEN=a b
`},
		{args: []string{"profile", "show", "alice", "--json"}, out: `{
  "name": "alice",
  "kind": "default",
  "dir": "/data/profiles/alice",
  "profile": "alice",
  "service": "gateway-alice",
  "port": 9471,
  "desired": "running",
  "state": "running",
  "environment": {
    "LANG": "C",
    "TOKEN": "a b"
  },
  "reason": null,
  "uid": null,
  "outdated": false
}
`},
	})
	tell(t, map[string]any{"GET /v1/profiles": []control.Profile(nil)}, []story{
		{args: []string{"profile", "list"}, out: "no profile yet; rlminit profile create NAME makes one\n"},
		{args: []string{"profile", "list", "--json"}, out: "[]\n"},
	})
}

func TestProfileSet(t *testing.T) {
	tell(t, map[string]any{"PATCH /v1/profiles/alice": aliceProfile()}, []story{
		{args: []string{"profile", "set", "alice", "A=1", "--env", "B=2", "--unset", "C"}, asks: []string{`PATCH /v1/profiles/alice {"environment":{"A":"1","B":"2","C":null}}`}, out: "alice: running\n"},
		{args: []string{"profile", "set", "alice", "A=1", "--restart"}, asks: []string{`PATCH /v1/profiles/alice {"environment":{"A":"1"},"restart":true,"wait":{}}`}, out: "alice: running\n"},
		{args: []string{"profile", "set", "alice", "A=1", "--no-wait"}, asks: []string{`PATCH /v1/profiles/alice {"environment":{"A":"1"}}`}, out: "alice: running\n"},
		{args: []string{"profile", "set", "alice"}, code: 2, err: "rlminit: KEY=VALUE or --unset KEY is missing; see rlminit help profile set\n", asks: []string{}},
		{args: []string{"profile", "set", "alice", "A=1", "--unset", "A"}, code: 2, err: "rlminit: A is both set and unset; see rlminit help profile set\n", asks: []string{}},
	})
}

// Several are asked for at once, and told of in the order of their names.
func TestSeveralProfiles(t *testing.T) {
	tell(t, map[string]any{
		"POST /v1/profiles":         control.Outcome{Service: alice(), Changed: true},
		"DELETE /v1/profiles/alice": control.Deleted{},
		"DELETE /v1/profiles/bob":   control.Deleted{Trash: "/data/trash/bob-1"},
		"DELETE /v1/profiles/alcie": control.NoSuchProfile("alcie", []string{"alice"}),
	}, []story{
		{
			args: []string{"profile", "create", "a", "b", "--no-wait", "--env", "X=1"}, out: "a: running (pid 42, port 9471)\nb: running (pid 42, port 9471)\n",
			asks: []string{`POST /v1/profiles {"name":"a","environment":{"X":"1"}}`, `POST /v1/profiles {"name":"b","environment":{"X":"1"}}`},
		},
		{args: []string{"profile", "create", "a", "b", "--port", "9300"}, code: 2, err: "rlminit: --port takes one NAME only: each profile has its own port; see rlminit help profile create\n", asks: []string{}},
		{
			args: []string{"profile", "delete", "alice", "alcie", "bob", "alice"}, code: 4,
			out: "alice: deleted\nbob: deleted; its directory is now /data/trash/bob-1\n", err: "rlminit: no profile \"alcie\"; did you mean \"alice\"?\n",
			asks: []string{"DELETE /v1/profiles/alcie", "DELETE /v1/profiles/alice", "DELETE /v1/profiles/bob"},
		},
		{args: []string{"profile", "delete"}, code: 2, err: "rlminit: NAME is missing; see rlminit help profile delete\n"},
	})
}

func TestProfileCloneRenameRestore(t *testing.T) {
	entry := control.Trashed{Entry: "alice-20260524T180533Z", Profile: "alice", At: time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)}
	tell(t, map[string]any{
		"POST /v1/profiles":              control.Outcome{Service: alice(), Changed: true},
		"POST /v1/profiles/bob/rename":   control.Outcome{Service: alice(), Changed: true},
		"POST /v1/profiles/taken/rename": control.NewProblem(control.KindExists, "profile \"taken\" cannot be renamed: /data/profiles/alice exists already; choose another name"),
		"GET /v1/trash":                  []control.Trashed{entry},
	}, []story{
		{
			args: []string{"profile", "clone", "bob", "alice", "--no-wait", "--stopped"}, out: "alice: running (pid 42, port 9471)\n",
			asks: []string{`POST /v1/profiles {"name":"alice","stopped":true,"clone":"bob"}`},
		},
		{args: []string{"profile", "clone", "bob"}, code: 2, err: "rlminit: NEW is missing; see rlminit help profile clone\n"},
		{
			args: []string{"profile", "rename", "bob", "alice"}, out: "alice: running (pid 42, port 9471, 0.0s)\n",
			asks: []string{`POST /v1/profiles/bob/rename {"to":"alice","wait":{}}`},
		},
		{args: []string{"profile", "rename", "taken", "alice"}, code: 17, err: "rlminit: profile \"taken\" cannot be renamed: /data/profiles/alice exists already; choose another name\n"},
		{
			args: []string{"profile", "restore", "alice-20260524T180533Z", "--no-wait"}, out: "alice: running (pid 42, port 9471)\n",
			asks: []string{"GET /v1/trash", `POST /v1/profiles {"name":"alice","restore":"alice-20260524T180533Z"}`},
		},
		{
			args: []string{"profile", "restore", "bob", "--as", "alice", "--no-wait"}, out: "alice: running (pid 42, port 9471)\n",
			asks: []string{`POST /v1/profiles {"name":"alice","restore":"bob"}`},
		},
		{args: []string{"profile", "list", "--trash"}, out: "NAME   DELETED               ENTRY\nalice  2026-05-24 18:05:33Z  alice-20260524T180533Z\n"},
	})
	kept := control.Trashed{Entry: "bob-revision-3", Profile: "bob", At: entry.At, Revision: 3, Needed: true}
	tell(t, map[string]any{"GET /v1/trash": []control.Trashed{entry, kept}}, []story{
		{args: []string{"profile", "list", "--trash"}, out: "NAME   DELETED               ENTRY                   KEPT FOR\nalice  2026-05-24 18:05:33Z  alice-20260524T180533Z\nbob    2026-05-24 18:05:33Z  bob-revision-3          a rollback of revision 3\n"},
	})
	tell(t, map[string]any{"GET /v1/trash": []control.Trashed(nil)}, []story{
		{args: []string{"profile", "list", "--trash"}, out: "nothing is in the trash\n"},
		{args: []string{"profile", "list", "--trash", "--json"}, out: "[]\n"},
	})
}

func TestProfilePurge(t *testing.T) {
	day := func(ago int) time.Time { return time.Now().UTC().Truncate(time.Second).AddDate(0, 0, -ago) }
	answers := map[string]any{
		"GET /v1/trash": []control.Trashed{
			{Entry: "alice-20260501T000000Z", Profile: "alice", At: day(40)},
			{Entry: "alice-20260524T180533Z", Profile: "alice", At: day(2)},
			{Entry: "alice-revision-3", Profile: "alice", At: day(40), Revision: 3, Needed: true},
			{Entry: "bob-20260524T180533Z", Profile: "bob", At: day(-1)},
			{Entry: "bob-20260524T180533Z-2", Profile: "bob", At: day(2)},
			{Entry: "alice-revision-3-20260524T180533Z", Profile: "alice-revision-3", At: day(2)},
			{Entry: "carol-revision-4", Profile: "carol", At: day(2), Revision: 4},
		},
		"DELETE /v1/trash/alice-20260501T000000Z":            control.Purged{},
		"DELETE /v1/trash/alice-20260524T180533Z":            control.Purged{},
		"DELETE /v1/trash/alice-revision-3":                  control.Purged{},
		"DELETE /v1/trash/alice-revision-3-20260524T180533Z": control.Purged{},
		"DELETE /v1/trash/bob-20260524T180533Z":              control.NewProblem(control.KindNoSuchName, "nothing of it is in the trash"),
		"DELETE /v1/trash/bob-20260524T180533Z-2":            control.Purged{Left: []string{"/data/profiles/.rlminit-1.tmp"}},
		"DELETE /v1/trash/carol-revision-4":                  control.Conflict("carol-revision-4 is left, for revision 5, which changes carol, is being applied"),
	}
	const kept = "rlminit: alice-revision-3 is left for a rollback of revision 3; --needed removes it all the same\n"
	const missing = "rlminit: ENTRY, NAME or --older-than AGE is missing; see rlminit help profile purge\n"
	nothing := []string{"GET /v1/trash"}
	tell(t, answers, []story{
		{args: []string{"profile", "purge"}, code: 2, err: missing, asks: []string{}},
		{args: []string{"profile", "purge", "--needed"}, code: 2, err: missing, asks: []string{}},
		{args: []string{"profile", "purge", "--older-than", "a week"}, code: 2, err: "rlminit: --older-than: \"a week\": it is no duration; write 9s, 1m30s or 100ms; see rlminit help profile purge\n", asks: []string{}},
		{
			args: []string{"profile", "purge", "alice-20260501T000000Z"}, out: "alice-20260501T000000Z: removed\n",
			asks: []string{"DELETE /v1/trash/alice-20260501T000000Z", "GET /v1/trash"},
		},
		{
			args: []string{"profile", "purge", "alice"}, code: 17, err: kept,
			out: "alice-20260501T000000Z: removed\nalice-20260524T180533Z: removed\n",
		},
		{args: []string{"profile", "purge", "gateway-alice", "--older-than", "0"}, code: 17, err: kept, out: "alice-20260501T000000Z: removed\nalice-20260524T180533Z: removed\n"},
		{
			name: "an entry comes before a profile of its name", args: []string{"profile", "purge", "alice-revision-3", "--needed"}, out: "alice-revision-3: removed\n",
			asks: []string{"DELETE /v1/trash/alice-revision-3?needed=true", "GET /v1/trash"},
		},
		{args: []string{"profile", "purge", "al*e", "--older-than", "30d"}, out: "alice-20260501T000000Z: removed\n", err: kept},
		{args: []string{"profile", "purge", "--older-than", "30d"}, out: "alice-20260501T000000Z: removed\n", err: kept},
		{args: []string{"profile", "purge", "--older-than", "30d", "--needed", "--dry-run"}, out: "alice-20260501T000000Z: would be removed\nalice-revision-3: would be removed\n", asks: nothing},
		{args: []string{"profile", "purge", "alice", "--older-than", "41d"}, out: "nothing in the trash is that old\n", asks: nothing},
		{args: []string{"profile", "purge", "--older-than", "41d", "--json"}, asks: nothing},
		{name: "of tomorrow", args: []string{"profile", "purge", "bob"}, code: 4, out: "bob-20260524T180533Z-2: removed\n", err: "rlminit: nothing of it is in the trash\nrlminit: cannot remove what is left of bob-20260524T180533Z-2: see docker logs; then remove it yourself: rm -r /data/profiles/.rlminit-1.tmp\n"},
		{args: []string{"profile", "purge", "carol"}, code: 17, err: "rlminit: carol-revision-4 is left, for revision 5, which changes carol, is being applied\n"},
		{
			args: []string{"profile", "purge", "alice", "alcie", "[", "x*", "--needed"}, code: 4, asks: nothing,
			err: "rlminit: \"alcie\" is not in the trash; did you mean \"alice\"?\n" +
				"rlminit: \"[\" is not in the trash; rlminit profile list --trash shows what is\n" +
				"rlminit: \"x*\" is not in the trash; rlminit profile list --trash shows what is\n",
		},
	})
}
