package profiles

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"rlminit/journal"
)

func recordOf(t *testing.T, kind string, body any) journal.Record {
	t.Helper()
	line, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return journal.Record{Type: kind, Line: line}
}

// Whatever is created, renamed, deleted and restored, and wherever a kill comes
// between record and directory: no two profiles that are there have one user, what
// was once one's is nobody else's but by its directory, and a profile whose directory
// was not touched by hand keeps its own.
func TestUsersExplored(t *testing.T) {
	const low, high = 100, 140
	names := []string{"a", "b", "c", "d"}
	for seed := range uint64(3000) {
		chance := rand.New(rand.NewPCG(seed, 1))
		users := NewUsers()
		// dirs has the owner of each directory; 0 is the services' user.
		dirs, ever := map[string]uint32{}, map[uint32]bool{}
		trash := map[string]bool{}
		story := ""
		user := func(name string) {
			is, recorded := services, false
			uid, known := users.of(name)
			recorded = known
			switch owner := dirs[name]; {
			case owner == 0:
			case owner == uid:
				is = itsOwn
			case users.whose(owner) == "":
				is = nobodys
			default:
				is = departed
				if theirs, there := dirs[users.whose(owner)]; there && theirs == owner {
					is = others
				}
			}
			elsewhere := ""
			for other, owner := range dirs {
				if other != name && known && owner == uid {
					elsewhere = other
				}
			}
			did := standing{auto: true, is: is, recorded: recorded, elsewhere: elsewhere != ""}.decide()
			story += fmt.Sprintf("; user %s: %d", name, did)
			switch did {
			case allot, yield:
				if did == yield {
					users.Apply(recordOf(t, TypeUser, userBody{Profile: elsewhere, UID: uid, From: name}))
				}
				if uid = users.free(low, high); uid == 0 {
					return
				}
				if ever[uid] {
					t.Fatalf("seed %d: %d is given twice%s", seed, uid, story)
				}
				ever[uid] = true
				users.Apply(recordOf(t, TypeUser, userBody{Profile: name, UID: uid}))
				if chance.IntN(4) > 0 { // or a kill before it is given
					dirs[name] = uid
				}
			case give:
				dirs[name] = uid
			case adopt, follow:
				users.Apply(recordOf(t, TypeUser, userBody{Profile: name, UID: dirs[name], From: users.whose(dirs[name])}))
			case refuseIt:
				t.Fatalf("seed %d: refused%s", seed, story) // only what was done by hand is
			}
		}
		for range 30 {
			name := names[chance.IntN(len(names))]
			_, there := dirs[name]
			switch what := chance.IntN(6); {
			case what == 0 && !there:
				story += "; create " + name
				dirs[name] = 0
			case what <= 2 && there:
				before, had := users.of(name)
				given := dirs[name] == before && had
				user(name)
				if after, _ := users.of(name); given && after != before {
					t.Fatalf("seed %d: %s was %d and is %d%s", seed, name, before, after, story)
				}
			case what == 3 && there:
				story += "; delete " + name
				delete(dirs, name) // and its owner is the services' user
				trash[name] = true
			case what == 4 && trash[name] && !there:
				story += "; restore " + name
				dirs[name] = 0
			case what == 5 && there:
				to := names[chance.IntN(len(names))]
				if _, taken := dirs[to]; taken {
					continue
				}
				story += "; rename " + name + " " + to
				dirs[to] = dirs[name]
				delete(dirs, name)
				if chance.IntN(3) > 0 { // or a kill before it is recorded
					users.Apply(recordOf(t, TypeRenamed, profileBody{Profile: name, To: to}))
				}
			}
			section, err := json.Marshal(users.Snapshot())
			if err != nil {
				t.Fatal(err)
			}
			again := NewUsers()
			if err := again.Restore(section); err != nil || !maps.Equal(again.by, users.by) || again.next != users.next {
				t.Fatalf("seed %d: restored as %+v, %v%s", seed, again, err, story)
			}
			whose := map[uint32]string{}
			for name, uid := range dirs {
				if other, taken := whose[uid]; taken && uid != 0 {
					t.Fatalf("seed %d: %s and %s are both %d%s", seed, name, other, uid, story)
				}
				whose[uid] = name
			}
			recorded := map[uint32]string{}
			for name, uid := range users.by {
				if other, taken := recorded[uid]; taken {
					t.Fatalf("seed %d: %s and %s are recorded as %d%s", seed, name, other, uid, story)
				}
				recorded[uid] = name
			}
		}
	}
}

// Nothing is given that is not the services', whatever else is true; and each case
// has its answer.
func TestStandings(t *testing.T) {
	want := map[standing]measure{
		{auto: true, is: services}:                                  allot,
		{auto: true, is: services, recorded: true}:                  give,
		{auto: true, is: itsOwn, recorded: true}:                    leave,
		{auto: true, is: itsOwn}:                                    leave,
		{auto: true, is: departed}:                                  follow,
		{auto: true, is: departed, recorded: true}:                  follow,
		{auto: true, is: nobodys}:                                   adopt,
		{auto: true, is: nobodys, recorded: true}:                   adopt,
		{auto: true, is: services, recorded: true, elsewhere: true}: yield,
		{is: services}:                                              leave,
		{is: services, recorded: true}:                              leave,
		{is: strangers}:                                             leave,
		{is: strangers, recorded: true}:                             leave,
		{is: itsOwn, recorded: true}:                                takeBack,
		{is: itsOwn}:                                                takeBack,
		{is: departed}:                                              takeBack,
		{is: departed, recorded: true}:                              takeBack,
		{is: nobodys}:                                               takeBack,
		{is: nobodys, recorded: true}:                               takeBack,
	}
	for is := range owners {
		for _, auto := range []bool{true, false} {
			for _, recorded := range []bool{true, false} {
				for _, elsewhere := range []bool{true, false} {
					s := standing{auto, is, recorded, elsewhere}
					expected, listed := want[s]
					if !listed { // of the others it makes no difference
						expected, listed = want[standing{auto, is, recorded, false}]
					}
					if !listed {
						expected = refuseIt
					}
					if got := s.decide(); got != expected {
						t.Errorf("%+v: %d, want %d", s, got, expected)
					}
				}
			}
		}
	}
}

func TestUsersRunOut(t *testing.T) {
	u := NewUsers()
	for _, want := range []uint32{7, 8, 0} {
		got := u.free(7, 8)
		if got != want {
			t.Fatalf("free: %d, want %d", got, want)
		}
		u.Apply(recordOf(t, TypeUser, userBody{Profile: fmt.Sprint(got), UID: got}))
	}
	// Another range begins anew, and comes back to where this one was.
	if got := u.free(3, 5); got != 3 {
		t.Errorf("in another range: %d", got)
	}
	if got := u.free(7, 9); got != 9 {
		t.Errorf("in a wider one: %d", got)
	}
	u.Apply(recordOf(t, TypeRenamed, profileBody{Profile: "8", To: "7"}))
	if got := u.free(7, 8); got != 0 {
		t.Errorf("after a rename onto another: %d", got)
	}
}
