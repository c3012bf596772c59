// Package remember is the driver of what a successor is to know, and cannot learn from
// tier 1's table of children or from the volume: services, and operations, as rows of the
// table that tier 1 holds (supervise/handover). What cannot be written is tried again, and
// Remembered follows when it is. It decides nothing.
package remember
