package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	jobs "rlminit/job/table"
	"rlminit/journal"
	"rlminit/plan/apply"
	"rlminit/profiles"
	operated "rlminit/supervise/operation/history"
)

// recordWords says in words what a record of each type tells that is no
// transition.
var recordWords = map[string]func(line []byte) string{
	profiles.TypeOperation: words(commandWords),
	operated.TypeEnded:     words(operationEndedWords),

	profiles.TypeCreated: words(func(p profileRecord) string {
		from := ""
		switch {
		case p.Clone != "":
			from = " as a clone of " + p.Clone
		case p.Restored != "":
			from = " out of the trash, where it was " + p.Restored
		}
		return "profile " + p.Profile + " was created" + from + by(p.Actor)
	}),
	profiles.TypeDeleted: words(func(p profileRecord) string {
		if p.Trash != "" {
			return "profile " + p.Profile + " was deleted, and is " + p.Trash + " in the trash" + by(p.Actor)
		}
		return "profile " + p.Profile + " was deleted for good" + by(p.Actor)
	}),
	profiles.TypePurged: words(func(p profileRecord) string {
		return p.Trash + " was removed from the trash" + by(p.Actor)
	}),
	profiles.TypeRenamed: words(func(p profileRecord) string {
		return "profile " + p.Profile + " was renamed to " + p.To + by(p.Actor)
	}),
	profiles.TypeAdopted: words(func(p profileRecord) string {
		return "profile " + p.Profile + " is to be " + p.Desired + ", as its state file says" + by(p.Actor)
	}),
	profiles.TypeChanged: words(func(p profileRecord) string {
		what := "its profile.yaml"
		if len(p.Environment) > 0 {
			what = "its environment: " + strings.Join(p.Environment, ", ")
		}
		return "profile " + p.Profile + " was changed, " + what + by(p.Actor)
	}),
	profiles.TypeUser: words(func(u struct {
		Profile, From string
		UID           uint32
	},
	) string {
		return fmt.Sprintf("profile %s has uid %d of its own", u.Profile, u.UID) + bracketed(after("which was that of ", u.From))
	}),
	profiles.TypeFound: words(func(f struct{ Services map[string]string }) string {
		var found []string
		for _, name := range slices.Sorted(maps.Keys(f.Services)) {
			found = append(found, shortService(name)+" "+f.Services[name])
		}
		return "what is wanted was taken from state files: " + some(found)
	}),
	profiles.TypeGone: words(func(g struct{ Services []string }) string {
		return "neither the volume nor the configuration has any more: " + some(titles(g.Services))
	}),

	journal.TypeBootBegun: words(func(b journal.BootBegun) string {
		before := "nothing is known of a start before"
		if b.PriorExit != journal.ExitUnknown {
			before = "the start before ended: " + string(b.PriorExit)
		}
		return "the container was started" + bracketed(b.Version) + "; " + before
	}),
	journal.TypeBootEnded: words(func(struct{}) string { return "the container was stopped in order" }),
	journal.TypeOOMSeen: words(func(o journal.OOMSeen) string {
		return "the kernel killed " + shortService(o.Service) + " for want of memory" + after(": ", o.Reason)
	}),
	journal.TypeOOMOutlived: words(func(struct{}) string {
		return "the container has outlived that kill: what ends it later has another cause"
	}),
	journal.TypeLost: words(func(l struct{ Count int }) string {
		return fmt.Sprintf("%d records before this one were not kept: the disk was too slow for them", l.Count)
	}),
	journal.TypeSnapshot: words(func(struct{}) string { return "a snapshot of all that the journal must not forget" }),
	control.TypeBooted: words(func(b struct {
		Generation int
		Services   int
		Steps      []struct{ MS float64 }
	},
	) string {
		took := ""
		if n := len(b.Steps); n > 0 {
			took = fmt.Sprintf(" after %.1fms", b.Steps[n-1].MS)
		}
		who := "the supervisor"
		if b.Generation > 1 {
			who = fmt.Sprintf("supervisor number %d", b.Generation)
		}
		return who + " is ready" + took + ", with " + counted(b.Services, "service", "services")
	}),

	jobs.TypeSubmitted: words(func(j jobs.Submitted) string {
		what := "job " + j.Job + " was submitted"
		if j.TurnedAway {
			what = "job " + j.Job + " was refused"
		}
		return what + after(": ", cmp.Or(strings.Join(j.Command, " "), j.Path)) + bracketed(after("profile ", j.Profile), after("service ", j.Service), after("session ", j.Session), after("hook ", j.Hook), byUID(j.Actor))
	}),
	jobs.TypeValidated: words(func(j jobs.Validated) string { return "job " + j.Job + " has passed every guard" }),
	jobs.TypeStarted:   words(func(j jobs.Started) string { return fmt.Sprintf("job %s runs (pid %d)", j.Job, j.PID) }),
	jobs.TypeCompleted: words(jobEndedWords),
	jobs.TypeFailed:    words(jobEndedWords),
	jobs.TypeRolledBack: words(func(j jobs.RolledBack) string {
		return "job " + j.Job + " was undone by job " + j.By
	}),
	jobs.TypeScheduled: words(func(s jobs.Scheduled) string {
		return "the schedule of " + shortService(s.Schedule) + " is " + cmp.Or(s.Cron, "off") + bracketed(s.Timezone)
	}),
	jobs.TypeSkipped: words(func(s jobs.Skipped) string {
		return fmt.Sprintf("%d times of the schedule of %s were skipped%s", s.Count, shortService(s.Schedule), after(": ", s.Cause))
	}),
	jobs.TypeThreshold: words(func(t jobs.Threshold) string {
		of := cmp.Or(shortService(t.Service), "the container")
		if t.State == jobs.Back {
			return fmt.Sprintf("the %s of %s is at %g%%, below %d%% again%s", t.What, of, t.Percent, t.Limit, bracketed("hook "+t.Hook))
		}
		return fmt.Sprintf("the %s of %s is at %g%%, and %d%% or more for %s%s", t.What, of, t.Percent, t.Limit, t.For, bracketed("hook "+t.Hook))
	}),
	jobs.TypeHooksSet: words(func(s jobs.HooksSet) string {
		return "the hooks in force are " + cmp.Or(some(slices.Sorted(maps.Keys(s.Hooks))), "none")
	}),
	jobs.TypeSessionCreated: words(func(s jobs.Session) string {
		return "session " + s.Session + " was created" + bracketed(after("key ", s.Key), after("profile ", s.Profile), after("service ", s.Service), byUID(s.Actor))
	}),
	jobs.TypeSessionExtended: words(func(s jobs.SessionExtended) string {
		return "session " + s.Session + " may live for " + tookText(time.Duration(s.TTLMS)*time.Millisecond) + " from now on"
	}),
	jobs.TypeSessionEnded: words(func(s jobs.SessionEnded) string { return "session " + s.Session + " ended" + after(": ", s.Cause) }),

	apply.TypeBegun: words(func(r apply.RecordedBegun) string {
		var steps []string
		for _, s := range r.Steps {
			steps = append(steps, s.Action+" "+s.Name)
		}
		what := fmt.Sprintf("revision %d was begun", r.Revision)
		if r.Rollback != nil {
			what = fmt.Sprintf("revision %d, a rollback to %d, was begun", r.Revision, *r.Rollback)
		}
		return what + after(": ", some(steps)) + bracketed(after("approved by ", r.By), byUID(&r.UID))
	}),
	apply.TypeStep: words(func(r apply.RecordedStep) string {
		var steps []string
		for _, i := range r.Steps {
			steps = append(steps, fmt.Sprint(i+1))
		}
		return fmt.Sprintf("revision %d, step %s: %s%s", r.Revision, some(steps), r.Place, after(": ", r.Reason))
	}),
	apply.TypeTurned: words(func(r apply.RecordedTurn) string {
		return fmt.Sprintf("revision %d is being rolled back%s", r.Revision, after(": ", cmp.Or(r.Reason, string(r.Cause))))
	}),
	apply.TypeResumed: words(func(r apply.RecordedResume) string {
		return fmt.Sprintf("revision %d goes on: what could not be put back is tried again", r.Revision)
	}),
	apply.TypeEnded: words(func(r apply.RecordedEnd) string {
		how := map[apply.Outcome]string{
			apply.Applied: "was applied", apply.RolledBack: "was rolled back", apply.Partly: "was rolled back in part: a person is needed",
		}[r.Outcome]
		return fmt.Sprintf("revision %d %s", r.Revision, cmp.Or(how, "ended: "+string(r.Outcome)))
	}),
	apply.TypeRefused: words(func(r apply.RecordedRefusal) string { return "apply was refused" + refusalWords(r) }),
	apply.TypeProposed: words(func(r apply.RecordedProposal) string {
		return "plan " + r.Hash + " waits for approval" + bracketed(r.By, byUID(&r.UID))
	}),
	apply.TypeWithdrawn: words(func(r apply.RecordedProposal) string {
		return "plan " + r.Hash + " was withdrawn" + bracketed(r.By, byUID(&r.UID))
	}),
	apply.TypePlanRefused: words(func(r apply.RecordedRefusal) string { return "plan was refused" + refusalWords(r) }),
}

// profileRecord is what records about one profile have.
type profileRecord struct {
	Profile, To, Desired, Clone, Restored, Trash string

	Environment []string
	Actor       *profiles.Actor
}

// words makes words of a record with the body T; "": it cannot be read.
func words[T any](say func(T) string) func([]byte) string {
	return func(line []byte) string {
		var body T
		if json.Unmarshal(line, &body) != nil {
			return ""
		}
		return say(body)
	}
}

// recordLine is a record that is no transition, in words. Of a type that a newer
// rlminit has written it is the type, and what the record says.
func recordLine(e control.Event) string {
	if say := recordWords[e.Type]; say != nil {
		if line := say(e.Raw); line != "" {
			return printable(line)
		}
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(e.Raw, &keys) != nil {
		return printable(e.Type)
	}
	for _, own := range []string{"seq", "at", "boot", "type", "sum"} {
		delete(keys, own)
	}
	var facts []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		facts = append(facts, key+"="+strings.Trim(string(keys[key]), `"`))
	}
	return printable(strings.TrimSpace(e.Type + " " + strings.Join(facts, " ")))
}

// commandWords is `stop alice (operation 12, by uid 0, pid 77)`.
func commandWords(c profiles.Command) string {
	operation, actor := "", ""
	if c.Operation > 0 {
		operation = fmt.Sprintf("operation %d", c.Operation)
	}
	if c.Actor != nil {
		actor = "by " + actorText(control.Actor(*c.Actor))
	}
	return c.Verb + " " + cmp.Or(some(titles(c.Named())), "nothing") + bracketed(operation, actor)
}

// operationEndedWords is `restart alice, bob: done (operation 12)`.
func operationEndedWords(o operated.Ended) string {
	var names []string
	for _, m := range o.Members {
		names = append(names, m.Name)
	}
	of := some(names)
	if o.Omitted > 0 {
		of += fmt.Sprintf(" and %d more", o.Omitted)
	}
	return o.Verb + " " + cmp.Or(of, "nothing") + ": " + o.State + bracketed(fmt.Sprintf("operation %d", o.Operation)) + after(": ", o.Reason)
}

// jobEndedWords is `job 7 timed out after 30.0s`.
func jobEndedWords(j jobs.Ended) string {
	var result control.JobResult
	_ = json.Unmarshal(j.Result, &result) // without it there is less to say
	how := ""
	switch {
	case result.Error != nil:
		how = ": " + *result.Error
	case result.ExitCode != nil && *result.ExitCode != 0:
		how = fmt.Sprintf(": exit %d", *result.ExitCode)
	}
	return "job " + j.Job + " " + strings.ReplaceAll(string(j.State), "_", " ") + " after " + tookText(time.Duration(j.TookMS)*time.Millisecond) + how
}

func refusalWords(r apply.RecordedRefusal) string {
	return after(": ", r.Reason) + bracketed(r.Source, byUID(&r.UID))
}

// someNames is how many names of many a line has.
const someNames = 10

// some are the names, and of many how many more there are.
func some(names []string) string {
	if more := len(names) - someNames; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// titles are services as people name them.
func titles(services []string) []string {
	names := make([]string, len(services))
	for i, name := range services {
		names[i] = shortService(name)
	}
	return names
}

// after puts lead before what there is of text.
func after(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

// bracketed are the facts that there are.
func bracketed(facts ...string) string {
	there := slices.DeleteFunc(facts, func(fact string) bool { return fact == "" })
	if len(there) == 0 {
		return ""
	}
	return " (" + strings.Join(there, ", ") + ")"
}

// by is its requester, if there is one.
func by(actor *profiles.Actor) string {
	if actor == nil {
		return ""
	}
	return bracketed("by " + actorText(control.Actor(*actor)))
}

func byUID(uid *uint32) string {
	if uid == nil {
		return ""
	}
	return fmt.Sprintf("by uid %d", *uid)
}
