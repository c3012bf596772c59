package remember

import (
	"encoding/json"
	"strconv"

	"rlminit/control"
	"rlminit/supervise/operation/history"
)

// OperationsUnder is where operations are among the rows.
const OperationsUnder = "operation/"

// Operations are those that a predecessor had remembered.
func (d *Driver) Operations() (all []control.Operation) {
	for _, text := range d.Under(OperationsUnder) {
		var one control.Operation
		if json.Unmarshal(text, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// Operation has an operation remembered, and others that could not be.
func (d *Driver) Operation(is control.Operation) {
	if is.Over() {
		is = history.Shortened(is)
	}
	text, _ := json.Marshal(is) // it has nothing that JSON has not
	d.operation(is.ID, text)
}

// ForgetOperation lets go of one.
func (d *Driver) ForgetOperation(id uint64) { d.operation(id, nil) }

func (d *Driver) operation(id uint64, text []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operations[id] = text
	for id, text := range d.operations {
		key := OperationsUnder + strconv.FormatUint(id, 10)
		if text == nil && d.Delete(key) == nil || text != nil && d.Put(key, text) == nil {
			delete(d.operations, id)
		}
	}
}
