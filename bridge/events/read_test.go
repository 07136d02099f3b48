package events

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"
)

// Reading needs no daemon and makes no file: the newest events of a time that are wanted, in their order.
func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	if _, err := Read(dir, noon, noon, 10, func(Event) bool { return true }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := s.Append(Event{At: noon.Add(time.Duration(i) * time.Minute), What: []string{"even", "odd"}[i%2]}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	before, _ := filepath.Glob(filepath.Join(dir, "*"))
	got, err := Read(dir, noon.Add(time.Minute), noon.Add(8*time.Minute), 2, func(e Event) bool { return e.What == "even" })
	if err != nil || len(got) != 2 || got[0].Seq != 7 || got[1].Seq != 9 {
		t.Errorf("%v, %+v", err, got)
	}
	if after, _ := filepath.Glob(filepath.Join(dir, "*")); len(after) != len(before) {
		t.Errorf("files %v, before %v", after, before)
	}
}
