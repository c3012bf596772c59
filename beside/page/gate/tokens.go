// Package gate decides who may come in to the web page: it checks the name that a
// browser calls us by, tokens, sessions, and whether a request that changes something
// comes from a page of ours. It sets the headers that every answer has.
//
// It owns the file of tokens as it was read last, the sessions, and the count of wrong
// tokens. It
// never speaks to the supervisor, and never writes a token or a part of one anywhere.
package gate

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// tokenLeast is how many characters a token has at least: openssl rand -hex 16 makes
	// 32. Wrong ones are slowed, but what keeps a stranger out is that they cannot be
	// guessed.
	tokenLeast = 20
	// tokenMost bounds a token, and nameMost the name of its owner, in bytes.
	tokenMost = 512
	nameMost  = 64
	// tokensMost bounds how many lines the file may have, and fileMost its bytes.
	tokensMost = 1000
	fileMost   = 1 << 20
)

// Token is one line of the file.
type Token struct {
	Name    string    // who has it, for the record; "": the line has a token alone
	Expires time.Time // zero: never
	sum     [sha256.Size]byte
}

// By is the name under which what the owner does is recorded.
func (t *Token) By() string {
	if t.Name == "" {
		return "page"
	}
	return t.Name
}

// Tokens are those of a file, which is read again when it has changed.
type Tokens struct {
	path string

	mu   sync.Mutex
	seen fileVersion
	all  []*Token
}

// fileVersion tells one content of a file from the next: a file that is replaced has
// another inode, one that is written another time or size.
type fileVersion struct {
	inode    uint64
	size     int64
	modified time.Time
}

// OpenTokens reads the tokens of a file. The error names the line that is wrong.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if _, err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// Path is where they are.
func (t *Tokens) Path() string { return t.path }

// Find returns the token that was given, or nil: it is none, or has expired at now. How
// long that takes tells nothing of the tokens.
func (t *Tokens) Find(given string, now time.Time) (*Token, error) {
	all, err := t.read()
	sum := sha256.Sum256([]byte(given))
	var found *Token
	for _, token := range all {
		if subtle.ConstantTimeCompare(sum[:], token.sum[:]) == 1 {
			found = token
		}
	}
	if found != nil && found.over(now) {
		found = nil
	}
	return found, err
}

func (t *Token) over(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// read returns the tokens of the file as it is now. Where it cannot be read, nobody has
// one: a token that was taken away must not stay in force because the file is gone.
func (t *Tokens) read() ([]*Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err != nil {
		t.all, t.seen = nil, fileVersion{}
		return nil, fmt.Errorf("cannot read the tokens: %w", err)
	}
	version := fileVersion{size: info.Size(), modified: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		version.inode = stat.Ino
	}
	// A file that has just been written may be written again within the same tick of its
	// clock, so that its time tells nothing yet.
	if version == t.seen && time.Since(version.modified) > 2*time.Second {
		return t.all, nil
	}
	text, err := readBounded(t.path)
	if err != nil {
		t.all, t.seen = nil, fileVersion{}
		return nil, fmt.Errorf("cannot read the tokens: %w", err)
	}
	all, err := parse(t.path, text)
	if err != nil {
		t.all, t.seen = nil, fileVersion{}
		return nil, err
	}
	t.all, t.seen = all, version
	return all, nil
}

// readBounded reads a regular file of a bounded size.
func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, fileMost+1))
	if err == nil && len(text) > fileMost {
		err = fmt.Errorf("%s has more than %d bytes", path, fileMost)
	}
	return text, err
}

// parse reads the lines of a file: TOKEN, or NAME TOKEN [EXPIRES]. An empty line, and one
// that begins with #, is none. No error shows a token.
func parse(path string, text []byte) ([]*Token, error) {
	var all []*Token
	for i, line := range strings.Split(string(bytes.TrimPrefix(text, []byte("\ufeff"))), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		wrong := func(why string) error { return fmt.Errorf("cannot use %s, line %d: %s", path, i+1, why) }
		token := &Token{}
		secret := words[0]
		if len(words) > 1 {
			token.Name, secret = words[0], words[1]
		}
		switch {
		case len(words) > 3:
			return nil, wrong("it has more than NAME TOKEN EXPIRES; a name has no blanks")
		case !utf8.ValidString(line):
			return nil, wrong("it is not UTF-8")
		case len(token.Name) > nameMost:
			return nil, wrong(fmt.Sprintf("the name has more than %d bytes", nameMost))
		case len(secret) < tokenLeast:
			return nil, wrong(fmt.Sprintf("the token has less than %d characters; make one with openssl rand -hex 16", tokenLeast))
		case len(secret) > tokenMost:
			return nil, wrong(fmt.Sprintf("the token has more than %d bytes", tokenMost))
		case len(all) == tokensMost:
			return nil, wrong(fmt.Sprintf("there are more than %d tokens", tokensMost))
		}
		if len(words) == 3 {
			expires, err := time.Parse(time.RFC3339, words[2])
			if err != nil {
				return nil, wrong("the third word is not a time as 2026-12-31T00:00:00Z")
			}
			token.Expires = expires
		}
		token.sum = sha256.Sum256([]byte(secret))
		all = append(all, token)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("cannot use %s: it has no token; write a line with one: openssl rand -hex 16", path)
	}
	return all, nil
}
