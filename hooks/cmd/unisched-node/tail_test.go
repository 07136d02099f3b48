package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/hooks/progress"
)

func texts(lines []json.RawMessage) []string {
	var out []string
	for _, l := range lines {
		out = append(out, string(l))
	}
	return out
}

func TestSplit(t *testing.T) {
	stamp := time.Unix(1764435600, 0)
	long := strings.Repeat("x", progress.MaxLineBytes+1)
	for _, c := range []struct {
		name, in string
		from     position
		want     []string
		dropped  int
		next     position
	}{
		{"nothing", "", position{}, nil, 0, position{}},
		{"partial line stays", `{"iter":1,"t":5}` + "\n" + `{"iter":2`, position{}, []string{`{"iter":1,"t":5.000000}`}, 0, position{offset: 17}},
		{"stamped", `{"iter":1}` + "\r\n\n", position{offset: 10}, []string{`{"iter":1,"t":1764435600.000000}`}, 0, position{offset: 23}},
		{"garbage between", "\x00\xff\n{\"iter\":1,\"t\":5}\nkaboom\n", position{}, []string{`{"iter":1,"t":5.000000}`}, 2, position{offset: 27}},
		{"too long, finished", long + "\n", position{}, nil, 1, position{offset: 4098}},
		{"too long, unfinished", long, position{}, nil, 1, position{offset: 4097, skipping: true}},
		{"its rest", "yyy\n" + `{"iter":1,"t":5}` + "\n", position{offset: 4097, skipping: true}, []string{`{"iter":1,"t":5.000000}`}, 0, position{offset: 4118}},
		{"its rest goes on", long, position{offset: 4097, skipping: true}, nil, 0, position{offset: 8194, skipping: true}},
		{"case 35: NaN is cleaned", `{"iter":1,"loss":NaN,"t":5}` + "\n", position{}, []string{`{"iter":1,"t":5.000000}`}, 0, position{offset: 28}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := split([]byte(c.in), c.from, false, false, stamp)
			if d := cmp.Diff(c.want, texts(b.lines)); d != "" || b.dropped != c.dropped || b.next != c.next {
				t.Errorf("dropped %d, next %+v\n%s", b.dropped, b.next, d)
			}
		})
	}
}

// However a file is cut into reads, the same lines come out once and in order.
func TestSplitIsIndependentOfTheReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		for i := range rapid.IntRange(0, 30).Draw(t, "lines") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				file.WriteString("garbage\n")
			case 1:
				file.WriteString(strings.Repeat("z", rapid.IntRange(4000, 9000).Draw(t, "long")) + "\n")
			default:
				fmt.Fprintf(&file, `{"iter":%d,"t":5}`+"\n", i)
			}
		}
		buf := []byte(file.String())
		whole := split(buf, position{}, false, true, time.Time{})
		var got []string
		dropped, seen, pos := 0, 0, position{}
		for pos.offset < int64(len(buf)) {
			seen = min(len(buf), max(seen, int(pos.offset))+rapid.IntRange(1, 6000).Draw(t, "read"))
			b := split(buf[pos.offset:seen], pos, false, false, time.Time{})
			got, dropped, pos = append(got, texts(b.lines)...), dropped+b.dropped, b.next
		}
		if d := cmp.Diff(texts(whole.lines), got); d != "" || dropped != whole.dropped {
			t.Fatalf("dropped %d, want %d\n%s", dropped, whole.dropped, d)
		}
	})
}

func TestSplitBoundsAReport(t *testing.T) {
	var b strings.Builder
	for i := range 2500 {
		switch i {
		case 0:
			b.WriteString(`{"ready":true,"t":5}` + "\n")
		case 100:
			b.WriteString(`{"checkpoint":true,"iter":100,"t":5}` + "\n")
		default:
			fmt.Fprintf(&b, `{"iter":%d,"t":5}`+"\n", i)
		}
	}
	first := split([]byte(b.String()), position{}, false, false, time.Time{})
	if len(first.lines) != 1000 || first.dropped != 0 || !first.more {
		t.Errorf("calm: %d lines, %d dropped, more %v; want the first 1000 and the rest later", len(first.lines), first.dropped, first.more)
	}
	flood := split([]byte(b.String()), position{}, false, true, time.Time{})
	if len(flood.lines) != 1000 || flood.dropped != 1500 || flood.next.offset != int64(b.Len()) {
		t.Errorf("flood: %d lines, %d dropped, next %+v", len(flood.lines), flood.dropped, flood.next)
	}
	got := texts(flood.lines)
	want := []string{`{"ready":true,"t":5.000000}`, `{"checkpoint":true,"iter":100,"t":5.000000}`, `{"iter":1502,"t":5.000000}`}
	if d := cmp.Diff(want, got[:3]); d != "" || got[999] != `{"iter":2499,"t":5.000000}` {
		t.Errorf("a flood must keep what is not a plain iteration, and the newest: %s ... %s", d, got[999])
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("{\"iter\":1}\n{\"iter\":2"), false, false)
	f.Add([]byte("\x00\n\n\xff"), true, true)
	f.Fuzz(func(t *testing.T, in []byte, skipping, flood bool) {
		b := split(in, position{skipping: skipping}, false, flood, time.Unix(5, 0))
		if b.next.offset < 0 || b.next.offset > int64(len(in)) || len(b.lines) > progress.MaxJobLines || b.dropped < 0 {
			t.Fatalf("%+v", b)
		}
		for _, l := range b.lines {
			if _, err := progress.Parse(l); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		}
	})
}
