package main

import (
	"strings"
	"testing"

	"unisched/slurm/comment"
)

// TestTrapNotes: what can be read out of a shell script about its exit at the checkpoint signal, and what is passed over.
func TestTrapNotes(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"in quotes", "trap 'save; exit 0' USR1", "exits 0"},
		{"in double quotes, with SIG", "trap \"save; exit 0\" SIGUSR1 TERM", "exits 0"},
		{"by number", "trap 'exit 0' 10", "exits 0"},
		{"a function", "save() {\n  cp a b\n  exit 1\n}\ntrap save USR1", "exits 1"},
		{"a function in one line", "function save { cp a b; exit 0; }\ntrap 'save' USR1", "exits 0"},
		{"no code", "trap 'save; exit' USR1", "whatever came last"},
		{"over lines", "trap 'save\nexit 0\n' USR1", "exits 0"},
		{"the agreed code", "trap 'save; exit 99' USR1", ""},
		{"another signal", "trap 'exit 0' TERM", ""},
		{"at the end of the script", "trap 'exit 0' EXIT", ""},
		{"ignored", "trap '' USR1", ""},
		{"saves and runs on", "trap 'touch now' USR1", ""},
		{"a code in a variable", "trap 'save; exit $code' USR1", ""},
		{"a command that is elsewhere", "trap save USR1", ""},
		{"no word exit", "trap 'save; ./exit_now 0' USR1", ""},
		{"under the sidecar", "exec unisched-node run --exit 99 -- ./work\ntrap 'exit 0' USR1", ""},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, n := range trapNotes("#!/bin/bash\n"+c.script+"\n", comment.Wish{Ckpt: comment.Ckpt{Signal: "USR1"}}, 99) {
				got += n.Text
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if n := trapNotes("trap 'exit 7' USR1", comment.Wish{Ckpt: comment.Ckpt{Signal: "USR1", Exit: 7}}, 99); len(n) != 0 {
		t.Errorf("the code that the comment declares: %v", n)
	}
}

// FuzzTrapNotes: scripts are what users write.
func FuzzTrapNotes(f *testing.F) {
	f.Add("trap 'save; exit 0' USR1\nsave() {\n exit\n}")
	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range trapNotes(text, comment.Wish{Ckpt: comment.Ckpt{Signal: "USR1"}}, 99) {
			if n.Line < 1 || n.Line > 1+strings.Count(text, "\n") {
				t.Errorf("line %d", n.Line)
			}
		}
	})
}
