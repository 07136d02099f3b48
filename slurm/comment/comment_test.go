package comment

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
)

var berlin = mustZone("Europe/Berlin")

func mustZone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// noon is 13:00 in Berlin.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func site() Context { return Context{Now: noon, Zone: berlin, RequestGPUs: 4} }

// wish is the default wish of site() with changes.
func wish(change func(*Wish)) Wish {
	w := Wish{Class: BestEffort, Stop: Stop{Kind: StopNone}, GPUs: []int{4}, Batch: LocalBatch,
		Parallel: DataParallel, Ckpt: Ckpt{None: true}, Profile: ProfileAuto}
	change(&w)
	return w
}

func TestParse(t *testing.T) {
	at := func(h, m int) time.Time { return time.Date(2026, 11, 29, h, m, 0, 0, time.UTC) }
	strict := func(t time.Time) Wish {
		return wish(func(w *Wish) { w.Class, w.Tiers = Strict, []Tier{{t, FullValue}} })
	}
	for _, tt := range []struct {
		name, in string
		want     Wish
	}{
		{"only the class", "unisched:class=besteffort", wish(func(*Wish) {})},
		{"strict, zone Z", "unisched:class=strict,deadline=2026-12-01T18:00:00Z", strict(time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC))},
		{"strict, zone offset", "unisched:class=strict,deadline=2026-12-01T18:00:00-05:00", strict(time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC))},
		{"strict, site zone", "unisched:class=strict,deadline=2026-12-01T18:00", strict(time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC))},
		{"strict, site zone with seconds", "unisched:class=strict,deadline=2026-12-01T18:00:30", strict(time.Date(2026, 12, 1, 17, 0, 30, 0, time.UTC))},
		{"strict, relative", "unisched:class=strict,deadline=now+6h", strict(at(18, 0))},
		{"strict, compound", "unisched:class=strict,deadline=now+1h30m", strict(at(13, 30))},
		{"keys in any order", "unisched:deadline=now+6h,class=strict", strict(at(18, 0))},
		{"soft", "unisched:class=soft,deadlines=now+6h:100/now+7h:80/2026-11-29T22:00:20.5",
			wish(func(w *Wish) {
				w.Class, w.Tiers = Soft, []Tier{{at(18, 0), 100}, {at(19, 0), 80}, {at(21, 0), 20.5}}
			})},
		{"stop after iterations", "unisched:stop=iters:90000", wish(func(w *Wish) { w.Stop = Stop{Kind: StopIters, Iterations: 90000} })},
		{"metric, up", "unisched:stop=metric:val_acc>=0.92,max=90000", wish(func(w *Wish) {
			w.Stop, w.Max = Stop{Kind: StopMetric, Metric: "val_acc", Op: AtLeast, Target: .92}, 90000
		})},
		{"metric, down, negative", "unisched:stop=metric:log-loss.v1<=-2.1e-1,max=9", wish(func(w *Wish) {
			w.Stop, w.Max = Stop{Kind: StopMetric, Metric: "log-loss.v1", Op: AtMost, Target: -.21}, 9
		})},
		{"one count", "unisched:gpus=8", wish(func(w *Wish) { w.GPUs = []int{8} })},
		{"range of powers of two", "unisched:gpus=2-8", wish(func(w *Wish) { w.GPUs = []int{2, 4, 8} })},
		{"range with odd ends", "unisched:gpus=3-9", wish(func(w *Wish) { w.GPUs = []int{4, 8} })},
		{"list of counts", "unisched:gpus=2/3/8", wish(func(w *Wish) { w.GPUs = []int{2, 3, 8} })},
		{"checkpoint", "unisched:ckpt=USR1", wish(func(w *Wish) { w.Ckpt = Ckpt{Signal: "USR1"} })},
		{"checkpoint, batch shell", "unisched:ckpt=B:TERM", wish(func(w *Wish) { w.Ckpt = Ckpt{Signal: "TERM", BatchOnly: true} })},
		{"checkpoint, exit code", "unisched:ckpt=B:USR1+99", wish(func(w *Wish) { w.Ckpt = Ckpt{Signal: "USR1", BatchOnly: true, Exit: 99} })},
		{"no checkpoint", "unisched:ckpt=none", wish(func(*Wish) {})},
		{"the rest", "unisched:batch=global,parallel=fixed,restore=40s,milestones=30/60/80,epoch=1000,profile=skip", wish(func(w *Wish) {
			w.Batch, w.Parallel, w.Restore = GlobalBatch, FixedParallel, 40*time.Second
			w.Milestones, w.Epoch, w.Profile = []int{30, 60, 80}, 1000, ProfileSkip
		})},
		{"case 50: foreign text around", "project=x|y 'é' unisched:epoch=5;more, text=1", wish(func(w *Wish) { w.Epoch = 5 })},
		{"case 50: newline ends the token", "a\nunisched:epoch=5\nb", wish(func(w *Wish) { w.Epoch = 5 })},
		{"case 50: 1024 bytes, many of them no UTF-8 and replaced by Slurm's reader", "unisched:epoch=5 " + strings.Repeat("\ufffd", 1007), wish(func(w *Wish) { w.Epoch = 5 })},
		{"case 50: emoji around", "🙂unisched:epoch=5\u3000🙂", wish(func(w *Wish) { w.Epoch = 5 })},
		{"name mentioned elsewhere", "not_unisched:epoch=1 x-unisched:epoch=2 unisched unisched:epoch=5", wish(func(w *Wish) { w.Epoch = 5 })},
		{"JSON", `{"unisched":{"class":"strict","deadline":"now+6h"}}`, strict(at(18, 0))},
		{"JSON, numbers and lists", ` {"a":[{"b":null}],"unisched":{"epoch":5,"gpus":[2,4],"milestones":[3,"6"],"ckpt":"USR1+99"},"c":true} tail`,
			wish(func(w *Wish) {
				w.Epoch, w.GPUs, w.Milestones, w.Ckpt = 5, []int{2, 4}, []int{3, 6}, Ckpt{Signal: "USR1", Exit: 99}
			})},
		{"JSON, list of deadlines", `{"unisched":{"class":"soft","deadlines":["now+6h:100","now+7h:80"]}}`,
			wish(func(w *Wish) { w.Class, w.Tiers = Soft, []Tier{{at(18, 0), 100}, {at(19, 0), 80}} })},
		{"JSON, foreign object, then a token", `{"a":1} unisched:epoch=5`, wish(func(w *Wish) { w.Epoch = 5 })},
		{"foreign braces, then a token", `{a} unisched:epoch=5`, wish(func(w *Wish) { w.Epoch = 5 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.in, site())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseNone(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "foreign": "hello", "case 50: foreign bytes": "caf\xe9\x00", "foreign JSON": `{"slo":{"deadline":"x"}}`,
		"the bare name": "unisched", "another word": "myunisched:class=strict", "nested member": `{"a":{"unisched":{"class":"x"}}}`,
		"case 50: nested 400 deep, not ours": strings.Repeat("[", 400), "JSON text about it": `{"note":"unisched docs"}`,
		"1024 bytes": strings.Repeat("a", 1024),
	} {
		t.Run(name, func(t *testing.T) {
			if w, err := Parse(in, site()); err != ErrNone {
				t.Errorf("got %+v, %v", w, err)
			}
		})
	}
}

func TestMisspelt(t *testing.T) {
	for in, want := range map[string]string{
		"uniched:class=strict": "uniched:", "project 7; UniSched:class=strict": "UniSched:", "unisched class=strict": "unisched",
		"": "", "hello": "", "project:7": "", "unisched:class=strict": "",
	} {
		if got := Misspelt(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `,"unisched":{"epoch":5}}`
	for _, tt := range []struct {
		name, in, key, suggest string
		offset                 int
	}{
		{"unknown key", "x unisched:clas=strict", "clas", "class", 11},
		{"unknown key, far", "unisched:zebra=1", "zebra", "", 9},
		{"key in capitals", "unisched:Epoch=1", "Epoch", "epoch", 9},
		{"no value", "unisched:class", "class", "class", 9},
		{"empty item", "unisched:epoch=5,,max=1", "", "", 17},
		{"nothing", "unisched:", "", "unisched:class=besteffort", 9},
		{"empty value", "unisched:epoch=", "epoch", "", 15},
		{"unknown class", "unisched:class=sofd", "class", "soft", 15},
		{"doubled key", "unisched:epoch=5,epoch=5", "epoch", "", 17},
		{"two tokens", "unisched:epoch=5 unisched:epoch=5", "", "", 17},
		{"two members", `{"unisched":{"epoch":5},"unisched":{"epoch":5}}`, "", "", 24},
		{"member and token", `{"unisched":{"epoch":5}} unisched:epoch=5`, "", "", 25},
		{"case 50: doubled JSON key", `{"unisched":{"epoch":5,"epoch":5}}`, "epoch", "", 23},
		{"case 50: cut JSON", `{"unisched":{"epoch":5,"class":"st`, "", "", 31},
		{"case 50: nested 400 deep", deep, "", "", 38},
		{"case 50: 1025 bytes", "unisched:epoch=5" + strings.Repeat(" ", 1009), "", "", 1024},
		{"case 50: 1025 bytes, many of them replaced", "unisched:epoch=5 " + strings.Repeat("\ufffd", 1008), "", "", 1024},
		{"case 50: nested 10,000 deep", `{"unisched":{"epoch":5},"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, "", "", 1024},
		{"case 50: 2000 bytes", strings.Repeat("a", 2000), "", "", 1024},
		{"case 50: NUL", "a\x00 unisched:epoch=5", "", "", 1},
		{"case 50: Latin-1", "caf\xe9 unisched:epoch=5", "", "", 3},
		{"case 50: emoji cut mid-rune", "unisched:epoch=5 \xf0\x9f\x99", "", "", 17},
		{"JSON member is a string", `{"unisched":"epoch=5"}`, "", "", 12},
		{"JSON member is empty", `{"unisched":{}}`, "", `{"class":"besteffort"}`, 12},
		{"JSON value is an object", `{"unisched":{"epoch":{}}}`, "epoch", "", 21},
		{"JSON value is null", `{"unisched":{"epoch":null}}`, "epoch", "", 21},
		{"JSON list in a list", `{"unisched":{"gpus":[[1]]}}`, "gpus", "", 21},
		{"JSON exponent", `{"unisched":{"epoch":1e3}}`, "epoch", "", 21},
		{"JSON unknown value", `{"unisched":{"class":"sof"}}`, "class", "soft", 22},
		{"strict without deadline", "unisched:class=strict", "class", "deadline=now+6h", 9},
		{"soft without deadlines", "unisched:epoch=1,class=soft", "class", "deadlines=now+6h:100/now+9h:20", 17},
		{"strict with deadlines", "unisched:class=strict,deadlines=now+6h:1", "deadlines", "class=soft", 22},
		{"deadline without a class", "unisched:deadline=now+6h", "deadline", "class=strict", 9},
		{"deadlines without a class", "unisched:deadlines=now+6h:1", "deadlines", "class=soft", 9},
		{"metric without max", "unisched:stop=metric:acc>=1", "stop", "max=90000", 9},
		{"max without metric", "unisched:stop=iters:5,max=9", "max", "stop=iters:9", 22},
		{"fixed and elastic", "unisched:parallel=fixed,gpus=1/2", "gpus", "", 24},
		{"deadline in the past", "unisched:class=strict,deadline=2026-11-29T13:00", "deadline", "", 31},
		{"deadline too far", "unisched:class=strict,deadline=2126-11-29T13:00", "deadline", "", 31},
		{"deadline is no time", "unisched:class=strict,deadline=tomorrow", "deadline", "2026-12-01T18:00 or now+6h", 31},
		{"deadline on no day", "unisched:class=strict,deadline=2027-02-30T13:00", "deadline", "2026-12-01T18:00 or now+6h", 31},
		{"deadline in the DST gap", "unisched:class=strict,deadline=2027-03-28T02:30", "deadline", "", 31},
		{"zero duration", "unisched:class=strict,deadline=now+0s", "deadline", "40s, 90m, 6h or 2d", 35},
		{"no unit", "unisched:class=strict,deadline=now+6", "deadline", "40s, 90m, 6h or 2d", 35},
		{"unknown unit", "unisched:class=strict,deadline=now+6w", "deadline", "40s, 90m, 6h or 2d", 36},
		{"units out of order", "unisched:class=strict,deadline=now+6m1h", "deadline", "40s, 90m, 6h or 2d", 38},
		{"negative duration", "unisched:class=strict,deadline=now+-6h", "deadline", "40s, 90m, 6h or 2d", 35},
		{"overflowing duration", "unisched:class=strict,deadline=now+99999999999999999999d", "deadline", "40s, 90m, 6h or 2d", 35},
		{"tier without value", "unisched:class=soft,deadlines=now+6h", "deadlines", "now+6h:100", 30},
		{"times fall", "unisched:class=soft,deadlines=now+6h:9/now+5h:8", "deadlines", "", 39},
		{"values rise", "unisched:class=soft,deadlines=now+6h:9/now+7h:9", "deadlines", "", 46},
		{"value zero", "unisched:class=soft,deadlines=now+6h:0", "deadlines", "", 37},
		{"value infinite", "unisched:class=soft,deadlines=now+6h:1e999", "deadlines", "", 37},
		{"value not a number", "unisched:class=soft,deadlines=now+6h:NaN", "deadlines", "", 37},
		{"nine tiers", "unisched:class=soft,deadlines=1/2/3/4/5/6/7/8/9", "deadlines", "", 30},
		{"second tier in the past", "unisched:class=soft,deadlines=now+6h:9/2020-01-01T00:00:8", "deadlines", "", 39},
		{"unknown stop", "unisched:stop=90000", "stop", "iters:90000", 14},
		{"no iterations", "unisched:stop=iters:0", "stop", "", 20},
		{"iterations overflow", "unisched:stop=iters:99999999999999999999", "stop", "", 20},
		{"hexadecimal", "unisched:epoch=0x10", "epoch", "", 15},
		{"signed", "unisched:epoch=+5", "epoch", "", 15},
		{"metric without operator", "unisched:stop=metric:acc=1,max=1", "stop", "metric:val_acc>=0.92", 21},
		{"metric name", "unisched:stop=metric:a$(b)>=1,max=1", "stop", "", 21},
		{"metric name too long", "unisched:stop=metric:" + strings.Repeat("a", 65) + ">=1,max=1", "stop", "", 21},
		{"metric name empty", "unisched:stop=metric:>=1,max=1", "stop", "", 21},
		{"metric target infinite", "unisched:stop=metric:acc>=Inf,max=1", "stop", "", 26},
		{"metric target hexadecimal", "unisched:stop=metric:acc>=0x1p2,max=1", "stop", "", 26},
		{"no GPUs", "unisched:gpus=0", "gpus", "", 14},
		{"too many GPUs", "unisched:gpus=99999", "gpus", "", 14},
		{"falling range", "unisched:gpus=8-2", "gpus", "", 16},
		{"range without a power of two", "unisched:gpus=5-7", "gpus", "5", 14},
		{"falling list", "unisched:gpus=4/2", "gpus", "", 16},
		{"milestones out of order", "unisched:milestones=30/30", "milestones", "", 23},
		{"KILL", "unisched:ckpt=KILL", "ckpt", "", 14},
		{"SIG prefix", "unisched:ckpt=SIGUSR1", "ckpt", "USR1", 14},
		{"exit code 0", "unisched:ckpt=B:USR1+0", "ckpt", "", 21},
		{"exit code 256", "unisched:ckpt=USR1+256", "ckpt", "", 19},
		{"nothing to exit with", "unisched:ckpt=none+99", "ckpt", "none", 14},
		{"restore too long", "unisched:restore=25h", "restore", "40s, 90m, 6h or 2d", 17},
		{"quotes belong to the value", `"unisched:epoch=5"`, "epoch", "", 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := Parse(tt.in, site())
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %+v, %v", w, err)
			}
			if d := cmp.Diff(Wish{}, w); d != "" {
				t.Error(d)
			}
			if e.Offset != tt.offset || e.Key != tt.key || e.Suggest != tt.suggest || e.Reason == "" {
				t.Errorf("got %+v (%v)", *e, e)
			}
		})
	}
}

func TestLocalTime(t *testing.T) {
	c := site()
	parse := func(deadline string, c Context) time.Time {
		w, err := Parse("unisched:class=strict,deadline="+deadline, c)
		if err != nil {
			t.Fatal(err)
		}
		return w.Tiers[0].At
	}
	// The clocks show 02:30 twice on 2027-10-31; the earlier one is summer time.
	if got, want := parse("2027-10-31T02:30", c), time.Date(2027, 10, 31, 0, 30, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("doubled hour: %v, want %v", got, want)
	}
	c.First = noon.Add(-2 * time.Hour)
	if got, want := parse("now+3h", c), noon.Add(time.Hour); !got.Equal(want) {
		t.Errorf("now+ counts from the first submission: %v, want %v", got, want)
	}
	if _, err := Parse("unisched:class=strict,deadline=now+2h", c); err == nil {
		t.Error("a relative deadline that has passed is accepted")
	}
	c = Context{Now: noon}
	if got, want := parse("2026-12-01T18:00", c), time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("no zone is UTC: %v, want %v", got, want)
	}
	c = Context{Now: time.Date(2011, 12, 1, 0, 0, 0, 0, time.UTC), Zone: mustZone("Pacific/Apia")}
	if _, err := Parse("unisched:class=strict,deadline=2011-12-30T12:00", c); err == nil {
		t.Error("a day that the zone skipped is accepted")
	}
}

func TestErrorIsOnePrintableLine(t *testing.T) {
	_, err := Parse("unisched:cl\u202eass\x1b[31m=1", site())
	const want = `comment: byte 9: "cl\u202eass\x1b[31m": unknown key`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEcho(t *testing.T) {
	w, err := Parse("unisched:class=soft,deadlines=now+6h:100/2027-06-01T18:00:20,stop=metric:acc>=0.9,max=100,gpus=2-8,ckpt=B:USR1+99,restore=40s,milestones=3/6,epoch=10", site())
	if err != nil {
		t.Fatal(err)
	}
	want := `class      soft
deadline   2026-11-29 19:00:00 +01:00 (CET) worth 100
deadline   2027-06-01 18:00:00 +02:00 (CEST) worth 20
stop       acc >= 0.9, at most 100 iterations
gpus       2 or 4 or 8
batch      local
parallel   dp
ckpt       B:USR1+99
restore    40s
milestones 3, 6
epoch      10 iterations
profile    auto
`
	if d := cmp.Diff(want, Echo(w)); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "unisched:", "unisched:class=strict,deadline=now+6h", `{"unisched":{"epoch":5,"gpus":[2,4]}}`,
		"unisched:class=soft,deadlines=now+6h:100/now+7h:80", "a unisched:stop=metric:acc>=1,max=5;x", `{"a":[[{"unisched":1}]]}`,
		"unisched:ckpt=B:USR1+99,restore=40s,milestones=1/2", "\xff unisched:epoch=5", `{"unisched":{"class":"str`,
		"unisched:class=strict,deadline=2027-03-28T02:30",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := Parse(s, site())
		var e *Error
		switch {
		case err == nil:
			if len(w.GPUs) == 0 || w.Class != BestEffort && len(w.Tiers) == 0 || w.Ckpt.None != (w.Ckpt.Signal == "") {
				t.Fatalf("incomplete wish %+v", w)
			}
			for _, tier := range w.Tiers {
				if !tier.At.After(noon) || !(tier.Value > 0) {
					t.Fatalf("tier %+v", tier)
				}
			}
			Echo(w)
		case errors.As(err, &e):
			if e.Offset < 0 || e.Offset > len(s) || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
				t.Fatalf("error %q at %d of %d", e.Error(), e.Offset, len(s))
			}
		case err != ErrNone:
			t.Fatal(err)
		}
	})
}
