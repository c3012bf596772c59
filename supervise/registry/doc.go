// Package registry knows which services there are. It turns the configuration
// and the volume's profiles into slots and has them supervised, takes up what
// others put into the service directory, and carries out all that changes what
// there is: create, set, delete, reload, a boot.
//
// One goroutine owns every name and each is in one Life (life.go, NAMES.md). Its
// requests are carried out in their order; it may wait for the
// volume, and for the supervisor's loop, which never waits for it.
//
// Around Registry, which brings names on, each part has its own: names the known
// names, surveyor the content of volume and configuration, reader that of
// slots, publisher the writes to them, trouble that the profiles cannot be
// read. What others ask for goes to Registry, to Profiles, which
// are changed on the volume first, or to AtRest.
//
// It never starts or stops a process, and knows no state of one but whether it
// lives.
package registry
