package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"unisched/slurm/comment"
)

// TestPagesNameRealCommands: each `unisched ...` in code on a page of the documentation is a command with flags that it has.
func TestPagesNameRealCommands(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root := testApp().root()
	code := regexp.MustCompile("`unisched ([^`\n]+)`|(?m)^ *(?:\\$ )?unisched ([^\n]+)$")
	seen := 0
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			line := m[1] + m[2]
			if m[2] != "" && !strings.Contains(m[0], "    unisched") && !strings.HasPrefix(m[0], "unisched") { // prose that begins a line of a list
				continue
			}
			seen++
			if fault := commandFault(root, line); fault != "" {
				t.Errorf("%s: unisched %s: %s", filepath.Base(file), line, fault)
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d commands were found", seen)
	}
}

// commandFault says what is wrong with a command line as a page shows it: names of commands and flags, up to a comment, a pipe or a further command.
func commandFault(root *cobra.Command, line string) string {
	var words []string
	for _, w := range strings.Fields(line) {
		if w == "#" || w == "|" || w == ">" || w == "..." || w == "beside" {
			break
		}
		end := strings.HasSuffix(w, ";")
		words = append(words, strings.TrimRight(w, ";,"))
		if end {
			break
		}
	}
	cmd, _, err := root.Find(words)
	if err != nil || cmd == root {
		return "no such command"
	}
	for _, w := range words {
		if strings.HasPrefix(w, "--") && w != "--" && !hasFlag(cmd, w) {
			return "no flag " + w
		}
	}
	return ""
}

// TestPagesShowGoodComments: whatever a page tells people to write as a job's comment is read without a fault.
func TestPagesShowGoodComments(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`comment=(?:'([^'\n]+)'|(unisched:[^\s'` + "`" + `]+))`)
	seen := 0
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
			c := m[1] + m[2]
			if strings.Contains(c, "...") {
				continue
			}
			seen++
			if _, err := comment.Parse(c, comment.Context{Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Zone: time.UTC}); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), c, err)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d comments were found", seen)
	}
}
