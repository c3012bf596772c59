// Package document reads a YAML file strictly. It finds every fault of a file
// at once, and each fault says file, line, field and what would be right.
//
// A file is one document of at most MaxSize bytes, without anchors, aliases,
// tags, duplicate keys and control characters. Whatever is written where a
// string stands is expanded (Expand) before it is read as a number, a boolean
// or what else the field wants.
//
// The package knows nothing of services. It opens no file: it is given bytes.
package document
