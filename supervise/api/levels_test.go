package api

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/service"
	"rlminit/wire"
)

// routes are what is served, with what it needs, as the sources say.
func routes(t *testing.T) map[string]May {
	t.Helper()
	byName := map[string]May{
		"MayStatus": MayStatus, "MaySee": MaySee, "MayOperate": MayOperate, "MayCommand": MayCommand, "MayReview": MayReview, "MayApply": MayApply, "MayPlan": MayPlan,
	}
	all := map[string]May{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, r := range regexp.MustCompile(`\.(?:Handle|Stream|Upload)\("([^"]*)", (?:api\.)?(\w*)`).FindAllStringSubmatch(string(source), -1) {
			needs, known := byName[r[2]]
			if !known {
				t.Errorf("%s: nothing says who may ask", r[1])
			}
			all[r[1]] = needs
		}
		return err
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	return all
}

// The page on the control socket has each request at the level that it needs, and no other.
func TestLevelsOfRequests(t *testing.T) {
	content, err := os.ReadFile("../../docs/control.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]service.Control{}
	for _, level := range []service.Control{service.ControlRead, service.ControlOperate, service.ControlApprove} {
		row := regexp.MustCompile("(?m)^\\| `" + string(level) + "` \\|.*$").FindString(string(content))
		for _, r := range regexp.MustCompile("`([A-Z]+ /v1/[^`]*)`").FindAllStringSubmatch(row, -1) {
			told[r[1]] = level
		}
	}
	for route, needs := range routes(t) {
		want, there := told[route]
		if !there {
			want = service.ControlAll
		}
		if levels[needs] != want {
			t.Errorf("%s needs %q, and the page says %q", route, levels[needs], want)
		}
		delete(told, route)
		if method, _, _ := strings.Cut(route, " "); method != "GET" && levels[needs] == service.ControlRead {
			t.Errorf("%s may change something, and is for those who may read", route)
		}
	}
	for route := range told {
		t.Errorf("the page has %s, which is not served", route)
	}
}

// What shows secrets, runs commands or ends the container is for nobody with a lower level.
func TestWhatNoLevelAllows(t *testing.T) {
	all := routes(t)
	for _, route := range []string{
		"POST /v1/shutdown", "POST /v1/reload", "GET /v1/environment", "GET /v1/environment/{name}", "POST /v1/files", "POST /v1/files/read", "POST /v1/jobs",
		"GET /v1/jobs/{id}/output", "POST /v1/jobs/{id}/undo", "POST /v1/hooks/{name}/test", "GET /v1/profiles/{name}/text", "POST /v1/profiles/{name}/replace",
		"PATCH /v1/profiles/{name}", "POST /v1/set", "POST /v1/profiles", "DELETE /v1/profiles/{name}", "POST /v1/profiles/{name}/rename", "POST /v1/profiles/import",
		"POST /v1/sessions", "GET /v1/sessions", "POST /v1/services/{name}/signal", "POST /v1/plan", "POST /v1/plans", "DELETE /v1/trash/{entry}",
	} {
		if needs, there := all[route]; !there || levels[needs] != service.ControlAll {
			t.Errorf("%s: %q, %v", route, levels[needs], there)
		}
	}
}

// callers are services by tag, and the page by its uid.
type callers map[uint32]service.Control

func (c callers) Caller(uid, tag uint32, name string) (string, service.Control, bool) {
	if tag == 0 {
		tag = uid
	}
	return "page", c[tag], name == "page"
}

func (c callers) Commander(uid, tag uint32) bool {
	_, may, _ := c.Caller(uid, tag, "")
	return may == service.ControlAll
}
func (callers) ReadAll() bool       { return false }
func (callers) Applies(uint32) bool { return false }

// A service is held to its level, by its tag, and the page by its uid where it has no tag.
func TestServicesAreHeldToTheirLevel(t *testing.T) {
	const page = 49998
	levelOf := callers{50001: service.ControlNone, 50002: service.ControlRead, 50003: service.ControlOperate, 50004: service.ControlApprove, 50005: service.ControlAll, page: service.ControlRead}
	policy := &wire.Policy{User: wire.Identity{UID: 1000}, TagLow: 50000, TagHigh: 59999}
	policy.Profiles.Page = page
	s := NewServer(policy, levelOf)
	for tag, has := range levelOf {
		by := peer{uid: 1000, tag: tag}
		if tag == page {
			by = peer{uid: page}
		}
		for needs, level := range levels {
			r := httptest.NewRequest(http.MethodGet, "http://rlminit/v1", http.NoBody)
			r = r.WithContext(context.WithValue(r.Context(), peerKey{}, by))
			problem := s.permit(r, needs)
			if (problem == nil) != has.Allows(level) {
				t.Errorf("%+v with %q asks for what needs %q: %v", by, has, level, problem)
			}
			if Limited(r) != (has != service.ControlAll) || Approver(r, "alice") != "page: alice" {
				t.Errorf("%+v with %q: limited %v, %s", by, has, Limited(r), Approver(r, "alice"))
			}
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://rlminit/v1", http.NoBody)
	r = r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{uid: 1000}))
	if problem := s.permit(r, MayCommand); problem != nil || Limited(r) || Approver(r, "alice") != "alice" {
		t.Errorf("the service user: %v, limited %v", problem, Limited(r))
	}
}
