package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
	for cut := ends[2]; cut < len(whole); cut++ { // within the third entry, after the header
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, o := mustOpen(t, dir)
		want := []Entry{entry("job", "1", `{"a":1}`), entry("job", "2", `{"a":2}`)}
		if diff := cmp.Diff(want, o.Latest); diff != "" || o.Damaged != "" || o.TornBytes != int64(cut-ends[2]) {
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
		"zero filled":       {func(b []byte) []byte { return make([]byte, len(b)) }, 0},
		"zero first page":   {func(b []byte) []byte { return append(make([]byte, 20), b[20:]...) }, 2},
		"flipped bit":       {func(b []byte) []byte { b[15] ^= 1; return b }, 2},
		"cut to nothing":    {func([]byte) []byte { return nil }, 0},
		"cut in its header": {func(b []byte) []byte { return b[:20] }, 0},
		"foreign content":   {func([]byte) []byte { return []byte("hello\nworld\n") }, 0},
		"one endless line":  {func([]byte) []byte { return []byte(strings.Repeat("x", 1000)) }, 0},
		"a line too long":   {func(b []byte) []byte { return append([]byte(strings.Repeat("x", maxLine+5)+"\n"), b...) }, 2},
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
			if o.Why == "" {
				t.Error("it does not say what is wrong")
			}
			kept, err := os.ReadFile(o.Damaged)
			if err != nil || !bytes.Equal(kept, b) {
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

// A journal that was made before there were headers is read as it was, has one from then on, and is read by the version before all the same: to that the header is
// a line of the audit trail. The first start makes a file that is never empty.
func TestHeader(t *testing.T) {
	dir := t.TempDir()
	whole := write(t, dir)
	head, old, _ := bytes.Cut(whole, []byte{'\n'})
	if e, ok := decode(append(head, '\n')); !ok || e.Kind != kindHeader || e.Key != "" {
		t.Fatalf("the first line is %q", head)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), append(bytes.Clone(old), "0000abcd {\"ki"...), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []Entry{entry("job", "1", `{"a":3}`), entry("job", "2", `{"a":2}`)}
	for _, o := range []Opened{{Latest: want, TornBytes: 13}, {Latest: want}} {
		j, got := mustOpen(t, dir)
		if d := cmp.Diff(o, got); d != "" {
			t.Fatal(d)
		}
		j.Close()
		if b, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || !bytes.HasPrefix(b, head) || bytes.Count(b, head) != 1 {
			t.Fatalf("its header: %q, %v", b, err)
		}
	}

	fresh := t.TempDir()
	for range 2 {
		j, got := mustOpen(t, fresh)
		if d := cmp.Diff(Opened{}, got); d != "" {
			t.Fatal(d)
		}
		j.Close()
	}
}

// What could be read of a damaged journal stays where it is until it has been written anew: a disk that is full meanwhile costs none of it.
func TestDamageOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	b := write(t, dir)
	b[15] ^= 1
	if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(dir, fileName+".new")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); err == nil {
		t.Fatal("it was opened although it could not be written")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if _, o := mustOpen(t, dir); len(o.Latest) != 2 || o.Damaged == "" {
		t.Errorf("%d entries, damaged %q", len(o.Latest), o.Damaged)
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
	f.Add([]byte("00000000 {}\n"), false)
	f.Add([]byte{0, 0, 0, 0}, false)
	f.Add([]byte(`{"kind":"job","key":"1","at":"2027-01-15T08:00:00Z","data":{"a":1}}`+"\n"+`{"kind":"job","key":"1","data":null}`+"\nrest"), true)
	f.Fuzz(func(t *testing.T, b []byte, summed bool) {
		if summed { // what comes after the checksum is looked at, too
			var lines []byte
			for line := range bytes.Lines(b) {
				lines = fmt.Appendf(lines, "%08x %s", crc32.Checksum(bytes.TrimSuffix(line, []byte{'\n'}), castagnoli), line)
			}
			b = lines
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, first, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if first.TornBytes > int64(len(b)) || len(first.Latest) > len(b)/11 {
			t.Fatalf("%d bytes: %d torn, %d entries", len(b), first.TornBytes, len(first.Latest))
		}
		if err := j.Append(entry("fuzz", "\x00 last", `{}`)); err != nil {
			t.Fatal(err)
		}
		j.Close()
		// Whatever it was, it is whole now: nothing is lost that could be read, and what was appended is there.
		j, again, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		want := Opened{Latest: append(first.Latest, entry("fuzz", "\x00 last", `{}`))}
		if d := cmp.Diff(want, again, sameInstant); d != "" {
			t.Fatal(d)
		}
	})
}

// sameInstant compares times, whatever zone they were written in.
var sameInstant = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

// What follows the last whole line is never looked at, so an append that was cut is the same wherever it was cut: the crash sweep may take a few lengths
// for all.
func TestTornLengthsAreAlike(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		whole, err := encode(Entry{Kind: kindHeader, Data: json.RawMessage(format)})
		if err != nil {
			t.Fatal(err)
		}
		var want []Entry
		for i := range rapid.IntRange(1, 3).Draw(r, "entries") {
			e := entry("job", string(rune('a'+i)), `{"a":1}`)
			line, err := encode(e)
			if err != nil {
				t.Fatal(err)
			}
			whole, want = append(whole, line...), append(want, e)
		}
		tail := rapid.SliceOfN(rapid.Byte().Filter(func(b byte) bool { return b != '\n' }), 0, 300).Draw(r, "tail")
		if rapid.Bool().Draw(r, "a part of an entry") {
			tail, _ = encode(entry("job", "z", `{"long":"`+strings.Repeat("x", 300)+`"}`))
			tail = tail[:rapid.IntRange(0, len(tail)-1).Draw(r, "cut")]
		}
		if err := os.WriteFile(filepath.Join(dir, fileName), append(whole[:len(whole):len(whole)], tail...), 0o600); err != nil {
			t.Fatal(err)
		}
		j, got, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if d := cmp.Diff(Opened{Latest: want, TornBytes: int64(len(tail))}, got); d != "" {
			t.Fatal(d)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, fileName)); string(b) != string(whole) {
			t.Fatalf("%q is left of %q", b, whole)
		}
	})
}
