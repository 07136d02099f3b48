package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

// Summary is a page of many tables.
type Summary struct {
	Title, Lead string
	Sections    []Section
}

// Section is a heading with what stands below it. Level 1 is below level 0.
type Section struct {
	Level       int
	Title, Note string
	Table       *Table
}

//go:embed summary.html
var summaryText string

var summaryTemplate = template.Must(template.Must(pageTemplate.Clone()).New("summary").Parse(summaryText))

// HTML is the page, which needs nothing else.
func (s Summary) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := summaryTemplate.Execute(&b, struct {
		Summary
		Style template.CSS
	}{s, Style()})
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return b.Bytes(), nil
}

// Markdown is the table for a document; ratios below 1 are bold.
func (t Table) Markdown() string {
	var b strings.Builder
	plain := strings.NewReplacer("|", `\|`, "\n", " ")
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(t.Head)
	rule := make([]string, len(t.Head))
	for i := range rule {
		if rule[i] = "--:"; i == 0 {
			rule[i] = ":--"
		}
	}
	row(rule)
	for _, l := range t.Rows {
		var out []string
		for _, c := range l.Cells {
			text := plain.Replace(c.Text)
			if c.Below {
				text = "**" + text + "**"
			}
			out = append(out, text)
		}
		row(out)
	}
	return b.String()
}

// Percent, Span, Millis and Hours write figures as the page does; "–" where there is none.
func Percent(v *float64) string { return percent(v) }

// Span writes seconds as people say them.
func Span(v *float64) string { return spanOf(v) }

// Millis writes a time of the solver.
func Millis(v *float64) string { return millis(v) }

// Hours writes GPU-seconds as GPU-hours.
func Hours(sec float64) string { return hours(sec) }
