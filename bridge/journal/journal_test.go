package journal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func entry(kind, key, data string) Entry {
	return Entry{Kind: kind, Key: key, At: time.Unix(1_800_000_000, 0).UTC(), Data: json.RawMessage(data)}
}

func mustOpen(t *testing.T, dir string) (*Journal, Opened) {
	t.Helper()
	j, o, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, o
}

// write fills a journal with three entries and returns its bytes.
func write(t *testing.T, dir string) []byte {
	t.Helper()
	j, _ := mustOpen(t, dir)
	if err := j.Append(entry("job", "1", `{"a":1}`), entry("job", "2", `{"a":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(entry("job", "1", `{"a":3}`)); err != nil {
		t.Fatal(err)
	}
	j.Close()
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLastEntryOfAKeyHolds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	j, o := mustOpen(t, dir)
	want := []Entry{entry("job", "1", `{"a":3}`), entry("job", "2", `{"a":2}`)}
	if diff := cmp.Diff(want, o.Latest); diff != "" {
		t.Error(diff)
	}
	if err := j.Append(entry("job", "2", `null`), entry("audit", "", `{}`)); err != nil {
		t.Fatal(err)
	}
	j.Close()
	_, o = mustOpen(t, dir)
	if diff := cmp.Diff(want[:1], o.Latest); diff != "" {
		t.Error(diff)
	}
}

func TestTornTailAtEveryByte(t *testing.T) {
	whole := write(t, t.TempDir())
	ends := []int{}
	for i, b := range whole {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	for cut := ends[1]; cut < len(whole); cut++ { // within the third entry
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, o := mustOpen(t, dir)
		want := []Entry{entry("job", "1", `{"a":1}`), entry("job", "2", `{"a":2}`)}
		if diff := cmp.Diff(want, o.Latest); diff != "" || o.Damaged != "" || o.TornBytes != int64(cut-ends[1]) {
			t.Fatalf("cut at %d: torn %d, damaged %q, diff %s", cut, o.TornBytes, o.Damaged, diff)
		}
		if err := j.Append(entry("job", "9", `{}`)); err != nil {
			t.Fatal(err)
		}
		j.Close()
		if _, o = mustOpen(t, dir); len(o.Latest) != 3 {
			t.Fatalf("cut at %d: %d entries after another append", cut, len(o.Latest))
		}
	}
}

func TestDamageIsMovedAside(t *testing.T) { // case 53: the whole kind
	for name, c := range map[string]struct {
		spoil func([]byte) []byte
		saved int // entries that can still be read
	}{
		"zero filled":      {func(b []byte) []byte { return make([]byte, len(b)) }, 0},
		"zero first page":  {func(b []byte) []byte { return append(make([]byte, 20), b[20:]...) }, 2},
		"flipped bit":      {func(b []byte) []byte { b[15] ^= 1; return b }, 2},
		"foreign content":  {func([]byte) []byte { return []byte("hello\nworld\n") }, 0},
		"one endless line": {func([]byte) []byte { return []byte(strings.Repeat("x", 1000)) }, 0},
		"a line too long":  {func(b []byte) []byte { return append([]byte(strings.Repeat("x", maxLine+5)+"\n"), b...) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := c.spoil(write(t, dir))
			if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
				t.Fatal(err)
			}
			j, o := mustOpen(t, dir)
			if o.Damaged == "" || len(o.Latest) != c.saved {
				t.Fatalf("damaged %q, %d entries", o.Damaged, len(o.Latest))
			}
			kept, err := os.ReadFile(o.Damaged)
			if err != nil || !cmp.Equal(kept, b) {
				t.Fatalf("the damaged file was not kept as it was: %v", err)
			}
			if err := j.Append(entry("job", "7", `{}`)); err != nil {
				t.Fatal(err)
			}
			j.Close()
			if _, again := mustOpen(t, dir); again.Damaged != "" || len(again.Latest) != c.saved+1 {
				t.Fatalf("opened again: damaged %q, %d entries", again.Damaged, len(again.Latest))
			}
		})
	}
}

// case 53: power was lost while the file grew: its tail is zeros, or zeros stand where the last entry was to be. What was acknowledged before is all there.
func TestZeroTail(t *testing.T) {
	for name, tail := range map[string]string{"a page": strings.Repeat("\x00", 4096), "one byte": "\x00", "half an entry and zeros": "0000abcd {\"ki" + strings.Repeat("\x00", 500)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := append(write(t, dir), tail...)
			if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
				t.Fatal(err)
			}
			j, o := mustOpen(t, dir)
			want := []Entry{entry("job", "1", `{"a":3}`), entry("job", "2", `{"a":2}`)}
			if d := cmp.Diff(want, o.Latest); d != "" || o.Damaged != "" || o.TornBytes != int64(len(tail)) {
				t.Errorf("torn %d, damaged %q %s", o.TornBytes, o.Damaged, d)
			}
			if err := j.Append(entry("job", "9", `{}`)); err != nil {
				t.Fatal(err)
			}
			j.Close()
			if _, o = mustOpen(t, dir); len(o.Latest) != 3 || o.Damaged != "" {
				t.Errorf("opened again: %d entries, damaged %q", len(o.Latest), o.Damaged)
			}
		})
	}
}

// An admin removes the state directory under the living daemon: what is appended would be lost, and must not be believed. Compact mends it, unless
// another process has taken the place.
func TestRemovedUnderneath(t *testing.T) {
	for name, c := range map[string]struct {
		remove func(dir string) error
		taken  bool
	}{
		"directory": {os.RemoveAll, false},
		"file":      {func(dir string) error { return os.Remove(filepath.Join(dir, fileName)) }, false},
		"taken":     {os.RemoveAll, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			j, _ := mustOpen(t, dir)
			if err := j.Append(entry("job", "1", `{}`)); err != nil {
				t.Fatal(err)
			}
			if err := c.remove(dir); err != nil {
				t.Fatal(err)
			}
			if c.taken {
				mustOpen(t, dir)
			}
			if err := j.Append(entry("job", "2", `{}`)); err == nil {
				t.Fatal("an append to a removed journal went well")
			}
			err := j.Compact([]Entry{entry("job", "1", `{}`), entry("job", "2", `{}`)})
			if c.taken {
				if !errors.Is(err, ErrLocked) {
					t.Fatalf("compaction beside another owner: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Append(entry("job", "3", `{}`)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(dir); !errors.Is(err, ErrLocked) {
				t.Fatalf("a second owner got %v", err)
			}
			j.Close()
			if _, o := mustOpen(t, dir); len(o.Latest) != 3 {
				t.Errorf("%d entries, want 3", len(o.Latest))
			}
		})
	}
}

func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	if _, _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second owner got %v", err)
	}
	j.Close()
	mustOpen(t, dir)
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	j, o := mustOpen(t, dir)
	before := j.Size()
	if err := j.Compact(o.Latest); err != nil {
		t.Fatal(err)
	}
	if j.Size() >= before {
		t.Errorf("size %d after compaction of %d", j.Size(), before)
	}
	if err := j.Append(entry("job", "3", `{"a":4}`)); err != nil {
		t.Fatal(err)
	}
	j.Close()
	_, got := mustOpen(t, dir)
	if diff := cmp.Diff(append(o.Latest, entry("job", "3", `{"a":4}`)), got.Latest); diff != "" {
		t.Error(diff)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, _, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := j.Append(entry("job", "1", `{}`)); err != nil {
			t.Fatal(err)
		}
	})
}
