package main

// mutant is one fault: in file, old is replaced by new.
type mutant struct{ fault, file, old, new string }

// mutants are the faults. Those after the empty line are of commands, operations and what a
// successor is to know; those before it of the life of a service among others.
var mutants = []mutant{
	{"a decision is not carried out", "decide.go", "\tif a.Turn == order.NoTurn || a.Decision.Held != order.Free {", "\tif false {"},
	{"what is told of another is forgotten", "life.go", "\ts.observe(l)\n\tif next.Phase", "\tif next.Phase"},
	{"a timer that has rung is armed", "life.go", "\ts.timers.set(&l.deadline, l.state.Timer.At)\n", ""},
	{"a spawn is carried out before it is remembered", "life.go", "\tif remembered {\n\t\ts.outbox.remember(l, after)\n\t}\n", ""},
	{"a spawn is nobody's", "life.go", "\t\t\ts.spawns[next.ID] = l\n", "\t\t\t_ = l\n"},
	{"the active ones are counted too low", "life.go", "\tif Active(&next) {\n\t\ts.active++\n\t}\n", ""},
	{"a run of before says that this one is ready", "life.go", "\t\t} else if late {\n\t\t\tcontinue\n\t\t}", "\t\t}"},
	{"the end starts what is not wanted", "decide.go", "\tif s.stopping && (t == order.Start || t == order.Restart) {\n\t\treturn\n\t}\n", ""},
	{"a redefinition keeps the edges", "set.go", "\t\t\ts.naming.link(l)\n", ""},
	{"who is adopted is not told what holds it", "life.go", "\t\ts.adopted = append(s.adopted, l)\n", "\t\t_ = l\n"},
	{"stuck ones are not told", "decide.go", "\tchanged := stuck != l.stuck\n", "\tchanged := false\n"},

	{"claim does not keep others out", "command.go", "func(l *Life) bool { return l.claimed }", "func(l *Life) bool { return false }"},
	{"unrecorded start is carried out", "command.go", "case failed && !c.stops():", "case failed && !c.stops() && false:"},
	{"unrecorded stop is not carried out", "command.go", "case failed && !c.stops():", "case failed:"},
	{"unrecorded stop counts as wanted", "operations.go", "\tif !recorded {\n\t\twant = service.IntentNone\n\t}", "\t_ = recorded"},
	{"earlier operations keep their members", "operations.go", "\ts.supersede(o)\n", ""},
	{"members say done before it is remembered", "member.go", "!o.Members[i].Open() || !l.isRemembered()", "!o.Members[i].Open()"},
	{"rolling goes on before it is remembered", "member.go", "func(l *Life) bool { return !l.isRemembered() }", "func(l *Life) bool { return false }"},
	{"a cancelled restart keeps its turn", "operations.go", "\t\t\t\ts.set.revoke(l.node)\n", ""},
	{"a cancelled operation restores nobody as before", "operations.go", "\t\tif o.command.Width == 0 || s.set.stopping || o.restoring[i] {", "\t\tif true {"},
	{"left over are not those of other operations", "operations.go", "slices.Contains(taken, l.node)", "len(taken) < 0"},
	{"a stop forgets a start whose turn has not come", "member.go", "return up || Active(&l.state) || l.turn == order.Start || l.turn == order.Restart", "return up || Active(&l.state)"},
	{"a reload restarts who is to be stopped", "member.go", "l.state.LastID == o.command.Runs[i] && l.Wanted()", "l.state.LastID == o.command.Runs[i] && up"},
	{"who was started since is restarted along", "member.go", "slices.DeleteFunc(slices.Clone(c.along), (*Life).Wanted)", "slices.Clone(c.along)"},
	{"who is being left is started along", "member.go", "other.wants.Desired == service.Running && !other.claimed", "other.wants.Desired == service.Running"},
	{"a wait ends what was wanted before", "command.go", "return c.Verb != VerbReload && c.Verb != VerbAwait", "return c.Verb != VerbReload"},
	{"a reload ends what was wanted before", "command.go", "return c.Verb != VerbReload && c.Verb != VerbAwait", "return c.Verb != VerbAwait"},
	{"before is that of an intent before the last", "intents.go", "\t\t\tif l.begins { //", "\t\t\tif false { //"},
	{"wanted as before is pending for ever", "intents.go", "w.Before == want {", "false {"},
	{"intents are not remembered", "intents.go", "\tif l.unkept && l.node != order.None {", "\tif false {"},
	{"the end restores operations", "end.go", "\t\t\ts.Operations.interrupt(o, \"the container is stopping\")\n", "\t\t\t_ = o\n"},
	{"a successor restores operations open", "operations.go", "\t\ts.interrupt(o, \"the supervisor was replaced\")\n", ""},
	{"commands wait for ever", "command.go", "\tdefer s.advance()\n", ""},
	{"a life stays in operations that are over", "operations.go", "\tfor _, l := range o.lives {\n\t\tif l != nil {\n\t\t\tl.part(o)\n\t\t}\n\t}\n\ts.set.timers.remove", "\ts.set.timers.remove"},
	{"acknowledged before it is marked", "life.go", "\t\tif slices.Contains(l.known.unmarked, id) {\n\t\t\treturn false\n\t\t}\n", ""},
	{"acknowledged before it is remembered", "life.go", "len(l.known.ended) == 0 || !l.isRemembered()", "len(l.known.ended) == 0"},
	{"an older row counts as the newest", "life.go", "row.Version == l.known.rows", "true"},
	{"reload of what was not meant any more", "command.go", "return !s.stillMeant(c, l)", "return false"},
	{"commands during the end are taken", "command.go", "\tif s.set.stopping && c.restores == nil {", "\tif false {"},
	{"a cancelled restart that has to start does not", "operations.go", "l.turn == order.Restart && l.Wanted()", "l.turn == order.Restart"},
	{"interrupted without the members", "operations.go", "\to.Interrupt(why)\n", "\to.State, o.Reason = operation.StateInterrupted, why\n"},
	{"rolling takes all at once", "operations.go", "operation.NewRoll(len(o.Members), c.Width, c.gate())", "operation.NewRoll(len(o.Members), max(c.Width, 0)*len(o.Members), c.gate())"},
}
