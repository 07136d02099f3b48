package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/bridge/control"
	"unisched/contrib/browser"
)

var monday = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

// site is the page of a made-up cluster, and a browser that looks at it.
type site struct {
	*browser.Browser
	url  string
	made made
	view atomic.Pointer[bridge.View]
	stop context.CancelFunc
}

func open(t testing.TB, m made, now time.Time) *site {
	t.Helper()
	b, err := browser.Start(t.Context())
	if errors.Is(err, browser.ErrNone) && os.Getenv("UNISCHED_BROWSER") == "" {
		t.Skip("no Chromium here; UNISCHED_BROWSER=1 makes that a failure")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Browser: b, url: "http://" + l.Addr().String() + "/", made: m}
	s.view.Store(m.seen(now))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Server{View: s.view.Load}.ServeWeb(ctx, l, nil) }()
	s.stop = stop
	t.Cleanup(func() { stop(); <-done })
	if err := b.Look(t.Context(), 1300, 800, 1, false, false); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	return s
}

// have waits until an expression is true in the page, for at most half a minute.
func (s *site) have(t testing.TB, expr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.Wait(ctx, expr); err != nil {
		t.Fatalf("%v; the page says: %v", err, s.Problems())
	}
}

func (s *site) do(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func get[T any](t testing.TB, s *site, expr string) T {
	t.Helper()
	var v T
	if err := s.Eval(t.Context(), expr, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestPage uses the page as a person does: filter, zoom, open a job, follow an event, and an update in between.
func TestPage(t *testing.T) {
	ctx := t.Context()
	now := monday.Add(6 * time.Hour)
	s := open(t, made{nodes: 6, jobs: 120, seed: 3, begin: monday}, now)
	s.have(t, `state.board && document.querySelectorAll("#rows .row").length > 0`)

	t.Run("the queue shows who waits, the next start first", func(t *testing.T) {
		want := 0
		for _, j := range s.view.Load().Jobs {
			if j.Phase == bridge.Waiting {
				want++
			}
		}
		if got := get[int](t, s, `state.list.length`); got != want || want < 5 {
			t.Errorf("%d waiting in the list, %d in the view", got, want)
		}
		starts := get[[]int64](t, s, `state.list.map(j => j.tStart)`)
		if !slices.IsSorted(starts) {
			t.Errorf("starts %v", starts)
		}
	})
	t.Run("the chart draws leases of every kind", func(t *testing.T) {
		s.have(t, `new Set(Array.from(new Uint32Array(chart.g.getImageData(0, 0, chart.c.width, chart.c.height).data.buffer))).size > 12`)
		if kinds := get[[]string](t, s, `[...new Set(chart.rows.flatMap(r => r.rects.map(q => q.lease.kind)))].sort()`); !slices.Equal(kinds, []string{"now", "past", "plan"}) {
			t.Errorf("kinds %v", kinds)
		}
		// No lane is given out twice at the same time: what was placed without overlap is drawn without.
		if n := get[int](t, s, `(() => { let n = 0; for (const r of chart.rows) for (const a of r.rects) for (const b of r.rects) if (a !== b && a.lease.job < b.lease.job && a.lane < b.lane + b.lanes && b.lane < a.lane + a.lanes && a.lease.t0 + 2000 < b.lease.t1 && b.lease.t0 + 2000 < a.lease.t1) n++; return n; })()`); n != 0 {
			t.Errorf("%d pairs of leases overlap", n)
		}
	})
	t.Run("filter", func(t *testing.T) {
		all := get[int](t, s, `state.list.length`)
		s.do(t, s.Press(ctx, "/"), s.Type(ctx, "user:anna"))
		s.have(t, `document.activeElement.id === "filter" && state.text === "user:anna"`)
		users := get[[]string](t, s, `[...document.querySelectorAll("#rows .row")].map(r => r.children[1].textContent)`)
		if len(users) == 0 || len(users) >= all || slices.ContainsFunc(users, func(u string) bool { return u != "anna" }) {
			t.Errorf("rows of %v", users)
		}
		if all, some := get[int](t, s, `chart.rows.length`), get[int](t, s, `chart.shown.length`); some == 0 || some >= all {
			t.Errorf("%d of %d nodes have something of hers", some, all)
		}
		s.do(t, s.Press(ctx, "Escape"))
		s.have(t, `state.text === "" && document.querySelectorAll("#rows .row").length > 0 && state.list.length === `+itoa(all))
		s.do(t, s.Press(ctx, "/"), s.Type(ctx, "nobody-here"))
		s.have(t, `document.querySelector("#rows .empty")`)
		s.do(t, s.Press(ctx, "Escape"))
		s.have(t, `document.querySelectorAll("#rows .row").length > 0`)
	})
	t.Run("zoom and pan", func(t *testing.T) {
		width := `chart.t1 - chart.t0`
		w0 := get[float64](t, s, width)
		s.do(t, s.Press(ctx, "+"))
		w1 := get[float64](t, s, width)
		s.do(t, s.Press(ctx, "-"), s.Press(ctx, "ArrowRight"))
		w2, t0 := get[float64](t, s, width), get[float64](t, s, `chart.t0 - (chart.board.now - 90 * MIN)`)
		s.do(t, s.Click(ctx, "#zoom-now"))
		if w1 >= w0 || w2 < w0*0.999 || t0 <= 0 {
			t.Errorf("widths %v, %v, %v, moved by %v", w0, w1, w2, t0)
		}
		if back := get[float64](t, s, `chart.t0 - (chart.board.now - 90 * MIN)`); back != 0 {
			t.Errorf("now is off by %v", back)
		}
		s.do(t, s.Click(ctx, "#by-job"))
		s.have(t, `chart.mode === "job" && chart.at && chart.at.length > 3 && chart.at[0].j`)
		s.do(t, s.Press(ctx, "g"))
		s.have(t, `chart.mode === "node"`)
	})
	t.Run("open a job by keyboard", func(t *testing.T) {
		s.do(t, s.Press(ctx, "Escape"), s.Press(ctx, "ArrowDown"), s.Press(ctx, "ArrowDown"), s.Press(ctx, "ArrowUp"), s.Press(ctx, "Enter"))
		s.have(t, `document.getElementById("job").open && document.querySelector("#job .verdict")`)
		ref := get[string](t, s, `location.hash.slice(5)`)
		j, err := control.Find(s.view.Load().Jobs, ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := get[string](t, s, `document.querySelector("#job .verdict").textContent`), ask.Explain(s.view.Load(), j).Verdict; got != want {
			t.Errorf("verdict %q, want %q", got, want)
		}
		s.do(t, s.Press(ctx, "Escape"))
		s.have(t, `!document.getElementById("job").open && location.hash === ""`)
	})
	t.Run("a running job has its learning curve", func(t *testing.T) {
		i := slices.IndexFunc(s.view.Load().Jobs, func(j bridge.JobView) bool { return j.Phase == bridge.Running })
		s.do(t, s.Eval(ctx, `openJob("`+s.view.Load().Jobs[i].Ref+`")`, nil))
		s.have(t, `document.getElementById("job").open && document.querySelector("#job svg path.curve")`)
		s.do(t, s.Click(ctx, "#job-close"))
		s.have(t, `!document.getElementById("job").open`)
	})
	t.Run("follow an event", func(t *testing.T) {
		ref := get[string](t, s, `document.querySelector("#log button").dataset.ref`)
		s.do(t, s.Click(ctx, "#log button"))
		s.have(t, `document.getElementById("job").open && location.hash === "#job=`+ref+`" && document.querySelector("#job h2").textContent.startsWith("`+ref+`")`)
		s.do(t, s.Press(ctx, "Escape"))
	})
	t.Run("click on a lease", func(t *testing.T) {
		s.have(t, `!document.getElementById("job").open`)
		var at struct{ X, Y float64 }
		s.do(t, s.Eval(ctx, `(() => { const a = chart.at[1], r = chart.c.getBoundingClientRect(), q = a.r.rects.find(q => q.lease.kind === "now"); return {x: r.x + chart.x(q.lease.t1) - 4, y: r.y + a.y + (q.lane + .5) * a.lh}; })()`, &at))
		s.do(t, s.ClickAt(ctx, at.X, at.Y))
		s.have(t, `document.getElementById("job").open && document.querySelector("#job .verdict").textContent.startsWith("Runs")`)
		s.do(t, s.Press(ctx, "Escape"))
	})
	t.Run("an update moves on and keeps the selection", func(t *testing.T) {
		s.do(t, s.Press(ctx, "ArrowDown"))
		sel := get[int](t, s, `state.sel`)
		s.view.Store(s.made.seen(now.Add(5 * time.Minute)))
		s.do(t, s.Eval(ctx, `look()`, nil))
		s.have(t, `state.board.cycle === `+itoa(int(s.view.Load().Cycle)))
		if again := get[int](t, s, `state.sel`); again != sel || sel == 0 {
			t.Errorf("selected %d, then %d", sel, again)
		}
	})
	t.Run("what users wrote is text", func(t *testing.T) {
		s.do(t, s.Press(ctx, "/"), s.Type(ctx, "<img"))
		s.have(t, `state.text === "<img"`)
		s.do(t, s.Click(ctx, `[data-show="ended"]`))
		s.have(t, `[...document.querySelectorAll("#rows .row em")].some(e => e.textContent.includes("<img src=x"))`)
		s.do(t, s.Press(ctx, "Enter"))
		s.do(t, s.Click(ctx, "#rows .row"))
		s.have(t, `document.getElementById("job").open && document.querySelector("#job table")`)
		if n := get[int](t, s, `document.images.length`); n != 0 || get[string](t, s, `document.title`) != "UniSched" {
			t.Errorf("%d images, title %q", n, get[string](t, s, `document.title`))
		}
		s.do(t, s.Press(ctx, "Escape"))
	})
	if p := s.Problems(); len(p) > 0 {
		t.Errorf("the page complained: %s", strings.Join(p, "\n"))
	}
	t.Run("a daemon that is gone", func(t *testing.T) {
		s.stop()
		s.do(t, s.Eval(ctx, `look()`, nil))
		s.have(t, `document.getElementById("state").textContent === "no answer" && !document.getElementById("trouble").hidden`)
	})
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// TestPhone: nothing sticks out to the side, and a job's page fills the screen, in dark.
func TestPhone(t *testing.T) {
	s := open(t, made{nodes: 4, jobs: 60, seed: 3, begin: monday}, monday.Add(4*time.Hour))
	s.do(t, s.Look(t.Context(), 390, 844, 2, true, true))
	s.have(t, `state.board && innerWidth === 390`)
	if w := get[int](t, s, `document.documentElement.scrollWidth`); w > 390 {
		t.Errorf("the page is %d wide", w)
	}
	s.do(t, s.Eval(t.Context(), `openJob(state.board.jobs[0].ref)`, nil))
	s.have(t, `document.getElementById("job").open`)
	if w := get[float64](t, s, `document.getElementById("job").getBoundingClientRect().width`); w != 390 {
		t.Errorf("the job's page is %v wide", w)
	}
	if bg := get[string](t, s, `getComputedStyle(document.body).backgroundColor`); bg != "rgb(18, 22, 28)" {
		t.Errorf("background %s", bg)
	}
}

// BenchmarkPage measures the page with 1,000 jobs on 120 nodes: first paint, the first board drawn, and the script time of updates that change everything.
func BenchmarkPage(b *testing.B) {
	now := monday.Add(8 * time.Hour)
	m := made{nodes: 120, jobs: 3000, seed: 3, begin: monday}
	for range b.N {
		s := open(b, m, now)
		s.have(b, `state.board`)
		ctx := b.Context()
		s.do(b, s.Eval(ctx, "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))", nil))
		b.ReportMetric(get[float64](b, s, `performance.getEntriesByName("first-contentful-paint")[0].startTime`), "ms-first-paint")
		b.ReportMetric(get[float64](b, s, `(() => { const e = performance.getEntriesByName("update")[0]; return e.startTime + e.duration; })()`), "ms-first-board")
		b.ReportMetric(get[float64](b, s, `state.board.jobs.length`), "jobs")
		b.ReportMetric(get[float64](b, s, `state.board.leases.length`), "leases")
		b.Logf("%s", get[string](b, s, `JSON.stringify(Object.fromEntries(["requestStart","responseEnd","domInteractive","domContentLoadedEventEnd"].map(k => [k, Math.round(performance.getEntriesByType("navigation")[0][k])]).concat(performance.getEntriesByType("resource").map(r => [r.name.replace(/.*\//, ""), Math.round(r.startTime) + "-" + Math.round(r.responseEnd)]))))`))
		var times, script []float64
		for i := range 30 {
			s.view.Store(m.seen(now.Add(time.Duration(i+1) * 5 * time.Minute)))
			before, err := s.Metrics(ctx)
			s.do(b, err, s.Eval(ctx, `performance.clearMeasures(); look().then(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))))`, nil))
			after, err := s.Metrics(ctx)
			s.do(b, err)
			script = append(script, (after["ScriptDuration"]-before["ScriptDuration"])*1000)
			times = append(times, get[float64](b, s, `performance.getEntriesByType("measure").reduce((a, e) => a + e.duration, 0)`))
		}
		slices.Sort(script)
		b.ReportMetric(script[len(script)-1], "ms-script-max")
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], "ms-update-median")
		b.ReportMetric(times[len(times)-1], "ms-update-max")
	}
}
