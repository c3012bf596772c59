package revision

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// The values of secrets are kept with a revision as long as a rollback can bring them back:
//
//	the revision is older than those that are kept   they go with its contents
//	it was rolled back itself                        they go at its end: no rollback takes it
//	the profile's last entry is purged               they go: no rollback puts it back
//	somebody forgets a secret                        it goes, and a rollback that would bring
//	                                                 it back is refused, and names it

// forget takes secrets out of a content, all if keys is nil, and notes their names. It tells
// whether there were any.
func (c *Content) forget(keys []string) (changed bool) {
	if c == nil {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if keys == nil || slices.Contains(keys, name) {
			delete(c.Secrets, name)
			c.Forgotten = append(c.Forgotten, name)
			changed = true
		}
	}
	return changed
}

// forget takes secrets out of a step's contents.
func (k *Kept) forget(keys []string) (changed bool) {
	for _, c := range []*Content{k.Before, k.After, k.Was} {
		changed = c.forget(keys) || changed
	}
	return changed
}

// Forget removes secrets of a profile, all if keys is nil, from every revision that can be
// rolled back, whichever name the profile had then, and tells which had them. It is refused
// as long as a revision that changes the profile is under way.
func (r *Revisions) Forget(profile string, keys []string) (had []int, err error) {
	if r == nil {
		return nil, nil
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	r.journal.View(func(f *apply.Fold) {
		for _, k := range []*apply.Known{f.Open(), f.Unfinished()} {
			if k != nil && r.names(f, profile, k) != nil {
				err = control.Conflict("nothing was forgotten: revision %d, which changes %s, is being applied; wait for its end: rlminit revisions", k.Begun.Revision, profile)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return r.forgetOf(func(f *apply.Fold, k *apply.Known) []string { return r.names(f, profile, k) }, keys)
}

// names are the names that a profile had in a revision.
func (r *Revisions) names(f *apply.Fold, profile string, k *apply.Known) (names []string) {
	for _, p := range k.Begun.Steps {
		if to, is := f.Gone[p.Name].Profile(); p.Name == profile || is && to == profile {
			names = append(names, p.Name)
		}
	}
	return names
}

// ForgetGone removes the secrets of the profiles that are neither there nor in the trash,
// under whichever name, from every revision. there tells of a name.
func (r *Revisions) ForgetGone(there func(name string) bool) {
	if r == nil {
		return
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	_, err := r.forgetOf(func(f *apply.Fold, k *apply.Known) (names []string) {
		if open := f.Open(); open != nil && open.Begun.Revision == k.Begun.Revision {
			return nil
		}
		for _, p := range k.Begun.Steps {
			at, moved := f.Gone[p.Name]
			_, lives := at.Profile()
			_, trashed := at.Trashed()
			if !plan.IsConfiguration(p.Name) && !there(p.Name) && !(moved && (lives || trashed)) {
				names = append(names, p.Name)
			}
		}
		return names
	}, nil)
	if err != nil {
		slog.Warn("revisions still have secrets of profiles that are gone; the next purge tries again", "err", err)
	}
}

// forgetOf removes secrets from the revisions that are kept. The caller holds r.beginning.
func (r *Revisions) forgetOf(names func(*apply.Fold, *apply.Known) []string, keys []string) (had []int, err error) {
	of := map[int][]string{}
	r.journal.View(func(f *apply.Fold) {
		newest := f.Newest(kept)
		for i := range f.Revisions {
			k := &f.Revisions[i]
			if found := names(f, k); len(found) > 0 && newest[k.Begun.Revision] {
				of[k.Begun.Revision] = found
			}
		}
	})
	for _, number := range slices.Sorted(maps.Keys(of)) {
		doc, err := r.load(number)
		if err != nil {
			return had, control.Failed("cannot look for secrets in revision %d: %v", number, err)
		}
		changed := false
		for i := range doc.Steps {
			k := &doc.Steps[i]
			changed = slices.Contains(of[number], k.Name) && k.forget(keys) || changed
		}
		if !changed {
			continue
		}
		if err := r.rewrite(doc); err != nil {
			return had, err
		}
		had = append(had, number)
	}
	return had, nil
}

// rewrite writes the contents of a revision again.
func (r *Revisions) rewrite(doc *Document) error {
	b, err := json.Marshal(doc)
	if err == nil {
		err = r.archive.Save(doc.Revision, b)
	}
	if err != nil {
		return control.Failed("revision %d still has them: %v", doc.Revision, err)
	}
	return nil
}

// forgetUndone removes all secrets from a revision that was rolled back: none goes back to it.
func (c *carrier) forgetUndone() {
	doc, err := c.r.load(c.doc.Revision)
	if err != nil {
		return // and so nobody reads them
	}
	changed := false
	for i := range doc.Steps {
		changed = doc.Steps[i].forget(nil) || changed
	}
	if !changed {
		return
	}
	if err := c.r.rewrite(doc); err != nil {
		slog.Warn("a revision that was rolled back still has secrets", "revision", c.doc.Revision, "err", err)
	}
}

// forgotten says which secrets a rollback cannot bring back; "": it has all.
func forgotten(name string, c *Content) string {
	if len(c.Forgotten) == 0 {
		return ""
	}
	return "the secrets of " + name + " cannot be brought back, for these were forgotten on purpose: " + strings.Join(c.Forgotten, ", ") +
		"; --keep-secrets leaves its secrets as they are"
}

// broughtBack are the names of the secrets that a rollback gives a profile which has not
// these values now.
func broughtBack(c, now *Content) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if now == nil {
			names = append(names, name)
		} else if is, has := now.Secrets[name]; !has || is != c.Secrets[name] {
			names = append(names, name)
		}
	}
	return names
}
