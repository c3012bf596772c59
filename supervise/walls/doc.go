// Package walls makes what stands between one service and the others ready for
// its spawn: the Landlock ruleset and filter of its isolation, a directory for
// its temporary files, and its secrets. It touches files and so is for whoever
// prepares a spawn beside the loop; what came of it goes into the message to
// tier 1.
package walls
