package config

import (
	"reflect"
	"testing"
	"time"
)

// A hook is on one occasion or on several, and has a name that nobody gave it.
func TestHooks(t *testing.T) {
	c := parsed(t, nil, `version: 1
hooks:
  - {on: ready, command: [a]}
  - name: full
    on: [{memory: 80%, cpu: "${MOST:-90%}", for: 5m}, job-failed, {disk: 100 %}]
    command: [b]
  - {on: {memory: 1%}, services: [alice], command: [c], timeout: 1s}
`)
	want := []Hook{
		{Name: "hook-1", On: []Occasion{{Word: "running"}}, Command: []string{"a"}, Timeout: defaultHookTimeout},
		{
			Name: "full", Command: []string{"b"}, Timeout: defaultHookTimeout,
			On: []Occasion{{Threshold: Threshold{Memory: 80, CPU: 90, For: 5 * time.Minute}}, {Word: OnJobFailed}, {Threshold: Threshold{Disk: 100}}},
		},
		{Name: "hook-3", On: []Occasion{{Threshold: Threshold{Memory: 1}}}, Services: []string{"alice"}, Command: []string{"c"}, Timeout: time.Second},
	}
	if !reflect.DeepEqual(c.Hooks, want) {
		t.Errorf("%+v", c.Hooks)
	}
	if text := c.Hooks[1].On[0].String(); text != "{memory: 80%, cpu: 90%, for: 5m0s}" {
		t.Errorf("shown as %s", text)
	}
}
