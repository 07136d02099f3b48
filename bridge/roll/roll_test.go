package roll

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func list(t *testing.T) *Files {
	return &Files{What: "news", Dir: t.TempDir(), Prefix: "n-", MaxLine: 16, MaxFile: 10, MaxAll: 25, MaxFiles: 3, MaxAge: time.Hour}
}

func names(t *testing.T, f *Files) []string {
	t.Helper()
	got, err := f.Names()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func put(t *testing.T, f *Files, name, lines string) {
	t.Helper()
	if err := f.Begin(name, noon); err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(f.Dir, f.Prefix+name+Suffix), noon, noon); err != nil {
		t.Fatal(err)
	}
}

// The oldest files go when there are too many, too many bytes, or when they are too old; the newest stays, and so does what is not of the list.
func TestBounds(t *testing.T) {
	f := list(t)
	if err := os.WriteFile(filepath.Join(f.Dir, "other.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1", "2", "3", "4"} {
		put(t, f, name, "a\n")
	}
	if d := cmp.Diff([]string{"n-2.jsonl", "n-3.jsonl", "n-4.jsonl"}, names(t, f)); d != "" {
		t.Error("number:", d)
	}
	put(t, f, "5", strings.Repeat("b", 24)+"\n")
	put(t, f, "6", "c\n")
	if d := cmp.Diff([]string{"n-5.jsonl", "n-6.jsonl"}, names(t, f)); d != "" {
		t.Error("bytes:", d)
	}
	if err := f.Begin("7", noon.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"n-7.jsonl"}, names(t, f)); d != "" {
		t.Error("age:", d)
	}
}

// A file that takes nothing more is given up, a full one is due, and nobody is read who is gone.
func TestFullAndBroken(t *testing.T) {
	f := list(t)
	if !f.Full() {
		t.Error("nothing is open")
	}
	put(t, f, "1", "ten bytes\n")
	if f.Full() {
		t.Error("10 of 10 bytes are not too much")
	}
	if err := f.Write([]byte("x\n")); err != nil || !f.Full() {
		t.Error("12 of 10 bytes are:", err)
	}
	f.file.Close()
	if err := f.Write([]byte("y\n")); err == nil || !strings.HasPrefix(err.Error(), "news: ") || !f.Full() {
		t.Error("written to a closed file:", err)
	}
	var got []string
	tell := func(line []byte) { got = append(got, string(line)) }
	if err := f.Each("n-0.jsonl", tell); err != nil {
		t.Error(err)
	}
	if err := f.Each("n-1.jsonl", tell); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"ten bytes\n", "x\n"}, got); d != "" {
		t.Error(d)
	}
}

// A line beyond the bound comes in pieces, and what follows it whole.
func TestScan(t *testing.T) {
	var got []string
	err := list(t).Scan(strings.NewReader(strings.Repeat("x", 20)+"\ngood\ntorn"), func(line []byte) { got = append(got, string(line)) })
	if d := cmp.Diff([]string{strings.Repeat("x", 16), "xxxx\n", "good\n", "torn"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
}
