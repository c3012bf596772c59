// Package s6 has the commands that users of s6 type and that scripts call, over the control
// socket: s6-svc, s6-svstat, s6-svok, s6-svwait and s6-svscanctl. Beside them are
// s6-setuidgid, s6-notifyoncheck and with-contenv, which only change themselves before they execute a command.
//
// Their options, exit codes and what they print are those of s6 2.11, as far as rlminit has
// what they speak of. The package owns no state, and never touches a service directory: the
// path of one is the way that a service is named.
package s6
