package control

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Profiles returns every profile, in the natural order of their names.
func (c *Client) Profiles(ctx context.Context) ([]Profile, error) {
	all, err := list[Profile](ctx, c, "/v1/profiles", "the profiles")
	inOrder(all, func(p Profile) string { return p.Name })
	return all, err
}

// Profile returns one profile.
func (c *Client) Profile(ctx context.Context, name string) (Profile, error) {
	return ask[Profile](ctx, c, get("/v1/profiles/"+segment(name), "profile "+name))
}

// CreateProfile makes a profile and, unless it is to be stopped, starts its
// gateway.
func (c *Client) CreateProfile(ctx context.Context, p CreateProfile) (Outcome, error) {
	return ask[Outcome](ctx, c, request{
		method: http.MethodPost, path: "/v1/profiles", body: p, repeat: p.ExistOK, what: "the creation of " + p.Name,
	})
}

// ImportProfile makes a profile of an archive.
func (c *Client) ImportProfile(ctx context.Context, p ImportProfile, archive io.Reader) (Outcome, error) {
	query := url.Values{}
	if p.Name != "" {
		query.Set("name", p.Name)
	}
	if p.Stopped {
		query.Set("stopped", "true")
	}
	if p.Wait != nil {
		query.Set("timeout_ms", strconv.FormatInt(p.Wait.TimeoutMS, 10))
	}
	return ask[Outcome](ctx, c, request{
		method: http.MethodPost, path: "/v1/profiles/import", query: query, upload: archive, what: "the import",
	})
}

// SetProfile gives a profile other values.
func (c *Client) SetProfile(ctx context.Context, name string, s SetProfile) (ProfileSet, error) {
	return ask[ProfileSet](ctx, c, request{
		method: http.MethodPatch, path: "/v1/profiles/" + segment(name), body: s, repeat: true, what: "the change of " + name,
	})
}

// SetProfiles gives some profiles other values.
func SetProfilesOf(ctx context.Context, c *Client, s SetProfiles) (SetAnswer, error) {
	done, err := ask[SetAnswer](ctx, c, request{method: http.MethodPost, path: "/v1/set", body: s, repeat: true, what: "the change of profiles"})
	for _, names := range [][]string{done.Profiles, done.Changed} {
		inOrder(names, func(name string) string { return name })
	}
	inOrder(done.Outdated, func(o OutdatedProfile) string { return o.Name })
	return done, err
}

// ProfileText returns a profile's profile.yaml, secrets and all.
func (c *Client) ProfileText(ctx context.Context, name string) (ProfileText, error) {
	return ask[ProfileText](ctx, c, get("/v1/profiles/"+segment(name)+"/text", "the profile.yaml of "+name))
}

// ReplaceProfile puts another profile.yaml in force.
func (c *Client) ReplaceProfile(ctx context.Context, name string, r ReplaceProfile) (Profile, error) {
	return ask[Profile](ctx, c, post("/v1/profiles/"+segment(name)+"/replace", r, "the change of "+name))
}

// RenameProfile gives a profile another name. Its gateway, if it runs, is stopped
// and started again.
func (c *Client) RenameProfile(ctx context.Context, name string, r RenameProfile) (Outcome, error) {
	return ask[Outcome](ctx, c, post("/v1/profiles/"+segment(name)+"/rename", r, "the new name of "+name))
}

// AllProfiles is what Repair takes for all of them.
const AllProfiles = "*"

// Repair puts right whose the files of a profile are.
func Repair(ctx context.Context, c *Client, name string) (Repaired, error) {
	return ask[Repaired](ctx, c, same("/v1/profiles/"+segment(name)+"/repair", nil, "the repair of "+name))
}

// AdoptProfile takes the state file of a profile for its desired state.
func (c *Client) AdoptProfile(ctx context.Context, name string, a AdoptProfile) (Outcome, error) {
	return ask[Outcome](ctx, c, same("/v1/profiles/"+segment(name)+"/adopt", a, "the adoption of "+name))
}

// Trash asks about deleted profiles.
type Trash struct{ client *Client }

// Trash is where they are.
func (c *Client) Trash() Trash { return Trash{c} }

// List returns those that can be restored.
func (t Trash) List(ctx context.Context) ([]Trashed, error) {
	all, err := list[Trashed](ctx, t.client, "/v1/trash", "the trash")
	inOrder(all, func(t Trashed) string { return t.Profile })
	return all, err
}

// Purge removes an entry for good; needed: also one that a rollback takes.
func (t Trash) Purge(ctx context.Context, entry string, needed bool) (Purged, error) {
	query := url.Values{}
	if needed {
		query.Set("needed", "true")
	}
	return ask[Purged](ctx, t.client, request{
		method: http.MethodDelete, path: "/v1/trash/" + segment(entry), query: query, what: "the removal of " + entry,
	})
}

// DeleteProfile stops a profile's gateway and moves its directory to the
// trash, or removes it.
func (c *Client) DeleteProfile(ctx context.Context, name string, how Deletion) (Deleted, error) {
	query := url.Values{}
	if how.Purge {
		query.Set("purge", "true")
	}
	if how.ForgetSecrets {
		query.Set("forget_secrets", "true")
	}
	return ask[Deleted](ctx, c, request{
		method: http.MethodDelete, path: "/v1/profiles/" + segment(name), query: query, what: "the deletion of " + name,
	})
}

// Secrets returns a profile's secrets, without their values.
func (c *Client) Secrets(ctx context.Context, profile string) ([]Secret, error) {
	return list[Secret](ctx, c, "/v1/profiles/"+segment(profile)+"/secrets", "the secrets of "+profile)
}

// ForgetSecrets removes secrets of a profile wherever they are kept.
func (c *Client) ForgetSecrets(ctx context.Context, profile string, names []string) (ForgottenSecrets, error) {
	return ask[ForgottenSecrets](ctx, c, post("/v1/profiles/"+segment(profile)+"/secrets/forget", ForgetSecrets{names}, "the removal of secrets of "+profile))
}

// Environment returns how a command of a profile is run; with "" for the name,
// how one that belongs to no profile is.
func (c *Client) Environment(ctx context.Context, profile string) (Environment, error) {
	path := "/v1/environment"
	if profile != "" {
		path += "/" + segment(profile)
	}
	return ask[Environment](ctx, c, get(path, "the environment"))
}
