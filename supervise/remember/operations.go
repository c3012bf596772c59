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

// Operation has an operation remembered.
func (d *Driver) Operation(is control.Operation) {
	if is.Over() {
		is = history.Shortened(is)
	}
	text, _ := json.Marshal(is) // it has nothing that JSON has not
	d.write(operationKey(is.ID), text)
}

// ForgetOperation lets go of one.
func (d *Driver) ForgetOperation(id uint64) { d.write(operationKey(id), nil) }

func operationKey(id uint64) string { return OperationsUnder + strconv.FormatUint(id, 10) }
