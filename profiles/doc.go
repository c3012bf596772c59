// Package profiles keeps the profiles of a volume: it finds, creates, changes
// and deletes them, gives them ports, and keeps their records and
// those of services of the configuration.
//
// It owns what lies below $RLMINIT_HOME but logs and what else the supervisor keeps
// in .rlminit:
//
//	profiles/NAME/                 a profile, if it holds the marker file
//	profiles/NAME/profile.yaml     its overrides, 0600
//	profiles/NAME/STATE_FILE       a copy of intent and last-known state: COPIES.md
//	state/services/NAME.json       the same of a service, by earlier versions: taken over
//	trash/NAME-DATE/               deleted profiles
//	trash/NAME-revision-N/         the same, by a revision
//	logs/container-boot.log        one line a profile a boot
//	.rlminit/secrets/NAME/         secrets of a profile
//
// A Store makes, renames and deletes; what it needs for that is its rooms', each of
// which has fields of its own:
//
//	store.go    tree: the volume as all rooms see it
//	list.go     catalogue: which profiles there are, and which port and secrets each has
//	record.go   Records: state files; intents.go: desired states, by the journal
//	owners.go   Ownership: whose directory is whose; users.go, byowner.go
//	furnish.go  furnisher: the content of a profile's directory
//	trash.go    Trash
//	skipped.go  told: messages to people
//	watch.go    Watcher: what others change
//
// Below it: secrets and bootlog keep those two, ports knows which port is whose, overrides changes the text of a
// profile.yaml, statefile is the form of a state file, inotify watches with another
// user's rights, archive is a profile as one file, lease the lock.
//
// But for the last two it is the service user's, and is touched with that user's
// rights alone, package rights. Whatever lies there may have been put there by a
// gateway: every access goes through durable. The package runs no
// process, and starts no goroutine but the Watcher's. A Store may be used from
// several goroutines at once; one Store a volume, which the lock in
// profiles/lease sees to.
package profiles
