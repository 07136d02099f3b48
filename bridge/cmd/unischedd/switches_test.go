package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"unisched/bridge"
)

func TestSwitches(t *testing.T) {
	dir := t.TempDir()
	var got []string
	open := func() *switches {
		return &switches{dir: dir, log: zerolog.Nop(), order: func(o bridge.Order) {
			got = append(got, strings.TrimSpace(string(o.Kind)+" "+strings.TrimPrefix(o.Job.String(), "0")))
		}}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"nothing", func() {}, nil},
		{"pause", func() { write("pause", "") }, []string{"pause"}},
		{"still there", func() {}, nil},
		{"a restart with the file", func() { s = open() }, nil},
		{"removed while the daemon was down", func() { remove("pause"); s = open() }, []string{"resume"}},
		{"a restart without", func() { s = open() }, nil},
		{"release two", func() { write("release", "7\n\n 12 \n") }, []string{"release 7", "release 12"}},
		{"once", func() {}, nil},
		{"release all", func() { write("release", "") }, []string{"release"}},
		{"not understood", func() { write("release", "7\nall\n") }, nil},
		{"put aside", func() { remove("release.bad") }, nil},
		{"negative", func() { write("release", "-1") }, nil},
		{"both", func() { write("pause", "x"); write("release", "3") }, []string{"pause", "release 3"}},
	} {
		got = nil
		step.do()
		s.look()
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s: %s", step.name, d)
		}
		if exists(filepath.Join(dir, "release")) {
			t.Errorf("%s: the release file is still there", step.name)
		}
	}
}
