package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManPages: every command that people see has a page, with its examples, and nothing in it is taken for a request of troff.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	a := testApp()
	if code := a.run(t.Context(), []string{"man", dir}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	seen := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		raw, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		seen++
		for line := range strings.Lines(string(raw)) {
			if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !strings.Contains(".TH .SH .TP .B .BR .PP .nf .fi", request) {
				t.Errorf("%s: %q", c.CommandPath(), line)
			}
		}
		for _, want := range []string{".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", strings.TrimSpace(troff(strings.Split(c.Example, "\n")[0]))} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s lacks %q", c.CommandPath(), want)
			}
		}
		for _, s := range c.Commands() {
			walk(s)
		}
	}
	walk(a.root())
	if seen < 15 {
		t.Errorf("%d pages", seen)
	}
}
