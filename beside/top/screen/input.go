// Package screen is `rlminit top` on a terminal, as a pure function of what comes in: keys,
// sizes, answers. Model.Step takes one of them and says what is to be done, and Model.Draw
// is what the terminal then shows.
//
// It does no input and output, asks no clock, and owns nothing but the model. What is to
// be done are values, which package top carries out.
package screen

import (
	"rlminit/beside/top/table"
	"rlminit/control"
)

// Input is what a model is told. It is one of the types below.
type Input interface{ input() }

// Size is that of the terminal, in columns and lines.
type Size struct{ Width, Height int }

// Key is a key that was pressed: its name, such as enter or ctrl+c, and the text that it
// stands for, if any.
type Key struct{ Name, Text string }

// Pasted is text that was pasted. It is no command, whatever it says.
type Pasted struct{ Text string }

// Fresh is how all services are.
type Fresh struct{ Snapshot table.Snapshot }

// Silent says that the supervisor does not answer; Why is "" as long as it may just take
// its time, and else the reason why it could not be asked.
type Silent struct{ Why string }

// Logged are lines of the log that was opened as number Of. Why is why it cannot be read
// now; "": it can.
type Logged struct {
	Of    int
	Lines [][]byte
	Why   string
}

// Depends is what services come after: the answer to the question number Of. Why is why
// that cannot be told; Refused: the caller may not know, and so may command nothing.
type Depends struct {
	Of      int
	All     []control.Dependencies
	Why     string
	Refused bool
}

// Operated is how the operation is that was begun as number Of, or that was cancelled: 0.
// Why is why it could not be begun, cancelled or looked at; "": it could.
type Operated struct {
	Of        int
	Operation control.Operation
	Why       string
}

// Operations are those that the supervisor knows of.
type Operations struct {
	All []control.Operation
	Why string
}

func (Size) input()       {}
func (Key) input()        {}
func (Pasted) input()     {}
func (Fresh) input()      {}
func (Silent) input()     {}
func (Logged) input()     {}
func (Depends) input()    {}
func (Operated) input()   {}
func (Operations) input() {}

// Effect is what is to be done. It is one of the types below.
type Effect interface{ effect() }

// OpenLog has the log of a service be followed, in place of any other; Logged answers
// with Of.
type OpenLog struct {
	Of      int
	Service string
}

// CloseLog ends that.
type CloseLog struct{}

// AskDepends asks what services come after; Depends answers with Of.
type AskDepends struct{ Of int }

// Begin begins an operation, and tells how it is until it is over: Operated answers with
// Of.
type Begin struct {
	Of   int
	What control.BeginOperation
}

// CancelOperation has an operation go no further.
type CancelOperation struct{ ID uint64 }

// AskOperations asks for the operations; Operations answers.
type AskOperations struct{}

// Redraw has everything be drawn anew.
type Redraw struct{}

// Suspend stops top until the shell goes on with it.
type Suspend struct{}

// Quit ends top.
type Quit struct{}

func (OpenLog) effect()         {}
func (CloseLog) effect()        {}
func (AskDepends) effect()      {}
func (Begin) effect()           {}
func (CancelOperation) effect() {}
func (AskOperations) effect()   {}
func (Redraw) effect()          {}
func (Suspend) effect()         {}
func (Quit) effect()            {}
