package main

import (
	"os"
	"testing"
)

// Every edit must apply to the source as it stands: a safeguard that was rewritten needs its mutant rewritten.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../..")
	if _, err := os.Stat("go.mod"); err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := overlayOf(t.TempDir(), append(m.edits[:len(m.edits):len(m.edits)], onCrashDisk...)); err != nil {
			t.Errorf("%s: %v", m.safeguard, err)
		}
	}
}
