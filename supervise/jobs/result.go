package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/history"
)

// conclude makes the result of a job that has ended, or will not begin.
func (t *task) conclude(s job.State, after *control.Telemetry) *control.JobResult {
	result := &control.JobResult{
		Job: t.spec.ID, State: string(s.Outcome), TimedOut: s.Outcome == job.TimedOut, Cancelled: s.Outcome == job.Cancelled,
		TelemetryAfter: after, LeftBehind: t.run.left, Isolation: string(isolationOf(&t.spec.Request)), Tried: tried(&t.spec.Request),
	}
	if result.LeftBehind == nil {
		result.LeftBehind = []control.LeftBehind{}
	}
	if t.prep.ready != nil {
		result.TelemetryBefore = t.prep.ready.before
	}
	switch {
	case t.run.ended != 0:
		result.ExecutionTimeMS = max(0, (t.run.ended-t.run.begun)/1e6)
		result.Spawned = 1 + max(t.run.count, len(t.run.left))
		if s.Exit.Signal != 0 {
			result.Signal = signalName(s.Exit.Signal)
		} else {
			result.ExitCode = &s.Exit.Code
		}
	case t.why.code != 0 && s.Outcome == job.Failed:
		result.ExitCode = &t.why.code
	}
	if t.why.refused != "" {
		result.Refused = &t.why.refused
	}
	why := t.why.problem
	if why == "" && (s.Outcome == job.Cancelled || s.Outcome == job.Interrupted) {
		why = t.why.cause
	}
	if why == "" && s.Outcome == job.Interrupted {
		why = "the container stopped"
	}
	if why != "" {
		result.Error = &why
	}
	if t.output.there() {
		setOutput(result, t.output.streams[0], t.output.streams[1], t.spec.Request.MaxOutput)
	}
	t.output.each(func(s *stream) {
		if lacks := s.lacks(); lacks != "" && result.Error == nil {
			result.Error = &lacks
		}
	})
	return result
}

// lacks says of a stream that is too long for its result what its file does not
// have; "" if it is whole.
func (s *stream) lacks() string {
	f, total := s.file, s.size()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case total <= s.keep || f.path == "":
		return ""
	case f.size >= total:
		return ""
	case f.why != nil:
		return fmt.Sprintf("%s has %d of %d bytes of %s: %v", f.path, f.size, total, s.name, f.why)
	}
	return fmt.Sprintf("%s has %d of %d bytes of %s: there is room for no more of outputs", f.path, f.size, total, s.name)
}

func signalName(signal int) *string {
	name := strings.TrimPrefix(unix.SignalName(unix.Signal(signal)), "SIG")
	if name == "" {
		name = fmt.Sprint(signal)
	}
	return &name
}

func (s *stream) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.total
}

func (s *stream) path() string { return s.file.whole() }

// whole is the path of a file that has something; "": there is none.
func (f *outputFile) whole() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size == 0 {
		return ""
	}
	return f.path
}

// setOutput puts what a job has written into its result: all of it, or of more
// than keep bytes head and tail.
func setOutput(result *control.JobResult, out, err *stream, keep int64) {
	stdout, cutOut := excerpt(out, keep)
	stderr, cutErr := excerpt(err, keep)
	result.Stdout, result.StdoutBase64 = asText(stdout)
	result.Stderr, result.StderrBase64 = asText(stderr)
	result.OutputTruncated = cutOut || cutErr
	path := ""
	switch {
	case cutOut:
		path = out.path()
	case cutErr:
		path = err.path()
	}
	if path != "" {
		result.OutputFilePath = &path
	}
}

// asText is a text, or what is none.
func asText(b []byte) (text string, other []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// excerpt is all that a stream has, or its head and tail with a line between that
// says so.
func excerpt(s *stream, keep int64) (content []byte, truncated bool) {
	size := s.size()
	if size <= keep {
		return readFrom(s, 0, size), false
	}
	head, tail := keep-keep/2, keep/2
	content = wholeRunes(readFrom(s, 0, head), false)
	where := "nothing has it"
	if path := s.path(); path != "" {
		where = "see " + path
	}
	content = fmt.Appendf(content, "\n[… %d bytes left out; %s …]\n", size-head-tail, where)
	return append(content, wholeRunes(readFrom(s, size-tail, tail), true)...), true
}

// wholeRunes takes a character off that was cut in two, at the end or at the
// beginning, so that a text stays one.
func wholeRunes(b []byte, front bool) []byte {
	if front {
		for i := 0; i < utf8.UTFMax && i < len(b); i++ {
			if utf8.RuneStart(b[i]) {
				return b[i:]
			}
		}
		if len(b) < utf8.UTFMax {
			return nil
		}
		return b
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := len(b) - i; utf8.RuneStart(b[last]) {
			if !utf8.FullRune(b[last:]) {
				return b[:last]
			}
			return b
		}
	}
	return b
}

// readFrom reads n bytes, or what can be had of them.
func readFrom(s *stream, offset, n int64) []byte {
	b := make([]byte, n)
	at := int64(0)
	for at < n {
		m, lost, _ := s.readNow(offset+at, b[at:])
		if lost > 0 || m == 0 {
			break
		}
		at += int64(m)
	}
	return b[:at]
}

// bare is a result as it is recorded: what a job has written is in files.
func bare(r *control.JobResult) *control.JobResult {
	b := *r
	b.Stdout, b.Stderr, b.StdoutBase64, b.StderrBase64 = "", "", nil, nil
	return &b
}

// describe is a job as people see it.
func (t *task) describe() control.Job {
	j := control.Job{
		Job: t.spec.ID, State: string(t.state.Status()), Kind: t.spec.Kind, Command: shortened(t.spec.Request.Command), Actor: t.spec.Actor,
		Submitted: t.spec.Submitted.UTC(), TimeoutMS: t.spec.Request.TimeoutMS,
		Profile: orNull(t.spec.Request.Profile), Service: orNull(t.spec.Request.Service), Session: orNull(t.spec.Request.Session),
	}
	if t.run.pid != 0 {
		j.PID = &t.run.pid
	}
	return j
}

// describe is a job of which only the records are left.
func describe(e *history.Entry) control.Job {
	j := control.Job{
		Job: e.Job, State: string(e.State), Kind: e.Kind, Command: e.Command, Actor: e.Actor,
		Submitted: e.At, Started: e.Started, Ended: e.Ended, TimeoutMS: e.TimeoutMS,
		Profile: orNull(e.Profile), Service: orNull(e.Service), Session: orNull(e.Session),
	}
	return j
}

// recall makes a job of the record of one that is over, with what the volume has of its
// output.
func (o *outputs) recall(e *history.Entry) *task {
	t := submittedAs(e)
	t.state = job.State{Stage: job.Over, Outcome: e.State}
	for i, name := range streamNames {
		t.output.streams[i] = o.kept(e.Job, name)
	}
	result := new(control.JobResult)
	if json.Unmarshal(e.Result, result) == nil {
		truncated, path := result.OutputTruncated, result.OutputFilePath
		setOutput(result, t.output.streams[0], t.output.streams[1], control.DefaultJobOutput)
		result.OutputTruncated, result.OutputFilePath = truncated || result.OutputTruncated, path
	} else {
		result.Job = e.Job
	}
	result.State = string(e.State)
	t.output.closeFiles()
	t.end.result, t.end.told, t.output.told = result, true, true
	close(t.end.done)
	close(t.output.begun)
	return t
}

// submittedAs is a job as its record has it.
func submittedAs(e *history.Entry) *task {
	t := newTask(e.Job, e.Kind, e.Actor, control.RunJob{
		Command: e.Command, Profile: e.Profile, Service: e.Service, Session: e.Session, TimeoutMS: e.TimeoutMS, MaxOutput: control.DefaultJobOutput, Detach: true,
		Key: e.Key,
	})
	t.spec.Schedule, t.spec.Digest = e.Schedule, e.Digest
	t.spec.Submitted, t.spec.Occurs, t.spec.Attempt = e.At, e.Occurs, e.Attempt
	return t
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// shortened is a command as it is recorded and listed: without secrets.
func shortened(argv []string) []string {
	const most = 1024
	short, size := []string{}, 0
	for _, arg := range redact.Command(argv) {
		if size += len(arg); size > most || len(short) == 64 {
			return append(short, "…")
		}
		short = append(short, strings.ToValidUTF8(arg, "\uFFFD"))
	}
	return short
}
