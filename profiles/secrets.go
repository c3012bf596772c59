package profiles

import (
	"errors"
	"fmt"
	"io/fs"

	"rlminit/profiles/secrets"
)

// SetSecrets gives a profile these secrets, durably, and no other. changed is false
// where it has them already. It fails with ErrNotFound if there is no such profile.
func (s *Store) SetSecrets(name string, set map[string]string) (changed bool, err error) {
	_, release, err := s.list.hold(name)
	defer release()
	if err != nil {
		return false, err
	}
	changed, err = s.Secrets.Save(name, set)
	return changed, refused(err)
}

// refused is what cannot be a secret as a refusal; any other error stays what it is.
func refused(err error) error {
	var invalid secrets.Invalid
	if errors.As(err, &invalid) {
		return refuse(ErrValue, "%v", err)
	}
	return err
}

// sweepSecrets removes what lies under the names of no profiles, of which these are those
// that there are. Where there are none at all, their directory may be missing for once,
// and what is removed here does not come back.
func (v *tree) sweepSecrets(sets *secrets.Sets, profiles []string) {
	if len(profiles) == 0 {
		return
	}
	holders := sets.Holders()
	for _, name := range profiles {
		if holders[name] {
			sets.Tidy(name)
		}
	}
	for _, name := range sets.Strays(profiles) {
		if name != Default && ValidName(name) {
			v.sweepSecretsOf(sets, name)
		}
	}
}

func (v *tree) sweepSecretsOf(sets *secrets.Sets, name string) {
	defer v.names.lock(name)()
	// One that cannot be read, or lacks its marker, is not gone.
	if _, err := v.home.Lstat(dirOf(name)); errors.Is(err, fs.ErrNotExist) && sets.Forget(name) {
		v.told.say(fmt.Sprintf("the secrets kept for a profile %s are removed: there is no such profile", name))
	}
}
