package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// both is the scatter of the two headline figures.
func (r Report) both() (Plot, bool) {
	p := Plot{Name: "both", Title: "Both at once", Caption: "Each dot is a policy: deadline value lost to the right, best-effort completion time upwards. The lower left corner is where one wants to be."}
	top, low, high := 0.0, math.Inf(1), 0.0 // of misses, of times
	var list []int
	for _, i := range r.byMiss() {
		if f := r.Results[i].Figures; f.WeightedMiss != nil && f.BEJCTMean != nil && *f.BEJCTMean > 0 {
			top, low, high = max(top, *f.WeightedMiss), min(low, *f.BEJCTMean), max(high, *f.BEJCTMean)
			list = append(list, i)
		}
	}
	if len(list) < 2 || top <= 0 {
		return p, false
	}
	low, high = math.Log(low/1.15), math.Log(high*1.15)
	s := newSheet(smallW, smallH)
	const left, right, bottom, above = vg.Length(56), vg.Length(66), vg.Length(42), vg.Length(10)
	// Roots and logarithms leave room to the many good ones.
	px := func(miss float64) vg.Length { return left + 6 + vg.Length(math.Sqrt(miss/top))*(s.w-left-right) }
	py := func(jct float64) vg.Length {
		return bottom + vg.Length((math.Log(jct)-low)/(high-low))*(s.h-bottom-above)
	}
	thin := draw.LineStyle{Color: rule, Width: 0.6}
	last := vg.Length(-100)
	for _, k := range []float64{0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1} {
		if x := px(k); k <= top*1.02 && x-last > 34 {
			s.line(thin, vg.Point{X: x, Y: bottom}, vg.Point{X: x, Y: s.h - above})
			s.say(sans(11, muted), vg.Point{X: x, Y: bottom - 10}, "centre", fmt.Sprintf("%g %%", 100*k))
			last = x
		}
	}
	for _, sec := range ladder(math.Exp(low), math.Exp(high)) {
		s.line(thin, vg.Point{X: left, Y: py(sec)}, vg.Point{X: s.w - 8, Y: py(sec)})
		s.say(sans(11, muted), vg.Point{X: left - 6, Y: py(sec)}, "right", span(sec))
	}
	s.say(sans(11, muted), vg.Point{X: s.w / 2, Y: 8}, "centre", "weighted miss")
	var dots []dot
	for _, i := range list {
		f := r.Results[i].Figures
		dots = append(dots, dot{vg.Point{X: px(*f.WeightedMiss), Y: py(*f.BEJCTMean)}, f.Name, i == r.base()})
	}
	s.dots(dots)
	p.svg = s.svg(p.Title)
	return p, true
}

// dot is a point with a name.
type dot struct {
	at   vg.Point
	name string
	ours bool
}

// dots draws points, each with its name where that hides no other; ours is the last.
func (s *sheet) dots(list []dot) {
	type frame struct{ x0, y0, x1, y1 vg.Length }
	var taken []frame
	for _, d := range list {
		c, size := series(otherColour), vg.Length(3.4)
		if d.ours {
			c, size = series(0), 5
		}
		s.DrawGlyph(draw.GlyphStyle{Color: c, Radius: size, Shape: draw.CircleGlyph{}}, d.at)
		taken = append(taken, frame{d.at.X - 4, d.at.Y - 4, d.at.X + 4, d.at.Y + 4})
	}
	hits := func(f frame) bool {
		return f.x1 > s.w || f.x0 < 58 || slices.ContainsFunc(taken, func(o frame) bool { return f.x0 < o.x1 && o.x0 < f.x1 && f.y0 < o.y1 && o.y0 < f.y1 })
	}
	for i := len(list) - 1; i >= 0; i-- {
		d := list[i]
		words := sans(10.5, muted)
		if d.ours {
			words = sans(12, ink)
		}
		w := words.Width(d.name)
		for k, try := range []vg.Point{{X: 8}, {X: -8 - w}, {X: -w / 2, Y: 11}, {X: -w / 2, Y: -11}, {X: 6, Y: 10}, {X: 6, Y: -10}, {X: -w / 2, Y: 22}, {X: -w / 2, Y: -22}, {X: 8}} {
			at := vg.Point{X: d.at.X + try.X, Y: d.at.Y + try.Y}
			f := frame{at.X - 1, at.Y - 5, at.X + w + 1, at.Y + 5}
			if !hits(f) || k == 8 {
				s.say(words, at, "left", d.name)
				taken = append(taken, f)
				break
			}
		}
	}
}

// byMiss are the policies from the worst weighted miss to the best, the base last.
func (r Report) byMiss() []int {
	var out []int
	for i := range r.Results {
		if i != r.base() {
			out = append(out, i)
		}
	}
	return append(out, r.base())
}

// ladder are round durations in seconds between two, on a logarithmic axis: at most seven.
func ladder(low, high float64) []float64 {
	var out []float64
	for _, base := range []float64{1, 60, 3600, 86400} {
		for _, k := range []float64{1, 2, 3, 5, 10, 15, 20, 30, 40, 50} {
			v := base * k
			if v >= low && v <= high && (base == 86400 || v < map[float64]float64{1: 60, 60: 3600, 3600: 86400}[base]) {
				out = append(out, v)
			}
		}
	}
	for len(out) > 7 {
		thin := out[:0:0]
		for i := 0; i < len(out); i += 2 {
			thin = append(thin, out[i])
		}
		out = thin
	}
	return out
}
