package progress

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlainObject(t *testing.T) {
	for _, c := range []struct {
		name, in string
		ok       bool
		want     []member
	}{
		{"empty", ` { } `, true, nil},
		{"scalars", "{\"a\":-1.5e+3 , \"b\" :true,\t\"c\":false,\"d\":null,\"e\":\"x y\"}\n", true,
			[]member{{name: "a", value: json.Number("-1.5e+3")}, {name: "b", value: true}, {name: "c", value: false}, {name: "d"}, {name: "e", value: "x y"}}},
		{"zeros", `{"a":0,"b":-0,"c":0.0}`, true, []member{{name: "a", value: json.Number("0")}, {name: "b", value: json.Number("-0")}, {name: "c", value: json.Number("0.0")}}},
		{"an escape is left to the decoder", `{"a\u0062":1}`, false, nil},
		{"so is anything but ASCII", `{"é":1}`, false, nil},
		{"and a list", `{"a":[1]}`, false, nil},
		{"and NaN", `{"a":NaN}`, false, nil},
		{"a name twice", `{"a":1,"a":2}`, false, nil},
		{"a zero in front", `{"a":01}`, false, nil},
		{"no digits", `{"a":-}`, false, nil},
		{"no digits after the point", `{"a":1.}`, false, nil},
		{"no digits of the exponent", `{"a":1e+}`, false, nil},
		{"a comma too many", `{"a":1,}`, false, nil},
		{"text after the object", `{"a":1}}`, false, nil},
		{"cut off in a string", `{"a":"b`, false, nil},
		{"cut off in a word", `{"a":tru`, false, nil},
		{"a word and more", `{"a":trues}`, false, nil},
		{"nothing", ``, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := plainObject([]byte(c.in))
			if !ok {
				got = nil
			}
			if ok != c.ok || !cmp.Equal(c.want, got, cmp.AllowUnexported(member{})) {
				t.Errorf("%v, %v", got, ok)
			}
		})
	}
}

// FuzzPlain holds the quick reader to the decoder: what it accepts, the decoder reads the same.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{`{"iter":1200,"epoch":3,"val_acc":-0.71e-5}`, `{"ready":true,"iter":4,"resumed":false,"x":null}`, ` { "done" : true, "reason":"target"} `,
		`{"a":1,"a":2}`, `{"a":01}`, `{}`, `{"a":1}x`, `{"NaN":"inf","b":nan}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, ok := plainObject(in)
		if !ok {
			return
		}
		want, err := anyObject(in)
		if err != nil || !cmp.Equal(want, got, cmp.AllowUnexported(member{})) {
			t.Fatalf("%q: %v, the decoder says %v, %v", in, got, want, err)
		}
	})
}
