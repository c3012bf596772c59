// Package openapi describes the control socket in OpenAPI 3.1: requests and permissions
// from the source, their texts from docs/control.md, and schemas from the types of package
// control.
package openapi

import "rlminit/control"

// Route is the types of a request: its body, nil: none; its answer, nil: none.
type Route struct {
	Body, Answer any
	// Raw is the media type of an answer, or of the body of an upload, that is no JSON
	// object: lines of JSON or of text, or an archive.
	Raw string
}

// The media types of streams.
const (
	lines   = "application/x-ndjson"
	text    = "text/plain"
	archive = "application/x-tar"
)

// Routes are the requests of the control socket.
var Routes = map[string]Route{
	"GET /v1/services":                        {Answer: []control.Service{}},
	"GET /v1/services/{name}":                 {Answer: control.Service{}},
	"GET /v1/services/{name}/definition":      {Answer: control.Definition{}},
	"GET /v1/dependencies":                    {Answer: []control.Dependencies{}},
	"GET /v1/metrics":                         {Answer: control.Counts{}},
	"POST /v1/services/{name}/start":          {Body: control.Operate{}, Answer: []control.Outcome{}},
	"POST /v1/services/{name}/stop":           {Body: control.Operate{}, Answer: []control.Outcome{}},
	"POST /v1/services/{name}/restart":        {Body: control.Operate{}, Answer: []control.Outcome{}},
	"POST /v1/services/{name}/signal":         {Body: control.Signal{}, Answer: control.Service{}},
	"POST /v1/services/{name}/wait":           {Body: control.WaitFor{}, Answer: control.Service{}},
	"POST /v1/deadlines":                      {Body: control.Deadlines{}, Answer: control.Prolonged{}},
	"POST /v1/operations":                     {Body: control.BeginOperation{}, Answer: control.Operation{}},
	"GET /v1/operations":                      {Answer: []control.Operation{}},
	"GET /v1/operations/{id}":                 {Answer: control.Operation{}},
	"POST /v1/operations/{id}/cancel":         {Answer: control.Operation{}},
	"POST /v1/reload":                         {Body: control.Reload{}, Answer: control.Reloaded{}},
	"POST /v1/shutdown":                       {},
	"GET /v1/profiles":                        {Answer: []control.Profile{}},
	"GET /v1/profiles/{name}":                 {Answer: control.Profile{}},
	"POST /v1/profiles":                       {Body: control.CreateProfile{}, Answer: control.Outcome{}},
	"POST /v1/profiles/import":                {Raw: archive, Answer: control.Outcome{}},
	"PATCH /v1/profiles/{name}":               {Body: control.SetProfile{}, Answer: control.Profile{}},
	"POST /v1/set":                            {Body: control.SetProfiles{}, Answer: control.SetAnswer{}},
	"DELETE /v1/profiles/{name}":              {Answer: control.Deleted{}},
	"POST /v1/profiles/{name}/rename":         {Body: control.RenameProfile{}, Answer: control.Outcome{}},
	"POST /v1/profiles/{name}/adopt":          {Body: control.AdoptProfile{}, Answer: control.Outcome{}},
	"POST /v1/profiles/{name}/repair":         {Answer: control.Repaired{}},
	"GET /v1/profiles/{name}/text":            {Answer: control.ProfileText{}},
	"GET /v1/profiles/{name}/secrets":         {Answer: []control.Secret{}},
	"POST /v1/profiles/{name}/secrets/forget": {Body: control.ForgetSecrets{}, Answer: control.ForgottenSecrets{}},
	"POST /v1/profiles/{name}/replace":        {Body: control.ReplaceProfile{}, Answer: control.Profile{}},
	"GET /v1/trash":                           {Answer: []control.Trashed{}},
	"DELETE /v1/trash/{entry}":                {Answer: control.Purged{}},
	"GET /v1/environment":                     {Answer: control.Environment{}},
	"GET /v1/environment/{name}":              {Answer: control.Environment{}},
	"GET /v1/events":                          {Raw: lines},
	"GET /v1/logs/{name}":                     {Raw: text},
	"GET /v1/health":                          {Answer: control.Health{}},
	"GET /v1/capabilities":                    {Answer: control.Capabilities{}},
	"POST /v1/jobs":                           {Body: control.RunJob{}, Answer: control.Job{}},
	"GET /v1/hooks":                           {Answer: []control.Hook{}},
	"POST /v1/hooks/{name}/test":              {Body: control.TestHook{}, Answer: control.Job{}},
	"GET /v1/jobs":                            {Answer: []control.Job{}},
	"GET /v1/jobs/{id}":                       {Answer: control.Job{}},
	"GET /v1/jobs/{id}/output":                {Raw: lines, Answer: control.JobOutput{}},
	"POST /v1/jobs/{id}/wait":                 {Body: control.Wait{}, Answer: control.JobResult{}},
	"POST /v1/jobs/{id}/cancel":               {Answer: control.JobResult{}},
	"POST /v1/jobs/{id}/undo":                 {Answer: control.JobResult{}},
	"POST /v1/files":                          {Body: control.WriteFile{}, Answer: control.JobResult{}},
	"POST /v1/files/read":                     {Body: control.ReadFile{}, Raw: lines, Answer: control.JobOutput{}},
	"GET /v1/sessions":                        {Answer: []control.Session{}},
	"GET /v1/sessions/{id}":                   {Answer: control.Session{}},
	"POST /v1/sessions":                       {Body: control.CreateSession{}, Answer: control.Session{}},
	"POST /v1/sessions/{id}/extend":           {Body: control.ExtendSession{}, Answer: control.Session{}},
	"POST /v1/sessions/{id}/snapshot":         {},
	"DELETE /v1/sessions/{id}":                {Answer: control.Session{}},
	"POST /v1/plan":                           {Body: control.PlanRequest{}, Answer: control.Planned{}},
	"POST /v1/plans":                          {Body: control.ProposeRequest{}, Answer: control.ProposedPlan{}},
	"GET /v1/plans":                           {Answer: []control.ProposedPlan{}},
	"GET /v1/plans/{hash}":                    {Answer: control.ProposedPlan{}},
	"DELETE /v1/plans/{hash}":                 {},
	"POST /v1/apply":                          {Body: control.ApplyRequest{}, Answer: control.Revision{}},
	"POST /v1/rollback":                       {Body: control.RollbackRequest{}, Answer: control.Revision{}},
	"GET /v1/revisions":                       {Answer: []control.Revision{}},
	"GET /v1/revisions/{number}":              {Answer: control.Revision{}},
	"GET /v1/drift":                           {Answer: control.Drift{}},
}
