package control

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// PlanRequest is the body of POST /v1/plan.
type PlanRequest struct {
	File     string `json:"file"` // what faults call it
	Dir      string `json:"dir"`  // what paths in it are relative to; "": they must be absolute
	Text     string `json:"text"`
	Scope    string `json:"scope,omitempty"`    // "": the set's own
	Revision string `json:"revision,omitempty"` // what its author calls the source
	Clean    bool   `json:"clean,omitempty"`    // nothing of the source is uncommitted
	// Salt is that of Digests, which are those of the secrets that are in files
	// of their own: the client reads them, with its caller's rights.
	Salt    string                       `json:"salt"`
	Digests map[string]map[string]string `json:"digests,omitempty"` // by profile and place
	// Mask are the values of these, by profile: the plan has none of them anywhere.
	Mask map[string][]string `json:"mask,omitempty"`
	// Configuration is the text of the file that the set declares as root's
	// configuration; null: it declares none.
	Configuration *string `json:"configuration,omitempty"`
	// Unclean and Unread are why the client refuses it by itself, so that this is
	// recorded: the source is not clean, or a secret cannot be read.
	Unclean string `json:"unclean,omitempty"`
	Unread  string `json:"unread,omitempty"`
	// Propose: the plan is to wait for approval, and can be applied for longer.
	Propose bool `json:"propose,omitempty"`
}

// Planned is its answer: the plan, byte for byte as it is to be applied.
type Planned struct {
	Plan string `json:"plan"`
}

// Gating says how a revision is carried out.
type Gating struct {
	SteadyMS   int64 `json:"steady_ms"`   // how long each service is to be ready
	TimeoutMS  int64 `json:"timeout_ms"`  // for each step, until its gate is passed
	DeadlineMS int64 `json:"deadline_ms"` // for all of them; 0: no limit of its own
	Rolling    int   `json:"rolling"`     // how many are replaced at once; 0: 1
}

// ApplyRequest is the body of POST /v1/apply.
type ApplyRequest struct {
	Plan        string                       `json:"plan"`    // "": the one that waits under that hash, with its secrets
	Approve     string                       `json:"approve"` // the plan's hash
	By          string                       `json:"by,omitempty"`
	AllowDelete bool                         `json:"allow_delete,omitempty"`
	Request     string                       `json:"request"` // asked twice, it is one
	Secrets     map[string]map[string]string `json:"secrets,omitempty"`
	Unread      string                       `json:"unread,omitempty"` // which secret cannot be read any more, and why
	Gating
}

// RollbackRequest is the body of POST /v1/rollback.
type RollbackRequest struct {
	Revision    *int   `json:"revision"` // how it was after that one; null: before the last
	AllowDelete bool   `json:"allow_delete,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`      // begin nothing, and answer with its plan
	KeepSecrets bool   `json:"keep_secrets,omitempty"` // secrets stay as they are
	By          string `json:"by,omitempty"`
	Request     string `json:"request"`
	Gating
}

// Revision is a plan that was carried out, or is.
type Revision struct {
	Revision int        `json:"revision"`
	State    string     `json:"state"`       // running, rolling-back, applied, rolled-back, partly; unchanged: there was nothing to do; planned: nothing was begun
	At       time.Time  `json:"at,omitzero"` // zero: of unchanged, which is not recorded
	Ended    *time.Time `json:"ended"`
	UID      uint32     `json:"uid"`
	By       string     `json:"by"`
	Source   string     `json:"source"`
	Hash     string     `json:"hash"`
	Rollback *int       `json:"rollback_to"` // it is a rollback to that one
	Cause    string     `json:"cause"`       // why it was rolled back: gate, failed, timed-out, cancelled, container
	Reason   string     `json:"reason"`
	ExitCode int        `json:"exit_code"` // of the apply, when it has ended

	// Single: it gave one profile other values, or took that back; a rollback without a number
	// passes over it.
	Single bool `json:"single,omitempty"`

	StatePath string `json:"state_path,omitempty"` // of the file with its changes; "": it is kept no longer

	Steps   []RevisionStep `json:"steps"`
	Left    []string       `json:"left,omitempty"` // profiles that a rollback found gone by hand, and does not take back
	Plan    string         `json:"plan,omitempty"` // of a dry run of a rollback
	Held    string         `json:"held,omitempty"` // why it waits, while it is under way: a disk that is full, a step that is tried again
	Version uint64         `json:"version"`        // grows with every change of it
}

// RevisionStep is what became of one change.
type RevisionStep struct {
	Name   string `json:"name"`
	Action string `json:"action"`
	State  string `json:"state"` // waiting, begun, passed, undone, stuck
	Reason string `json:"reason"`
	Note   string `json:"note,omitempty"` // where its directory comes from, or is in the trash, when it has passed

	Secrets []string `json:"secrets,omitempty"` // names of those that a rollback brings back
}

// The states of a Revision.
const (
	RevisionRunning     = "running"
	RevisionRollingBack = "rolling-back"
	RevisionApplied     = "applied"
	RevisionRolledBack  = "rolled-back"
	RevisionPartly      = "partly"
	RevisionUnchanged   = "unchanged"
	RevisionPlanned     = "planned"
)

// Over tells whether the revision has ended.
func (r Revision) Over() bool { return r.State != RevisionRunning && r.State != RevisionRollingBack }

// Drift is the answer of GET /v1/drift: what would bring about again what was
// applied. Its changes are those of a plan.
type Drift struct {
	Revision int      `json:"revision"` // the last that was applied; 0: none
	Changes  []Drifts `json:"changes"`
}

// Drifts is one profile that is not as it was applied.
type Drifts struct {
	Revision int          `json:"revision"` // which made it so
	Name     string       `json:"name"`
	Action   string       `json:"action"` // what would put it right
	Reason   string       `json:"reason"`
	Fields   []DriftField `json:"fields"`
}

// DriftField is a value as it is, and as it was applied.
type DriftField struct {
	Field string  `json:"field"`
	Is    *string `json:"is"`
	Was   *string `json:"was"`
}

// Plan asks what would bring a declared set about.
func (c *Client) Plan(ctx context.Context, r PlanRequest) (Planned, error) {
	return ask[Planned](ctx, c, same("/v1/plan", r, "the plan"))
}

// Apply begins to carry a plan out.
func (c *Client) Apply(ctx context.Context, r ApplyRequest) (Revision, error) {
	return ask[Revision](ctx, c, same("/v1/apply", r, "the apply"))
}

// Rollback begins to put back the state of before.
func (c *Client) Rollback(ctx context.Context, r RollbackRequest) (Revision, error) {
	return ask[Revision](ctx, c, same("/v1/rollback", r, "the rollback"))
}

// Revisions returns all that are remembered, the oldest first.
func (c *Client) Revisions(ctx context.Context) ([]Revision, error) {
	return list[Revision](ctx, c, "/v1/revisions", "the revisions")
}

// Revision returns one as soon as it is of a newer version than the one given,
// or has ended.
func (c *Client) Revision(ctx context.Context, number int, version uint64) (Revision, error) {
	r := get("/v1/revisions/"+strconv.Itoa(number), "revision "+strconv.Itoa(number))
	r.query = url.Values{"after": {strconv.FormatUint(version, 10)}}
	return ask[Revision](ctx, c, r)
}

// Drift asks for the differences from the last revision.
func (c *Client) Drift(ctx context.Context) (Drift, error) {
	return ask[Drift](ctx, c, get("/v1/drift", "the drift"))
}
