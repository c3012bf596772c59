package jobs

import (
	"slices"

	"rlminit/job"
)

// tasks are the jobs that are not over. They are the runner's goroutine's alone.
//
// Invariant: byID has each of them, and bySpawn those that tier 1 was asked for and has not
// been told to forget.
type tasks struct {
	byID    map[string]*task
	bySpawn map[uint64]*task
}

func newTasks() tasks {
	return tasks{byID: map[string]*task{}, bySpawn: map[uint64]*task{}}
}

// add takes in a job that has its number.
func (all *tasks) add(t *task) { all.byID[t.spec.ID] = t }

// remove takes out one that is over.
func (all *tasks) remove(t *task) { delete(all.byID, t.spec.ID) }

// keyed is the job of a journal under a key; nil: there is none.
func (all *tasks) keyed(key string, in *jobJournal) *task {
	for _, t := range all.byID {
		if key != "" && t.spec.Request.Key == key && t.journal == in {
			return t
		}
	}
	return nil
}

// spawned notes the spawn of a job.
func (all *tasks) spawned(t *task, id uint64, tag uint32) {
	t.run.id, t.run.tag = id, tag
	all.bySpawn[id] = t
}

// ordered are all of them, the oldest first.
func (all *tasks) ordered() []*task { return all.which(func(*task) bool { return true }) }

// which are the jobs for which is says yes, the oldest first.
func (all *tasks) which(is func(*task) bool) (some []*task) {
	for _, t := range all.byID {
		if is(t) {
			some = append(some, t)
		}
	}
	return sortedTasks(some)
}

func sortedTasks(all []*task) []*task {
	slices.SortFunc(all, func(a, b *task) int { return job.Compare(a.spec.ID, b.spec.ID) })
	return all
}

// tagsOf are the tags of an owner's jobs that run.
func (ts *tasks) tagsOf(of Owner) (tags []uint32) {
	for _, t := range ts.byID {
		if t.run.tag != 0 && ownerOf(&t.spec.Request) == of {
			tags = append(tags, t.run.tag)
		}
	}
	return tags
}
