package check

import (
	"strings"
)

// Snippet is what to merge into slurm.conf, and the commands to run, as text that slurm.conf could hold: each line with its reason above
// it. It is "" when nothing of that kind is to be changed.
func Snippet(findings []Finding) string {
	var lines, runs strings.Builder
	seen := map[string]bool{}
	for _, f := range findings {
		if f.Severity == OK {
			continue
		}
		for _, w := range f.Want {
			if seen[w] {
				continue
			}
			seen[w] = true
			comment(&lines, f.What)
			if f.Have != "" {
				comment(&lines, "now: "+f.Where+": "+f.Have)
			}
			lines.WriteString(w + "\n\n")
		}
		for _, cmd := range f.Run {
			if seen[cmd] {
				continue
			}
			seen[cmd] = true
			comment(&runs, f.What+":")
			comment(&runs, "  "+cmd)
		}
	}
	if lines.Len() == 0 && runs.Len() == 0 {
		return ""
	}
	var out strings.Builder
	if lines.Len() > 0 {
		comment(&out, "For slurm.conf, in place of lines with the same key. Then: scontrol reconfigure, or a restart where the reason says so.")
		out.WriteString("\n" + lines.String())
	}
	if runs.Len() > 0 {
		comment(&out, "To be run:")
		out.WriteString(runs.String())
	}
	return out.String()
}

// comment writes text as one line of comment: what comes from outside cannot leave it.
func comment(b *strings.Builder, text string) {
	b.WriteString("# " + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text) + "\n")
}
