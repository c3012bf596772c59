// Package revision makes plans of what there is, carries them out when they are
// approved, and remembers what became of them.
//
//	POST /v1/plan     declared set + Box ── plan.Compare ──▶ a plan
//	POST /v1/apply    the plan ── verified, held against Box ──▶ a revision
//	                  the revision ── plan/apply.Next ──▶ Box, Recorder
//	POST /v1/set      what there is, with other values ──▶ a revision, and a restart beside it
//	GET  /v1/drift    applied state + Box ── plan.Compare
//
// Packages plan and plan/apply decide, which are pure.
// This one owns the revision that is under way, one at most,
// and the files with the contents of each (Archive). It touches no
// service and no profile but through Box.
package revision
