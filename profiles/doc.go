// Package profiles keeps the profiles of a volume: it finds, creates, changes
// and deletes them, gives them ports, and keeps what is recorded about them and
// about static services.
//
// It owns what lies below $RLMINIT_HOME but logs/gateways and logs/services:
//
//	profiles/NAME/                 a profile, if it holds the marker file
//	profiles/NAME/profile.yaml     its overrides, 0600
//	profiles/NAME/STATE_FILE       intent and last-known state
//	state/services/NAME.json       the same, of a static service
//	trash/NAME-DATE/               deleted profiles
//	logs/container-boot.log        one line a profile a boot
//
// Whatever lies there may have been put there by a gateway, which has the
// supervisor's uid: every access goes through durable. The package runs no
// process, and starts no goroutine but the Watcher's. A Store may be used from
// several goroutines at once; one Store a volume, which the lock in
// profiles/lease sees to.
package profiles
