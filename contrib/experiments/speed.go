package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// onSpeed are the cells of the picture of speed: one trace, from six hours of it to two weeks.
var onSpeed = regexp.MustCompile(`^(speed/mix1-|chronus2d/mix1-oracle/|chronus14d/mix1-oracle/)`)

// drawSpeed writes speed.svg: processor seconds of a whole simulation against its jobs, both on logarithmic axes, a line for each policy. A dashed line has
// the slope of a cost in proportion to the jobs. There is no picture without at least two points of a policy.
func (l *lab) drawSpeed(all []figure) error {
	type point struct{ jobs, cpu float64 }
	by := map[string][]point{}
	for _, x := range all {
		if onSpeed.MatchString(x.cell.ID()) && (x.cell.Policy == "unisched" || x.cell.Policy == "srsf") && x.cost.CPU > 0 {
			by[x.cell.Policy] = append(by[x.cell.Policy], point{float64(x.f.Jobs), x.cost.CPU})
		}
	}
	if len(by["unisched"]) < 2 {
		return nil
	}
	const w, h, left, right, top, bottom = 560.0, 360.0, 58.0, 84.0, 16.0, 44.0
	x0, x1, y0, y1 := 300.0, 50000.0, 0.3, 1000.0
	px := func(v float64) float64 { return left + (w-left-right)*math.Log(v/x0)/math.Log(x1/x0) }
	py := func(v float64) float64 { return h - bottom - (h-top-bottom)*math.Log(v/y0)/math.Log(y1/y0) }
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`, w, h, html.EscapeString("Processor time of a simulation against its number of jobs"))
	add(`<style>svg{background:#fff;font:12px system-ui,'Liberation Sans',Arial,sans-serif}text{fill:#333}.g{stroke:#ddd}.d{stroke:#888;stroke-dasharray:4 3;fill:none}` +
		`.unisched{stroke:#1b5faa;fill:#1b5faa}.srsf{stroke:#b4500f;fill:#b4500f}path{fill:none!important;stroke-width:2}` +
		`@media(prefers-color-scheme:dark){svg{background:#161a1f}text{fill:#ccd}.g{stroke:#333}.unisched{stroke:#6fb1ff;fill:#6fb1ff}.srsf{stroke:#ffa366;fill:#ffa366}}</style>`)
	for _, v := range []float64{300, 1000, 3000, 10000, 30000} {
		add(`<line class="g" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%g</text>`, px(v), px(v), top, h-bottom, px(v), h-bottom+16, v)
	}
	for _, v := range []float64{1, 10, 60, 300, 1000} {
		add(`<line class="g" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%g s</text>`, left, w-right, py(v), py(v), left-6, py(v)+4, v)
	}
	for _, name := range []string{"srsf", "unisched"} {
		pts := by[name]
		if len(pts) == 0 {
			continue
		}
		slices.SortFunc(pts, func(a, b point) int { return cmp.Or(cmp.Compare(a.jobs, b.jobs), cmp.Compare(a.cpu, b.cpu)) })
		var path strings.Builder
		for i, p := range pts {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], px(p.jobs), py(p.cpu))
			add(`<circle class="%s" r="3.5" cx="%.1f" cy="%.1f"><title>%g jobs: %.1f s</title></circle>`, name, px(p.jobs), py(p.cpu), p.jobs, p.cpu)
		}
		last := pts[len(pts)-1]
		add(`<path class="%s" d="%s"/><text x="%.1f" y="%.1f">%s</text>`, name, path.String(), px(last.jobs)+8, py(last.cpu)+4, name)
		if first := pts[0]; name == "unisched" {
			end := first.cpu * last.jobs / first.jobs
			add(`<path class="d" d="M%.1f %.1fL%.1f %.1f"/>`, px(first.jobs), py(first.cpu), px(last.jobs), py(end))
			add(`<text x="%.1f" y="%.1f">in proportion</text>`, px(last.jobs)+8, py(end)+4)
		}
	}
	add(`<text x="%g" y="%g" text-anchor="middle">jobs</text><text x="14" y="%g" transform="rotate(-90 14 %g)" text-anchor="middle">processor time but for the last solver process</text>`,
		(left+w-right)/2, h-8, (h-bottom+top)/2, (h-bottom+top)/2)
	add(`</svg>`)
	return os.WriteFile(filepath.Join(l.out, "speed.svg"), []byte(b.String()), 0o666)
}
