package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"unisched/slurm/topology"
)

func TestReadTopology(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "topology.conf")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got, err := readTopology(write("SwitchName=s0 Nodes=n[1-2]\n")); err != nil || len(got.Of("n2")) != 1 {
		t.Errorf("%v %v", got, err)
	}
	if got, err := readTopology(""); err != nil || got.Paths != nil {
		t.Errorf("%v %v", got, err)
	}
	if _, err := readTopology(write("SwitchName=s0 Nodes=n[\n")); !errors.Is(err, topology.ErrSyntax) {
		t.Errorf("broken file: %v", err)
	}
	if _, err := readTopology("/does/not/exist"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
