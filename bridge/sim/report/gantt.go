package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"unisched/bridge/sim"
	"unisched/planner"
)

// The slice of the cluster that a Gantt chart shows.
const (
	ganttNodes = 4
	ganttSpan  = 12 * time.Hour
)

// gantts are the charts of the base and of the rival with the best completion time: who held which GPUs of the first nodes for some hours in the middle.
func (r Report) gantts() []Plot {
	var out []Plot
	from := r.middle()
	picks := []int{r.base()}
	if s := r.shown(); len(s) > 1 {
		picks = append(picks, s[1])
	}
	for _, i := range picks {
		x := r.Results[i]
		names := nodesOf(x)
		if len(names) == 0 {
			continue
		}
		p := Plot{Name: "gantt-" + x.Name, Title: "Who held which GPUs: " + x.Name, Wide: true,
			Caption: fmt.Sprintf("%d nodes over %d hours from hour %d on, a lane for each GPU. A job that was preempted has a gap.", len(names), int(ganttSpan.Hours()), int(from.Hours()))}
		p.svg = gantt(x, names, from)
		out = append(out, p)
	}
	return out
}

// middle is when the slice begins: a whole hour near the middle of the submissions.
func (r Report) middle() time.Duration {
	last := time.Duration(0)
	for _, o := range r.Results[r.base()].Outcomes {
		last = max(last, o.Submit)
	}
	return max(last/2-ganttSpan/2, 0).Truncate(time.Hour)
}

// nodesOf are the first nodes by name, shorter names first so that n10 follows n9.
func nodesOf(x sim.Result) []string {
	seen := map[string]bool{}
	for _, s := range x.Stays {
		for _, g := range s.Where {
			seen[g.Node] = true
		}
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return out[:min(len(out), ganttNodes)]
}

// held is a time of one lane.
type held struct {
	node, lane int
	from, to   time.Duration
	colour     int
}

// lanes gives each stay the lowest free lanes of its nodes, by the time it began.
func lanes(x sim.Result, names []string, from, to time.Duration) ([]held, int) {
	stays := slices.Clone(x.Stays)
	slices.SortStableFunc(stays, func(a, b sim.Stay) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job)) })
	free := make([][]time.Duration, len(names)) // when each lane comes free
	width := 1
	var out []held
	for _, s := range stays {
		if s.To <= from || s.From >= to {
			continue
		}
		colour := otherColour
		switch {
		case s.Profile:
			colour = profileColour
		case s.Job < len(x.Outcomes):
			colour = map[planner.Class]int{planner.Strict: strictColour, planner.Soft: softColour, planner.BestEffort: bestColour}[x.Outcomes[s.Job].Class]
		}
		for _, g := range s.Where {
			n := slices.Index(names, g.Node)
			for k, lane := g.Count, 0; n >= 0 && k > 0; lane++ {
				if lane == len(free[n]) {
					free[n] = append(free[n], 0)
				}
				if free[n][lane] <= s.From {
					free[n][lane] = s.To
					out = append(out, held{n, lane, max(s.From, from), min(s.To, to), colour})
					k--
				}
			}
			if n >= 0 {
				width = max(width, len(free[n]))
			}
		}
	}
	return out, width
}

func gantt(x sim.Result, names []string, from time.Duration) string {
	to := from + ganttSpan
	list, perNode := lanes(x, names, from, to)
	const lane, gap, left, right, bottom, top = vg.Length(7), vg.Length(8), vg.Length(52), vg.Length(18), vg.Length(24), vg.Length(26)
	node := lane*vg.Length(perNode) + gap
	s := newSheet(980, bottom+top+node*vg.Length(len(names)))
	px := func(t time.Duration) vg.Length {
		return left + vg.Length(float64(t-from)/float64(ganttSpan))*(s.w-left-right)
	}
	key := left
	for _, k := range []struct {
		colour int
		name   string
	}{{strictColour, "strict deadline"}, {softColour, "soft deadlines"}, {bestColour, "best effort"}, {profileColour, "profile run"}} {
		s.block(series(k.colour), key, s.h-16, key+14, s.h-6)
		st := sans(11, ink)
		s.say(st, vg.Point{X: key + 20, Y: s.h - 11}, "left", k.name)
		key += st.Width(k.name) + 44
	}
	thin := draw.LineStyle{Color: rule, Width: 0.6}
	for h := time.Duration(0); h <= ganttSpan; h += 2 * time.Hour {
		s.line(thin, vg.Point{X: px(from + h), Y: bottom - 4}, vg.Point{X: px(from + h), Y: s.h - top})
		s.say(sans(11, muted), vg.Point{X: px(from + h), Y: 10}, "centre", fmt.Sprintf("%.0f h", (from+h).Hours()))
	}
	paths := map[int]vg.Path{}
	for _, b := range list {
		y := s.h - top - node*vg.Length(b.node) - lane*vg.Length(b.lane)
		paths[b.colour] = box(paths[b.colour], px(b.from), y-lane+1, max(px(b.to)-0.7, px(b.from)+0.4), y)
	}
	for c := range otherColour + 1 {
		if len(paths[c]) > 0 {
			s.SetColor(series(c))
			s.Fill(paths[c])
		}
	}
	for i, n := range names {
		s.say(sans(11, muted), vg.Point{X: left - 6, Y: s.h - top - node*vg.Length(i) - (node-gap)/2}, "right", n)
	}
	return s.svg("Gantt chart of " + x.Name)
}
