package control

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// decodeServices is json.Unmarshal of a list of services. To read a thousand of them
// took most of the time of `status`, so a service of which there is little to say is
// read by its keys; any other, and whatever is not as a supervisor writes it, is left
// to json.Unmarshal, which alone says what is wrong.
func decodeServices(text []byte) (list []Service, err error) {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(text), []byte{'['})
	for like := new(Service); ok; {
		var s Service
		n := s.plain(rest, like)
		if n == 0 {
			if n = objectEnd(rest); n == 0 || json.Unmarshal(rest[:n], &s) != nil {
				break
			}
		}
		if list == nil {
			list = make([]Service, 0, len(rest)/n+1) // they are about as long as the first
		}
		list = append(list, s)
		like = &list[len(list)-1]
		if rest = rest[n:]; len(rest) == 1 && rest[0] == ']' {
			return list, nil
		}
		rest, ok = bytes.CutPrefix(rest, []byte{','})
	}
	list = nil
	err = json.Unmarshal(text, &list)
	return list, err
}

// objectEnd is how long the object is that a text begins with; 0: there is none.
func objectEnd(text []byte) int {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object json.RawMessage
	if len(text) == 0 || text[0] != '{' || decoder.Decode(&object) != nil {
		return 0
	}
	return len(object)
}

// plain reads a service that has neither lists nor objects in it, nor text beyond ASCII
// or with escapes, and tells how long it is; 0: it is none, and s is of no use. What many
// have in common is shared with like.
func (s *Service) plain(text []byte, like *Service) int {
	at := 0
	for begin := byte('{'); ; begin = ',' {
		if at+1 >= len(text) || text[at] != begin || text[at+1] != '"' {
			return 0
		}
		at += 2
		key := bytes.IndexByte(text[at:], '"')
		if key < 0 || at+key+2 >= len(text) || text[at+key+1] != ':' {
			return 0
		}
		name := text[at : at+key]
		at += key + 2
		end := valueEnd(text[at:])
		if end == 0 || !s.set(name, text[at:at+end], like) {
			return 0
		}
		if at += end; at < len(text) && text[at] == '}' {
			return at + 1
		}
	}
}

// valueEnd is how long the plain value is that a text begins with; 0: there is none.
func valueEnd(text []byte) int {
	if len(text) > 0 && text[0] == '"' {
		for i, c := range text[1:] {
			switch {
			case c == '"':
				return i + 2
			case c < ' ' || c == '\\' || c >= 0x7f:
				return 0
			}
		}
		return 0
	}
	return max(bytes.IndexAny(text, ",}"), 0)
}

func (s *Service) set(key, value []byte, like *Service) (ok bool) {
	switch string(key) {
	case "name":
		return word(&s.Name, value)
	case "type":
		return words(&s.Type, value, like.Type)
	case "state":
		return words(&s.State, value, like.State)
	case "desired":
		return words(&s.Desired, value, like.Desired)
	case "restarts":
		return number(&s.Restarts, value)
	case "profile":
		return orNull(&s.Profile, value, word)
	case "reason":
		return orNull(&s.Reason, value, word)
	case "pid":
		return orNull(&s.PID, value, number)
	case "port":
		return orNull(&s.Port, value, number)
	case "uid":
		return orNull(&s.UID, value, number)
	case "ready":
		return orNull(&s.Ready, value, truth)
	case "healthy":
		return orNull(&s.Healthy, value, truth)
	case "since":
		return orNull(&s.Since, value, moment)
	case "uptime_s":
		return orNull(&s.UptimeS, value, fraction)
	case "last_exit":
		s.LastExit = nil
		return string(value) == "null"
	}
	return false
}

func orNull[T any](to **T, value []byte, read func(*T, []byte) bool) bool {
	if *to = nil; string(value) == "null" {
		return true
	}
	*to = new(T)
	return read(*to, value)
}

func word(to *string, value []byte) bool { return words(to, value, "") }

func words(to *string, value []byte, like string) bool {
	if value[0] != '"' {
		return false
	}
	if value = value[1 : len(value)-1]; string(value) == like {
		*to = like
	} else {
		*to = string(value)
	}
	return true
}

func number[T int | uint32](to *T, value []byte) bool {
	n, err := strconv.ParseUint(string(value), 10, 31)
	*to = T(n)
	return err == nil && (value[0] != '0' || len(value) == 1)
}

func fraction(to *float64, value []byte) (ok bool) {
	for i, c := range value {
		if (c < '0' || c > '9') && (c != '.' || i == 0 || i == len(value)-1) || c == '0' && i == 0 && len(value) > 1 && value[1] != '.' {
			return false
		}
	}
	n, err := strconv.ParseFloat(string(value), 64)
	*to = n
	return err == nil
}

func moment(to *time.Time, value []byte) bool {
	return value[0] == '"' && to.UnmarshalText(value[1:len(value)-1]) == nil
}

func truth(to *bool, value []byte) bool {
	*to = string(value) == "true"
	return *to || string(value) == "false"
}
