package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// requests asks the supervisor for what a service may not ask.
func requests(a *attack, socket, victim string) {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
	}
	profile := strings.TrimPrefix(victim, "gateway-")
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/v1/services/" + victim + "/stop", "{}"},
		{"POST", "/v1/services/" + victim + "/restart", "{}"},
		{"POST", "/v1/services/all/stop", "{}"},
		{"POST", "/v1/operations", `{"verb":"stop","names":["` + victim + `"]}`},
		{"POST", "/v1/reload", "{}"},
		{"POST", "/v1/shutdown", "{}"},
		{"POST", "/v1/profiles", `{"name":"hostile"}`},
		{"DELETE", "/v1/profiles/" + profile, ""},
		{"PATCH", "/v1/profiles/" + profile, `{}`},
		{"POST", "/v1/jobs", `{"command":["id"]}`},
		{"POST", "/v1/sessions", `{}`},
		{"POST", "/v1/plan", `{}`},
		{"POST", "/v1/apply", `{}`},
		{"POST", "/v1/rollback", `{}`},
		{"GET", "/v1/services/" + victim, ""},
		{"GET", "/v1/services", ""},
		{"GET", "/v1/metrics", ""},
		{"GET", "/v1/logs/" + victim, ""},
		{"GET", "/v1/events", ""},
		{"GET", "/v1/operations", ""},
		{"GET", "/v1/jobs", ""},
		{"GET", "/v1/revisions", ""},
	} {
		a.try("command by the control socket", Always, request.method+" "+request.path, func() error {
			r, err := http.NewRequest(request.method, "http://rlminit"+request.path, strings.NewReader(request.body))
			if err != nil {
				return err
			}
			answer, err := client.Do(r)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode >= 400 {
				return fmt.Errorf("status %d", answer.StatusCode)
			}
			return nil
		})
	}
}

// notifications speaks for another service.
func notifications(a *attack, socket string) {
	a.try("speak for another service", Supervisor, "STATUS=", func() error {
		c, err := net.Dial("unixgram", socket)
		if err != nil {
			return err
		}
		defer c.Close()
		n, err := c.Write([]byte("STATUS=hostile was here"))
		if n == 0 {
			return errors.Join(err, errNotThere)
		}
		return err
	})
}
