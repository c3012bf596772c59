package view

import (
	"bytes"
	"net/http"
	"time"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/live"
)

const (
	// beat is how often a tab hears something: it says that the page does not answer when it
	// has heard nothing for two and a half of them, since what lies between, as docker -p or
	// ssh -L, may keep a connection open that leads nowhere.
	beat = time.Second
	// sessionBeats is after how many of them it is asked whether the session goes on.
	sessionBeats = 15
	// writeTime is how long a browser may take to read what it is sent.
	writeTime = 10 * time.Second
)

// viewOf is the live view that a query asks for.
func (p *Pages) viewOf(r *http.Request) live.View {
	q := r.URL.Query()
	view, name := q.Get("view"), q.Get("name")
	switch view {
	case "overview":
		return overviewLive{p}
	case "service":
		if name != "" && len(name) < 256 {
			return serviceLive{p, name}
		}
		return nil
	case "events":
		return eventsLive{p}
	}
	if w := p.whole(view, name); w != nil {
		return w
	}
	return nil
}

// stream sends a tab what happens, as server-sent events, until it goes.
func (p *Pages) stream(w http.ResponseWriter, r *http.Request) {
	view := p.viewOf(r)
	if view == nil || r.Method != http.MethodGet {
		http.Error(w, "there is no such view", http.StatusNotFound)
		return
	}
	asked := r.Header.Get("Last-Event-ID")
	if asked == "" {
		asked = r.URL.Query().Get("after")
	}
	var seen *live.Position
	if at, ok := live.ParsePosition(asked); ok {
		seen = &at
	}
	tab, err := p.hub.Open(headed{view, p.base}, seen)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer tab.Close()
	var log *live.LogTab
	if service, ok := view.(serviceLive); ok && r.URL.Query().Get("log") == "yes" {
		if log, err = p.tails.Open(r.Context(), service.name); err == nil {
			defer log.Close()
		}
	}
	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	if out.begin() {
		p.feed(r, out, tab, log)
	}
}

// over is what a tab is sent whose session is.
var over = live.Message{Event: "over", Data: []byte("null")}

// stillHere is what a tab is sent when nothing else is: a comment would not reach its script.
var stillHere = live.Message{Event: "still", Data: []byte("null")}

// feed sends what comes until the tab goes, or its session is over.
func (p *Pages) feed(r *http.Request, out *eventWriter, tab *live.Tab, log *live.LogTab) {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	session := gate.From(r.Context())
	for ok, n := true, 0; ok; {
		select {
		case <-r.Context().Done():
			return
		case <-tab.Gone():
			return
		case <-log.Gone():
			return
		case <-session.Ended():
			out.send(over)
			return
		case m := <-tab.Messages():
			ok = out.send(m)
			tab.Sent(m)
		case m := <-log.Messages():
			ok = out.send(m)
		case <-beats.C:
			if n++; n%sessionBeats == 0 && !p.gate.Holds(session) {
				out.send(over)
				return
			}
			ok = out.send(stillHere)
		}
	}
}

// eventWriter writes server-sent events, and gives up on who does not read.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// begin sends what a stream of events begins with.
func (o *eventWriter) begin() bool {
	_ = o.control.SetReadDeadline(time.Time{}) // or the deadline of the request would end it
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events back
	return o.write([]byte("retry: 1000\n\n"))
}

func (o *eventWriter) write(b []byte) bool {
	if err := o.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return false
	}
	if _, err := o.w.Write(b); err != nil {
		return false
	}
	return o.control.Flush() == nil
}

func (o *eventWriter) send(m live.Message) bool {
	var b bytes.Buffer
	b.WriteString("event: " + m.Event + "\n")
	if m.ID != "" {
		b.WriteString("id: " + m.ID + "\n")
	}
	for line := range bytes.SplitSeq(m.Data, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			b.WriteString("data: ")
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	b.WriteByte('\n')
	return o.write(b.Bytes())
}
