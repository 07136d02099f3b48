package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestEveryCommandHelps: each command has one line, and an example that is a command line of its own with flags that it has.
func TestEveryCommandHelps(t *testing.T) {
	root := testApp().root()
	seen := map[string]bool{}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		path := c.CommandPath()
		seen[path] = true
		if c.Short == "" {
			t.Errorf("%s: no line of its own", path)
		}
		if !strings.Contains(c.Example, path) && !c.HasSubCommands() && c.Name() != "help" {
			t.Errorf("%s: no example of it in %q", path, c.Example)
		}
		if c.Example == "" {
			t.Errorf("%s: no example", path)
		}
		for line := range strings.Lines(c.Example) {
			if !strings.HasPrefix(line, "  ") || len(line) > 140 {
				t.Errorf("%s: %q is not an indented line of at most 140 bytes", path, line)
			}
			exampleRuns(t, root, strings.TrimSpace(line))
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(root)
	for path := range examples {
		if !seen[path] {
			t.Errorf("examples names %q, which is no command", path)
		}
	}
	if len(seen) < 35 {
		t.Errorf("only %d commands seen", len(seen))
	}
}

// exampleRuns finds the command of the part of an example that is ours, and its flags.
func exampleRuns(t *testing.T, root *cobra.Command, line string) {
	t.Helper()
	_, ours, ok := strings.Cut(" "+line, "unisched ")
	if !ok {
		t.Errorf("%q does not call unisched", line)
		return
	}
	words := strings.Fields(ours)
	cmd, _, err := root.Find(words)
	if err != nil || cmd == root {
		t.Errorf("%q: no such command: %v", line, err)
		return
	}
	for _, w := range words {
		if w == "|" || w == ">" || strings.HasPrefix(w, "(") {
			return
		}
		if w == "-" || !strings.HasPrefix(w, "-") {
			continue
		}
		if !hasFlag(cmd, w) {
			t.Errorf("%q: %s has no flag %s", line, cmd.CommandPath(), w)
		}
	}
}

func hasFlag(c *cobra.Command, word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, set := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
		if strings.HasPrefix(word, "--") && set.Lookup(name) != nil || !strings.HasPrefix(word, "--") && set.ShorthandLookup(name[:1]) != nil {
			return true
		}
	}
	return false
}
