package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/siteconfig"
)

func TestPageIsUpToDate(t *testing.T) {
	text, err := os.ReadFile("../../etc/unisched.toml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := page(text, siteconfig.Keys())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("run: go run ./contrib/configdoc >docs/configuration.md\n%s", d)
	}
	for _, k := range siteconfig.Keys() {
		if _, leaf, _ := strings.Cut(k.Name, "."); k.Default != "" && !strings.Contains(string(got), "`"+leaf+"`") {
			t.Errorf("%s is not on the page", k.Name)
		}
	}
}

func TestPage(t *testing.T) {
	keys := []siteconfig.Key{{Name: "a.x", Kind: "text", Default: `""`}, {Name: "a.y", Kind: "integer", Default: "1"}, {Name: "a.z", Kind: "integer", Default: "2"},
		{Name: "accounts.NAME.w", Kind: "number"}}
	for _, tt := range []struct{ name, text, want, err string }{
		{"keys that share a comment", "# Title.\n# Intro.\n\n# Of a.\n[a]\n# One | two.\nx = \"\"\n# Both.\ny = 1\nz = 2\n", "Intro.\n\n## [a]\n\nOf a.\n\n| key | type | default | meaning |\n" +
			"|---|---|---|---|\n| `x` | text | `\"\"` | One \\| two. |\n| `y`<br>`z` | integer | `1`<br>`2` | Both. |\n\n## Keys of [accounts.NAME] and [qos.NAME]\n\n" +
			"| key | type |\n|---|---|\n| `accounts.NAME.w` | number |\n", ""},
		{"a key that the code lacks", "# T.\n\n[a]\nx = \"\"\nq = 1\n", "", "line 5: a.q is no key"},
		{"a key that the file lacks", "# T.\n\n[a]\nx = \"\"\ny = 1\n", "", "a.z is not in the file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := page([]byte(tt.text), keys)
			if (err != nil || tt.err != "") && (err == nil || err.Error() != tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if d := cmp.Diff(tt.want, strings.TrimPrefix(string(got), head)); d != "" {
				t.Error(d)
			}
		})
	}
}
