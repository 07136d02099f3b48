package slurm

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func split(data []byte) (map[string]string, bool) {
	out := map[string]string{}
	ok := members(data, func(key []byte, value raw) { out[string(key)] = string(value) })
	return out, ok
}

func TestMembers(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     map[string]string
		ok       bool
	}{
		{"empty", ` { } `, map[string]string{}, true},
		{"kinds", `{"a":1, "b" : "x,}\"" ,"c":[{"d":"]"},2],"e":{"f":{}},"g":null,"h":-1.5e3}`,
			map[string]string{"a": "1", "b": `"x,}\""`, "c": `[{"d":"]"},2]`, "e": `{"f":{}}`, "g": "null", "h": "-1.5e3"}, true},
		{"backslashes", `{"a":"\\","b":"\\\"","\u0063":1}`, map[string]string{"a": `"\\"`, "b": `"\\\""`, "c": "1"}, true},
		{"doubled: the last counts", `{"a":1,"a":2}`, map[string]string{"a": "2"}, true},
		{"list", `[1]`, map[string]string{}, false},
		{"open string", `{"a":"x}`, map[string]string{}, false},
		{"open box", `{"a":[1}`, map[string]string{}, false},
		{"no value", `{"a":}`, map[string]string{}, false},
		{"no colon", `{"a" 1}`, map[string]string{}, false},
		{"comma at the end", `{"a":1,}`, map[string]string{"a": "1"}, false},
		{"no comma", `{"a":1 "b":2}`, map[string]string{"a": "1"}, false},
		{"nothing", ``, map[string]string{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := split([]byte(tt.in))
			if d := cmp.Diff(tt.want, got); d != "" || ok != tt.ok {
				t.Errorf("ok %v\n%s", ok, d)
			}
		})
	}
}

// What is JSON is split as the general decoder splits it; what is not never gives a value without its end, and never a panic.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{runningJob, idleNode, `{"a":"\\\"","b":[[{}]]}`, "{\"\xff\":1}", `{"a":"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := split(data)
		for key, value := range got {
			switch first, last := value[0], value[len(value)-1]; {
			case first == '"' && (len(value) < 2 || last != '"'), first == '{' && last != '}' && last != ']', first == '[' && last != '}' && last != ']':
				t.Fatalf("%q: %q", key, value)
			}
		}
		var want map[string]raw
		if !json.Valid(data) || json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		if !ok || len(bytes.ToValidUTF8(data, nil)) == len(data) && len(got) != len(want) {
			t.Fatalf("ok %v, %d members, want %d", ok, len(got), len(want))
		}
		for key, value := range want {
			if g, found := got[key]; found && g != string(value) {
				t.Fatalf("%q: %q, want %q", key, g, value)
			}
		}
	})
}
