// Package spawn is the driver that begins and ends processes: it carries out Spawn,
// Signal, Sweep and Acknowledge of the core, and answers with what becomes of each spawn.
// It owns the link to tier 1, the ids of spawns, and who answers for each child. It
// decides nothing about services.
package spawn
