package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours are drawn as place holders that no picture uses for itself; the SVG then names variables of the page's style sheet, so that one picture serves
// light and dark. series(0) is the base policy.
var (
	ink   = color.NRGBA{1, 1, 1, 255}
	muted = color.NRGBA{2, 2, 2, 255}
	rule  = color.NRGBA{3, 3, 3, 255}
)

func series(i int) color.NRGBA { return color.NRGBA{4, byte(i), 4, 255} }

const (
	seriesCount  = 8
	strictColour = 8 + iota // of classes, in the Gantt chart
	softColour
	bestColour
	profileColour
	otherColour
)

// paint names the variables.
func paint(svg string) string {
	var pairs []string
	add := func(c color.NRGBA, name string) {
		pairs = append(pairs, fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B), "var(--"+name+")")
	}
	add(ink, "ink")
	add(muted, "muted")
	add(rule, "rule")
	for i := range otherColour + 1 {
		add(series(i), fmt.Sprintf("s%d", i))
	}
	pairs = append(pairs, "font-family:Liberation Sans", "font-family:system-ui,'Liberation Sans',Arial,sans-serif",
		"font-variant:normal;font-weight:normal;font-style:normal;", "", "\n\tstyle", " style")
	return strings.NewReplacer(pairs...).Replace(svg)
}

// Plot is a picture with what it shows.
type Plot struct {
	Name    string // of its file
	Title   string
	Caption string
	Wide    bool // needs the whole width
	svg     string
}

// sheet is a canvas in the making.
type sheet struct {
	w, h   vg.Length
	canvas *vgsvg.Canvas
	draw.Canvas
}

func newSheet(w, h vg.Length) *sheet {
	c := vgsvg.New(w, h)
	return &sheet{w, h, c, draw.New(c)}
}

// svg ends the picture. alt is what it shows, for those who cannot see it.
func (s *sheet) svg(alt string) string {
	var b bytes.Buffer
	_, _ = s.canvas.WriteTo(&b)
	text := b.String()
	_, body, _ := strings.Cut(text, "xlink\">\n")
	body = strings.Replace(body, `style="fill:#FFFFFF"`, `fill="none"`, 1)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`, float64(s.w), float64(s.h), html.EscapeString(alt)) +
		"\n" + paint(body)
}

// standalone gives a picture its own colours and ground.
func standalone(svg string) string {
	head, body, _ := strings.Cut(svg, ">\n")
	return "<?xml version=\"1.0\"?>\n" + head + ">\n<style>" + colours + "\nsvg{background:var(--card)}</style>\n" + body
}

func sans(size float64, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}, Handler: plot.DefaultTextHandler}
}

// say writes text at a point; x is "left", "right" or "centre" of it.
func (s *sheet) say(st text.Style, at vg.Point, align, words string) {
	st.YAlign = draw.YCenter
	st.XAlign = map[string]text.XAlignment{"left": draw.XLeft, "right": draw.XRight, "centre": draw.XCenter}[align]
	s.FillText(st, at, words)
}

// block is a filled rectangle.
func (s *sheet) block(c color.Color, x0, y0, x1, y1 vg.Length) {
	s.SetColor(c)
	s.Fill(box(nil, x0, y0, x1, y1))
}

func box(p vg.Path, x0, y0, x1, y1 vg.Length) vg.Path {
	p.Move(vg.Point{X: x0, Y: y0})
	p.Line(vg.Point{X: x1, Y: y0})
	p.Line(vg.Point{X: x1, Y: y1})
	p.Line(vg.Point{X: x0, Y: y1})
	p.Close()
	return p
}

func (s *sheet) line(st draw.LineStyle, pts ...vg.Point) { s.StrokeLines(st, pts) }

// curve is one line of a picture.
type curve struct {
	name   string
	series int
	points plotter.XYs
}

// dashes tell lines apart where colours do not.
var dashes = [][]vg.Length{nil, nil, {5, 2}, {1.5, 2}, {6, 2, 1.5, 2}, nil, {5, 2}, {1.5, 2}}

func lineOf(i int) draw.LineStyle {
	st := draw.LineStyle{Color: series(i % seriesCount), Width: 1.3, Dashes: dashes[i%len(dashes)]}
	if i == 0 {
		st.Width = 2.4
	}
	return st
}

// axis is one axis of a picture.
type axis struct {
	min, max float64
	ticks    []plot.Tick
	label    string
}

// small is the size of pictures that stand beside one another.
const smallW, smallH = vg.Length(480), vg.Length(310)

// lines draws curves with a legend above. mark, when it is a number, gets a vertical line.
func lines(title string, x, y axis, curves []curve, mark float64) string {
	s := newSheet(smallW, smallH)
	left := s.legend(curves)
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x.min, x.max, y.min, y.max
	for _, a := range []struct {
		*plot.Axis
		as axis
	}{{&p.X, x}, {&p.Y, y}} {
		a.Axis.Label.Text, a.Axis.Label.TextStyle = a.as.label, sans(11, muted)
		a.Axis.Label.TextStyle.XAlign, a.Axis.Label.TextStyle.YAlign = draw.XCenter, draw.YBottom
		a.Axis.Tick.Marker = plot.ConstantTicks(a.as.ticks)
		a.Axis.Tick.Label = sans(11, muted)
		a.Axis.LineStyle.Color, a.Axis.Tick.LineStyle.Color = muted, muted
		a.Axis.Padding = 4
	}
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XCenter, draw.YTop
	p.Y.Tick.Label.XAlign, p.Y.Tick.Label.YAlign = draw.XRight, draw.YCenter
	p.X.Label.TextStyle.YAlign = draw.YBottom
	p.Y.Label.TextStyle.Rotation = math.Pi / 2
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = rule, rule
	p.Add(grid)
	if !math.IsNaN(mark) {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: mark, Y: y.min}, {X: mark, Y: y.max}}, LineStyle: draw.LineStyle{Color: ink, Width: 0.8, Dashes: []vg.Length{3, 2}}})
	}
	for _, c := range backToFront(curves) {
		if len(c.points) > 1 {
			p.Add(&plotter.Line{XYs: c.points, LineStyle: lineOf(c.series)})
		}
	}
	p.Draw(draw.Crop(s.Canvas, 6, -12, 4, -(smallH - left)))
	return s.svg(title)
}

// backToFront puts the base on top.
func backToFront(curves []curve) []curve {
	out := make([]curve, 0, len(curves))
	for i := len(curves) - 1; i >= 0; i-- {
		out = append(out, curves[i])
	}
	return out
}

// legend writes the names of the curves along the top and returns the y below it.
func (s *sheet) legend(curves []curve) vg.Length {
	st := sans(11, ink)
	x, y := vg.Length(8), s.h-10
	for _, c := range curves {
		w := st.Width(c.name)
		if x+w+34 > s.w && x > 8 {
			x, y = 8, y-16
		}
		s.line(lineOf(c.series), vg.Point{X: x, Y: y}, vg.Point{X: x + 20, Y: y})
		s.say(st, vg.Point{X: x + 25, Y: y}, "left", c.name)
		x += w + 40
	}
	return y - 12
}

// bar is one bar: a name, a value (nil: none), and what is written beside it.
type bar struct {
	name  string
	value *float64
	label string
	ours  bool
}

// bars draws horizontal bars, one below the other.
func bars(title string, list []bar) string {
	const row, left, right = vg.Length(21), vg.Length(92), vg.Length(70)
	s := newSheet(smallW, row*vg.Length(len(list))+12)
	top := 0.0
	for _, b := range list {
		if b.value != nil {
			top = max(top, *b.value)
		}
	}
	for i, b := range list {
		y := s.h - 6 - row*vg.Length(i) - row/2
		fill, words := series(otherColour), sans(11.5, ink)
		if b.ours {
			fill = series(0)
		}
		s.say(words, vg.Point{X: left - 8, Y: y}, "right", b.name)
		end := left
		if b.value != nil && top > 0 {
			end += vg.Length(*b.value/top) * (s.w - left - right)
			s.block(fill, left, y-7, max(end, left+1), y+7)
		}
		s.say(words, vg.Point{X: end + 6, Y: y}, "left", b.label)
	}
	return s.svg(title)
}

// span writes a duration for people.
func span(sec float64) string {
	abs := math.Abs(sec)
	switch {
	case abs < 90:
		return fmt.Sprintf("%.0f s", sec)
	case abs < 90*60:
		return fmt.Sprintf("%.1f min", sec/60)
	case abs < 48*3600:
		return fmt.Sprintf("%.1f h", sec/3600)
	}
	return fmt.Sprintf("%.1f d", sec/86400)
}

// landmarks are durations that people know.
var landmarks = []struct {
	d    time.Duration
	name string
}{{10 * time.Second, "10s"}, {time.Minute, "1m"}, {3 * time.Minute, "3m"}, {10 * time.Minute, "10m"}, {30 * time.Minute, "30m"}, {time.Hour, "1h"},
	{3 * time.Hour, "3h"}, {6 * time.Hour, "6h"}, {12 * time.Hour, "12h"}, {24 * time.Hour, "1d"}, {3 * 24 * time.Hour, "3d"}, {7 * 24 * time.Hour, "1w"},
	{28 * 24 * time.Hour, "4w"}, {365 * 24 * time.Hour, "1y"}}
