// Package fill gives values to all fields, for tests that none is forgotten on the
// way to another process.
package fill

import (
	"math/rand"
	"reflect"
	"strings"
	"time"
)

// deepest is how far what contains others of its own type is filled.
const deepest = 6

// Random gives the value that p points at, and all that is below it, values at
// random. One for which special returns true it has given its own; nil knows of none.
// Fields that are not exported stay as they are.
func Random(r *rand.Rand, p any, special func(reflect.Value) bool) {
	f := filler{r, special}
	f.fill(reflect.ValueOf(p).Elem(), 0)
}

type filler struct {
	*rand.Rand
	special func(reflect.Value) bool
}

func (r filler) fill(v reflect.Value, depth int) {
	if !v.CanSet() || depth > deepest || r.special != nil && r.special(v) {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(r.Int63n(1<<34), r.Int63n(1e9))))
		return
	}
	one := func(of reflect.Type) reflect.Value {
		e := reflect.New(of).Elem()
		r.fill(e, depth+1)
		return e
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		n := 1 + r.Intn(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			r.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(one(v.Type().Key()), one(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(one(v.Type().Elem()).Addr())
	case reflect.String:
		v.SetString(strings.Repeat("é\x00x", r.Intn(9)))
	case reflect.Bool:
		v.SetBool(r.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(int32(r.Uint32())))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.Uint64()))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	default:
		panic("a field of a kind that nobody can fill: " + v.Type().String())
	}
}
