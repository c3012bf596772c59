package config

import (
	"strings"
	"testing"
)

func TestRemap(t *testing.T) {
	const text = "version: 1\nremap: {uid: ['${APP_UID:-}'], gid: ['${APP_GID:-}']}\n"
	for _, c := range []struct {
		env      vars
		uid, gid uint32
	}{
		{nil, 0, 0},
		{vars{"APP_UID": "5"}, 5, 0},
		{vars{"APP_UID": "5", "PUID": "6", "PGID": "7"}, 6, 7},
		{vars{"APP_UID": "5", "PUID": "6", "RLMINIT_UID": "8", "RLMINIT_GID": "65534"}, 8, 65534},
		{vars{"RLMINIT_UID": "", "PUID": "6"}, 6, 0},
	} {
		conf := parsed(t, c.env, text)
		if conf.UID != c.uid || conf.GID != c.gid {
			t.Errorf("%v: %d:%d", c.env, conf.UID, conf.GID)
		}
	}
	first := strings.Replace(text, "{uid", "{before_puid: true, uid", 1)
	for _, c := range []struct {
		env      vars
		uid, gid uint32
	}{
		{vars{"APP_UID": "5", "PUID": "6", "PGID": "7"}, 5, 7},
		{vars{"PUID": "6", "PGID": "7"}, 6, 7},
		{vars{"APP_UID": "5", "APP_GID": "4", "PUID": "6", "PGID": "7", "RLMINIT_UID": "8"}, 8, 4},
	} {
		if conf := parsed(t, c.env, first); conf.UID != c.uid || conf.GID != c.gid {
			t.Errorf("before_puid, %v: %d:%d", c.env, conf.UID, conf.GID)
		}
	}
	for _, bad := range []string{"0", "65535", "-1", "+5", "1e3", " 5", "5 ", "0x5", "99999999999", "app", "1000:1000", "٣"} {
		if _, faults := Parse(bundle(text), vars{"RLMINIT_UID": bad}.lookup); len(faults) != 1 {
			t.Errorf("RLMINIT_UID=%q: %v", bad, faults)
		}
	}
}
