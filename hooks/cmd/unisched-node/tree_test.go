package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTree(t *testing.T) {
	proc := t.TempDir()
	for pid, stat := range map[string]string{
		"1":   "1 (init) S 0 1 1",
		"10":  "10 (run) S 1 10 10",
		"11":  "11 (torchrun) S 10 10 10",
		"12":  "12 (a) R 99 (b) S 11 12 12", // a name made to look like another state and parent
		"13":  "13 (worker) S 12 13 13",
		"20":  "20 (other) S 1 20 20",
		"21":  "no parenthesis",
		"sys": "11 (x) S 10",
	} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := tree(proc, 10), []int{10, 11, 12, 13}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := tree(filepath.Join(proc, "none"), 10), []int{10}; !slices.Equal(got, want) {
		t.Errorf("without a proc file system: got %v, want %v", got, want)
	}
}
