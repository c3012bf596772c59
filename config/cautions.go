package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/service"
)

// Cautions are settings that cannot have the effect they seem to have, though nothing in
// it is wrong: a line for each.
func (c *Config) Cautions() (all []string) {
	defined := map[string]*service.Definition{} // by the name for people
	if c.Gateway != nil {
		maps.Copy(defined, c.Gateway.Samples(c))
	}
	for name, d := range c.Services {
		defined["services."+name] = d
	}
	names := slices.Sorted(maps.Keys(defined))
	if longest, others := c.cutShort(defined, names); longest != "" {
		d, more := defined[longest], ""
		if others > 0 {
			more = fmt.Sprintf(", and so are %d others", others)
		}
		needs := d.Stop.Timeout*10/8 + time.Second
		all = append(all, fmt.Sprintf("%s.stop.timeout is %s, and stop_timeout leaves a service %s: it is killed then%s; write stop_timeout: %s, and have the engine wait longer: docker stop -t %d",
			longest, d.Stop.Timeout, c.stopsWithin().Round(100*time.Millisecond), more, needs.Truncate(time.Second), int((needs+time.Second).Seconds())))
	}
	at := map[string][]string{} // by local address, the services that are ready when that answers
	for _, name := range names {
		if d := defined[name]; d.Ready != nil {
			host, port := d.Ready.Local()
			address := fmt.Sprintf("%s:%d", host, port)
			switch {
			case port == 0 || d.Profile != "" && port == d.Port: // each has its own
			case d.Profile != "":
				at[address] = append(at[address], name+" (of all its profiles)", "others of it")
			default:
				at[address] = append(at[address], name)
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(at)) {
		if who := at[address]; len(who) > 1 {
			all = append(all, fmt.Sprintf("ready of %s asks %s, so one of them may be ready by the answer of another, or wait until that has ended; give each an address of its own", strings.Join(who, " and "), strings.TrimPrefix(address, ":")))
		}
	}
	return all
}

// stopsWithin is the time that the container's stop leaves a service; the rest is for what services
// leave behind.
func (c *Config) stopsWithin() time.Duration { return c.StopTimeout * 8 / 10 }

// cutShort is the definition with the longest time to stop that the container's stop does not
// leave it, and how many others there are; "": none. The default is no wish of anybody's.
func (c *Config) cutShort(defined map[string]*service.Definition, names []string) (longest string, others int) {
	standard := service.Default("").Stop.Timeout
	for _, name := range names {
		timeout := defined[name].Stop.Timeout
		if timeout <= c.stopsWithin() || timeout == standard {
			continue
		}
		others++
		if longest == "" || timeout > defined[longest].Stop.Timeout {
			longest = name
		}
	}
	return longest, max(others-1, 0)
}
