package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	at := time.UnixMicro(1764435600250000).UTC()
	for _, c := range []struct {
		name, in string
		want     Line
	}{
		{"plain iteration", `{"iter":1200}`, Line{Kind: Progress, Iter: 1200, HasIter: true}},
		{"iteration zero", `{"iter":0}`, Line{Kind: Progress, HasIter: true}},
		{"float iteration", ` {"iter":1.2e3} `, Line{Kind: Progress, Iter: 1200, HasIter: true}},
		{"metrics are sorted", `{"iter":7,"epoch":3,"val_acc":0.71,"loss":-2}`,
			Line{Kind: Progress, Iter: 7, HasIter: true, Epoch: 3, HasEpoch: true, Metrics: []Metric{{"loss", -2}, {"val_acc", 0.71}}}},
		{"ready", `{"ready":true}`, Line{Kind: Ready}},
		{"ready with all", `{"ready":true,"iter":400,"resumed":true,"grad_bytes":1000000,"batch":32}`,
			Line{Kind: Ready, Iter: 400, HasIter: true, Resumed: true, GradBytes: 1000000, Batch: 32}},
		{"checkpoint", `{"checkpoint":true,"iter":1200,"bytes":9,"seconds":0.5,"t":1764435600.25}`,
			Line{Kind: Checkpoint, Iter: 1200, HasIter: true, Bytes: 9, Seconds: 0.5, Time: at}},
		{"checkpoint of a job that does not count", `{"checkpoint":true}`, Line{Kind: Checkpoint}},
		{"done", `{"done":true,"iter":5,"reason":"target"}`, Line{Kind: Done, Iter: 5, HasIter: true, Reason: "target"}},
		{"signal", `{"signal":"USR1"}`, Line{Kind: Signal, Signal: "USR1"}},
		{"batch as a metric of a progress line", `{"iter":1,"batch":3}`,
			Line{Kind: Progress, Iter: 1, HasIter: true, Metrics: []Metric{{"batch", 3}}}},
		{"case 35: NaN, null, Inf, \"nan\", 1e999 cost only themselves",
			`{"iter":3,"a":NaN,"b":null,"c":Infinity,"d":"nan","e":-Infinity,"f":1e999,"ok":0.3}`,
			Line{Kind: Progress, Iter: 3, HasIter: true, Metrics: []Metric{{"ok", 0.3}}, Dropped: 6}},
		{"case 35: the words inside strings stay", `{"signal":"USR1","NaN \" Infinity":1}`, Line{Kind: Signal, Signal: "USR1", Dropped: 1}},
		{"nested foreign members", `{"iter":3,"x":{"y":[1,{}]},"z":[1]}`, Line{Kind: Progress, Iter: 3, HasIter: true, Dropped: 2}},
		{"case 50: hostile names", `{"iter":3,"a|b":1,"é":2,"":3,"\u0000":4}`, Line{Kind: Progress, Iter: 3, HasIter: true, Dropped: 4}},
		{"hostile reason", `{"done":true,"reason":"$(rm)"}`, Line{Kind: Done, Dropped: 1}},
		{"absurd time", `{"iter":3,"t":1e300}`, Line{Kind: Progress, Iter: 3, HasIter: true, Dropped: 1}},
		{"long name", `{"iter":3,"` + strings.Repeat("n", 65) + `":1}`, Line{Kind: Progress, Iter: 3, HasIter: true, Dropped: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseKeepsSixteenMetrics(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"iter":1`)
	for i := range 20 {
		fmt.Fprintf(&b, `,"m%02d":%d`, 19-i, i)
	}
	b.WriteString("}")
	got, err := Parse([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Metrics) != 16 || got.Metrics[0] != (Metric{"m04", 15}) || got.Dropped != 4 {
		t.Errorf("got %d metrics from %v, %d dropped", len(got.Metrics), got.Metrics[0], got.Dropped)
	}
}

func TestParseErrors(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "not an object": `[1]`, "number": `3`, "string": `"iter"`, "open": `{"iter":3`, "trailing": `{"iter":3} {"iter":4}`,
		"no kind": `{}`, "metric without iter": `{"val_acc":0.7}`,
		"ready false": `{"ready":false}`, "ready number": `{"ready":1}`, "two kinds": `{"ready":true,"done":true}`,
		"negative iter": `{"iter":-1}`, "iter as string": `{"iter":"12"}`, "iter null": `{"iter":null}`, "fractional iter": `{"iter":1.5}`,
		"huge iter": `{"iter":1e16}`, "NaN iter": `{"iter":NaN}`, "doubled": `{"iter":1,"iter":2}`, "signal number": `{"signal":10}`,
		"signal with shell": `{"signal":"$(x)"}`, "binary": "\x00\xff\x1b[2J", "invalid word": `{"iter":nil}`,
		"too long": `{"iter":3,"x":"` + strings.Repeat("a", MaxLineBytes) + `"}`,
		"deep":     strings.Repeat(`{"a":`, 800) + "1" + strings.Repeat("}", 700),
	} {
		if l, err := Parse([]byte(in)); !errors.Is(err, ErrLine) {
			t.Errorf("%s: got %+v, %v; want ErrLine", name, l, err)
		}
	}
}

func genLine(t *rapid.T) Line {
	l := Line{Kind: rapid.SampledFrom([]Kind{Progress, Ready, Checkpoint, Done, Signal}).Draw(t, "kind")}
	if l.HasIter = l.Kind == Progress || rapid.Bool().Draw(t, "has iter"); l.HasIter {
		l.Iter = rapid.Int64Range(0, MaxIter).Draw(t, "iter")
	}
	if l.HasEpoch = rapid.Bool().Draw(t, "has epoch"); l.HasEpoch {
		l.Epoch = rapid.Float64Range(0, 1e300).Draw(t, "epoch")
	}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`m[A-Za-z0-9_.-]{1,63}`), 0, MaxMetrics, rapid.ID[string]).Draw(t, "names")
	for _, n := range names {
		l.Metrics = append(l.Metrics, Metric{n, rapid.Float64Range(-1e300, 1e300).Draw(t, "value") + 0})
	}
	sortMetrics(l.Metrics)
	switch l.Kind {
	case Ready:
		l.Resumed, l.Batch = rapid.Bool().Draw(t, "resumed"), rapid.Int64Range(0, 1<<20).Draw(t, "batch")
	case Checkpoint:
		l.Bytes, l.Seconds = rapid.Int64Range(0, 1<<50).Draw(t, "bytes"), rapid.Float64Range(0, 1e6).Draw(t, "seconds")
	case Done:
		l.Reason = rapid.StringMatching(`[A-Za-z0-9_.:-]{0,64}`).Draw(t, "reason")
	case Signal:
		l.Signal = rapid.SampledFrom([]string{"USR1", "TERM", "RTMIN+3"}).Draw(t, "signal")
	}
	if us := rapid.Int64Range(0, 4e15).Draw(t, "t"); us > 0 {
		l.Time = time.UnixMicro(us).UTC()
	}
	return l
}

func sortMetrics(m []Metric) {
	for i := range m {
		for j := i; j > 0 && m[j].Name < m[j-1].Name; j-- {
			m[j], m[j-1] = m[j-1], m[j]
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genLine(t)
		b, err := want.JSON()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s: %s", b, d)
		}
	})
}

func TestJSONRefuses(t *testing.T) {
	for name, l := range map[string]Line{
		"no kind": {}, "no iter": {Kind: Progress}, "bad signal": {Kind: Signal, Signal: "a b"}, "negative": {Kind: Ready, Iter: -1},
		"bad metric": {Kind: Ready, Metrics: []Metric{{"a b", 1}}}, "bad reason": {Kind: Done, Reason: "a b"},
	} {
		if b, err := l.JSON(); !errors.Is(err, ErrLine) {
			t.Errorf("%s: got %s, %v", name, b, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"iter":1200,"epoch":3,"val_acc":0.71}`, `{"ready":true,"iter":4,"resumed":true}`, `{"checkpoint":true,"iter":1,"t":1.5}`,
		`{"iter":3,"a":NaN,"b":-Infinity}`, `{"signal":"USR1"}`, "\xff\x00{", `{"done":true,"reason":"target"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		l, err := Parse(in)
		if err != nil {
			return
		}
		b, err := l.JSON()
		if err != nil {
			t.Fatalf("parsed %q cannot be written: %v", in, err)
		}
		if !json.Valid(b) || len(b) > MaxLineBytes {
			t.Fatalf("%q became %q", in, b)
		}
		l2, err := Parse(b)
		l.Dropped = 0
		if err != nil || !cmp.Equal(l, l2) {
			t.Fatalf("%q -> %q: %v\n%s", in, b, err, cmp.Diff(l, l2))
		}
	})
}

func report() Report {
	return Report{SchemaVersion: 1, Node: "n1", Instance: "abc", Seq: 3, Sent: time.Unix(1764435600, 5).UTC(), Jobs: []JobReport{{
		Job: 7, Restart: 1, UID: 1000, Node: "n1", Lines: []json.RawMessage{json.RawMessage(`{"iter":5}`)}, Dropped: 2}}}
}

func TestReport(t *testing.T) {
	body, err := report().Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema_version":1,"node":"n1","instance":"abc","seq":3,"sent":"2025-11-29T17:00:00.000000005Z","jobs":[{"job":7,"restart":1,"uid":1000,"node":"n1","lines":[{"iter":5}],"dropped":2}]}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	got, err := DecodeReport(body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(report(), got); d != "" {
		t.Error(d)
	}
}

func TestReportBounds(t *testing.T) {
	for name, edit := range map[string]func(*Report){
		"version": func(r *Report) { r.SchemaVersion = 2 }, "node path": func(r *Report) { r.Node = "../x" }, "empty node": func(r *Report) { r.Node = "" },
		"job id": func(r *Report) { r.Jobs[0].Job = 0 }, "restart": func(r *Report) { r.Jobs[0].Restart = -1 },
		"lines":    func(r *Report) { r.Jobs[0].Lines = make([]json.RawMessage, MaxJobLines+1) },
		"instance": func(r *Report) { r.Instance = "a b" }, "jobs": func(r *Report) { r.Jobs = make([]JobReport, MaxReportJobs+1) },
	} {
		r := report()
		edit(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeReport(b); !errors.Is(err, ErrReport) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"big": bytes.Repeat([]byte(" "), MaxReportBytes+1), "empty": nil, "two": []byte(`{}{}`), "array": []byte(`[]`)} {
		if _, err := DecodeReport(b); !errors.Is(err, ErrReport) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSignature(t *testing.T) {
	key, body, now := bytes.Repeat([]byte("k"), 32), []byte(`{"a":1}`), time.Unix(1764435600, 0)
	good := Sign(key, body, now)
	other := bytes.Repeat([]byte("x"), 32)
	part := strings.Split(strings.TrimPrefix(good, "Bearer "), ".")
	none := "Bearer " + b64([]byte(`{"alg":"none"}`)) + "." + part[1] + "."
	noneSigned := b64([]byte(`{"alg":"none"}`)) + "." + part[1]
	for _, c := range []struct {
		name, header string
		key, body    []byte
		now          time.Time
		want         error
	}{
		{"good", good, key, body, now, nil},
		{"good after 59 s", good, key, body, now.Add(59 * time.Second), nil},
		{"node clock ahead", good, key, body, now.Add(-30 * time.Second), nil},
		{"too late", good, key, body, now.Add(91 * time.Second), ErrExpired},
		{"too early", good, key, body, now.Add(-31 * time.Second), ErrExpired},
		{"other body", good, key, []byte(`{"a":2}`), now, ErrSignature},
		{"other key", good, other, body, now, ErrSignature},
		{"short key", good, key[:31], body, now, ErrKey},
		{"no header", "", key, body, now, ErrSignature},
		{"no bearer", good[7:], key, body, now, ErrSignature},
		{"alg none", none, key, body, now, ErrSignature},
		{"alg none but signed", "Bearer " + noneSigned + "." + b64(mac(key, noneSigned)), key, body, now, ErrSignature},
		{"cut", good[:len(good)-1], key, body, now, ErrSignature},
		{"long", "Bearer " + strings.Repeat("a.", 5000), key, body, now, ErrSignature},
	} {
		if err := Verify(c.key, c.body, c.header, c.now); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestParseKey(t *testing.T) {
	k := strings.Repeat("k", 32)
	for in, ok := range map[string]bool{k: true, k + "\n": true, k + "\r\n": true, k[:31] + "\n": false, strings.Repeat("k", 4097): false} {
		got, err := ParseKey([]byte(in))
		if (err == nil) != ok || (ok && string(got) != k) {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}
