package account

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/roll"
	"unisched/planner"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func ptr[T any](v T) *T { return &v }

// ended is a view of a job of 4 GPUs that ran three times: a profile of 5 min on 2, an hour that was cut, two hours.
func ended() bridge.JobView {
	on := func(g int) planner.Placement { return planner.Placement{{Node: "n1", GPUs: g}} }
	return bridge.JobView{ID: 12, Ref: "12", Name: "train", User: "ann", Account: "lab", Class: planner.Soft, Phase: bridge.Completed, GPUs: 4, Submitted: noon, Ended: at(4 * time.Hour),
		Exit: "COMPLETED, exit 0", Met: ptr(1), Tiers: []planner.Tier{{At: at(3 * time.Hour), Value: 100}, {At: at(5 * time.Hour), Value: 50}}, Preemptions: 1, Iter: 900, LostIters: 100,
		Held: 3 * 3600, GPUSeconds: 3*3600*4 + 600, Estimate: planner.Estimate{Resume: planner.Exactly(30), Checkpoint: planner.Exactly(10)},
		Stays: []bridge.Stay{{From: at(5 * time.Minute), To: at(10 * time.Minute), Placement: on(2), Profile: true},
			{Run: 1, From: at(30 * time.Minute), To: at(90 * time.Minute), Placement: on(4), Cut: true}, {Run: 2, From: at(2 * time.Hour), To: at(4 * time.Hour), Placement: on(4)}}}
}

func TestCharge(t *testing.T) {
	job := ended()
	e, ok := Of(&job)
	if !ok {
		t.Fatal("no entry")
	}
	want := Charge{Held: 43800, Shown: 28800, Profile: 600, Lost: 4320, Resume: 120, Checkpoint: 40, Useful: 43800 - 600 - 4320 - 160}
	if d := cmp.Diff(want, e.Charge()); d != "" {
		t.Error(d)
	}
	if e.Value() != 0.5 {
		t.Errorf("value %v", e.Value())
	}
}

func TestOfNotEnded(t *testing.T) {
	for name, change := range map[string]func(*bridge.JobView){
		"runs":         func(j *bridge.JobView) { j.Phase = bridge.Running },
		"released":     func(j *bridge.JobView) { j.Phase = bridge.Released },
		"end unknown":  func(j *bridge.JobView) { j.Ended = time.Time{} },
		"begin absent": func(j *bridge.JobView) { j.Submitted = time.Time{} },
	} {
		j := ended()
		change(&j)
		if _, ok := Of(&j); ok {
			t.Errorf("%s: an entry", name)
		}
	}
}

// case 10: what is long is cut, and a restarted daemon writes nothing twice; a job that ended again is read as it ended last.
func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), Folder)
	if _, err := Read(dir, time.Time{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	open := func() *Store {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	keep := func(s *Store, now time.Time, jobs ...bridge.JobView) {
		if err := s.Keep(&bridge.View{At: now, Jobs: jobs}); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	first, other := ended(), ended()
	first.Phase, first.Ended, first.Met = bridge.Failed, at(time.Hour), ptr(-1)
	other.ID, other.Ref, other.Name = 13, "13", strings.Repeat("x", 1<<20)
	keep(s, at(time.Hour), first)
	keep(s, at(2*time.Hour), first, other)
	s.Close()
	s = open()
	keep(s, at(5*time.Hour), first, other)
	keep(s, at(5*time.Hour), ended(), other)
	s.Close()
	names, err := filesOf(dir).Names()
	if err != nil || len(names) != 2 {
		t.Fatalf("files %v, %v", names, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, names[1]), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("garbage\n{\"job_id\":1}\n{\"job_id\":14,\"phase\":\"compl") // a torn end
	f.Close()
	got, err := Read(dir, time.Time{})
	if err != nil || len(got) != 2 || got[0].Job != 12 || got[0].Phase != bridge.Completed || got[1].Job != 13 || len(got[1].Name) != maxText {
		t.Errorf("%v, %+v", err, got)
	}
	if got, err := Read(dir, at(4*time.Hour+time.Second)); err != nil || len(got) != 0 {
		t.Errorf("since: %v, %v", got, err)
	}
}

// Old files go, the newest stays whatever it holds.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "ended-"+"20200101T000000.000000Z"+roll.Suffix)
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, at(-maxAge-time.Hour), at(-maxAge-time.Hour)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(&bridge.View{At: noon, Jobs: []bridge.JobView{ended()}}); err != nil {
		t.Fatal(err)
	}
	s.files.MaxFile = 0 // the file that is open is full
	j := ended()
	j.ID = 14
	if err := s.Keep(&bridge.View{At: at(time.Second), Jobs: []bridge.JobView{j}}); err != nil {
		t.Fatal(err)
	}
	names, err := filesOf(dir).Names()
	want := []string{"ended-20261201T120000.000000Z.jsonl", "ended-20261201T120001.000000Z.jsonl"}
	if d := cmp.Diff(want, names); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestSum(t *testing.T) {
	entry := func(job int, class planner.Class, account string, phase bridge.Phase, jct, window time.Duration, end time.Time) Entry {
		e := Entry{Job: 1, Class: class, Account: account, Phase: phase, Submitted: end.Add(-jct), Ended: end}
		if window > 0 {
			e.Tiers = []planner.Tier{{At: e.Submitted.Add(window), Value: 100}}
			e.Met = ptr(-1)
			if phase == bridge.Completed && jct <= window {
				e.Met = ptr(0)
			}
		}
		return e
	}
	nov := time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC)
	list := []Entry{
		entry(1, planner.Strict, "a", bridge.Completed, time.Hour, 2*time.Hour, nov),
		entry(2, planner.Strict, "b", bridge.Completed, 3*time.Hour, 2*time.Hour, noon),
		entry(3, planner.Strict, "b", bridge.Failed, time.Hour, 2*time.Hour, noon),
		entry(4, planner.Strict, "b", bridge.Cancelled, time.Hour, 2*time.Hour, noon),
		entry(5, planner.BestEffort, "", bridge.Completed, 10*time.Hour, 0, noon),
	}
	r := Sum(list, "", time.UTC, time.Time{})
	type row struct {
		By, Value             string
		Jobs, SLO, Met        int
		Attainment, Late, JCT float64
	}
	var got []row
	val := func(p *float64) float64 {
		if p == nil {
			return -1
		}
		return *p
	}
	for _, g := range r.Groups {
		got = append(got, row{g.By, g.Value, g.Jobs, g.SLO, g.Met, val(g.Attainment), val(g.Lateness.P99), val(g.JCT.P50)})
	}
	want := []row{
		{"all", "", 5, 3, 1, 1. / 3, 3600, 3 * 3600},
		{"class", "besteffort", 1, 0, 0, -1, -1, 36000}, {"class", "strict", 4, 3, 1, 1. / 3, 3600, 3600},
		{"account", "(none)", 1, 0, 0, -1, -1, 36000}, {"account", "a", 1, 1, 1, 1, -3600, 3600}, {"account", "b", 3, 2, 0, 0, 3600, 3 * 3600},
		{"month", "2026-11", 1, 1, 1, 1, -3600, 3600}, {"month", "2026-12", 4, 2, 0, 0, 3600, 3 * 3600},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	east := time.FixedZone("", 3600)
	if r := Sum(list, "month", east, time.Time{}); len(r.Groups) != 2 || r.Groups[1].Value != "2026-12" {
		t.Errorf("months of another zone: %+v", r.Groups)
	}
}

// The ten most preempted, in a fixed order: by how often, then by what it cost.
func TestMostPreempted(t *testing.T) {
	var list []Entry
	for i := range 14 {
		list = append(list, Entry{Ref: string(rune('a' + i)), GPUs: 1, Preemptions: i / 2, CheckpointS: float64(i)})
	}
	var got []string
	for _, p := range most(list, 10) {
		got = append(got, p.Job)
	}
	if d := cmp.Diff(strings.Split("n m l k j i h g f e", " "), got); d != "" {
		t.Error(d)
	}
}

func TestCSV(t *testing.T) {
	j := ended()
	j.Name, j.User = `=HYPERLINK("x")`, "a,b"
	e, _ := Of(&j)
	var b strings.Builder
	if err := WriteJobs(&b, []Entry{e}); err != nil {
		t.Fatal(err)
	}
	want := `12,"'=HYPERLINK(""x"")","a,b",lab,soft,4,2026-12-01T12:00:00Z,2026-12-01T16:00:00Z,completed,"COMPLETED, exit 0",1,0.5,-3600,14400,1,43800,28800,600,4320,120,40,38720` + "\n"
	if _, rows, _ := strings.Cut(b.String(), "\n"); rows != want {
		t.Error(cmp.Diff(want, rows))
	}
	b.Reset()
	if err := Sum([]Entry{e}, "class", time.UTC, noon).WriteGroups(&b); err != nil {
		t.Fatal(err)
	}
	want = "soft,1,1,0,0,1,1,1,0.5,-3600,-3600,-3600,14400,14400,14400,1,43800,28800,600,4320,120,40,38720\n"
	if !strings.Contains(b.String(), "\nclass,"+want) {
		t.Error(b.String())
	}
}

// FuzzScan: whatever the files hold, reading ends and sums stay finite.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"job_id":1,"phase":"completed","submitted":"2026-12-01T10:00:00Z","ended":"2026-12-01T12:00:00Z","met":7,"tiers":[{"at":"2026-12-01T11:00:00Z","value":0}]}` + "\n"))
	f.Add([]byte("{}\n\xff{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var list []Entry
		if err := Scan(strings.NewReader(string(raw)), func(e Entry) { list = append(list, e) }); err != nil {
			t.Fatal(err)
		}
		Sort(list)
		r := Sum(list, "", time.UTC, time.Time{})
		if err := r.WriteGroups(&strings.Builder{}); err != nil {
			t.Fatal(err)
		}
	})
}
