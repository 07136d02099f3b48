package main

import (
	"fmt"
	"slices"
	"strings"

	"unisched/bridge/siteconfig"
)

const head = `# Configuration

<!-- Written by "go run ./contrib/configdoc >docs/configuration.md" from etc/unisched.toml and bridge/siteconfig: change those. -->

The daemon and the command line read ` + "`/etc/unisched/unisched.toml`" + ` (or ` + "`--config`, `$UNISCHED_CONFIG`" + `).

    unisched config validate     # every fault, with its line
    unisched config show         # what is in force, and which file said so

`

// row is one line of a table: keys that share a comment.
type row struct {
	keys    []siteconfig.Key
	meaning string
}

// reader goes through the commented file line by line.
type reader struct {
	out     strings.Builder
	known   map[string]siteconfig.Key
	seen    map[string]bool
	section string
	about   []string // comment lines that wait for what they describe
	rows    []row
	intro   bool // the first comment has been written
}

// page turns the commented file into the page. A key that only one of the two sources has is an error.
func page(text []byte, keys []siteconfig.Key) ([]byte, error) {
	r := reader{known: map[string]siteconfig.Key{}, seen: map[string]bool{}}
	for _, k := range keys {
		r.known[k.Name] = k
	}
	r.out.WriteString(head)
	for i, line := range strings.Split(string(text), "\n") {
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	r.flush()
	for _, k := range keys {
		if k.Default != "" && !r.seen[k.Name] {
			return nil, fmt.Errorf("%s is not in the file", k.Name)
		}
	}
	r.granted(keys)
	return []byte(r.out.String()), nil
}

func (r *reader) line(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		r.about = append(r.about, strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
	case line == "":
		r.loose()
	case strings.HasPrefix(line, "["):
		about := r.about
		r.flush()
		r.section = strings.Trim(line, "[]")
		fmt.Fprintf(&r.out, "## [%s]\n\n", r.section)
		if len(about) > 0 {
			fmt.Fprintf(&r.out, "%s\n\n", strings.Join(about, " "))
		}
	default:
		name, _, _ := strings.Cut(line, " ")
		k, ok := r.known[r.section+"."+name]
		if !ok {
			return fmt.Errorf("%s.%s is no key", r.section, name)
		}
		r.seen[k.Name] = true
		if len(r.about) > 0 || len(r.rows) == 0 {
			r.rows = append(r.rows, row{meaning: strings.Join(r.about, " ")})
			r.about = nil
		}
		last := &r.rows[len(r.rows)-1]
		last.keys = append(last.keys, k)
	}
	return nil
}

// loose writes a comment that belongs to no key: the file's first one, and that of tables that the file only shows as an example.
func (r *reader) loose() {
	about := r.about
	if len(about) == 0 {
		return
	}
	r.about = nil
	if !r.intro {
		r.intro = true
		fmt.Fprintf(&r.out, "%s\n\n", strings.Join(strings.Fields(strings.Join(about[1:], " ")), " "))
		return
	}
	r.flush()
	r.out.WriteString("## [accounts.NAME] and [qos.NAME]\n\n")
	for _, l := range about {
		if strings.HasPrefix(l, "  ") {
			l = "  " + l
		}
		r.out.WriteString(l + "\n")
	}
	r.out.WriteString("\n")
}

// flush writes the table of the section that ends.
func (r *reader) flush() {
	r.about = nil
	if len(r.rows) == 0 {
		return
	}
	r.out.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
	for _, w := range r.rows {
		var names, kinds, defaults []string
		for _, k := range w.keys {
			_, leaf, _ := strings.Cut(k.Name, ".")
			names, defaults = append(names, "`"+leaf+"`"), append(defaults, "`"+k.Default+"`")
			kinds = append(kinds, k.Kind)
		}
		if slices.Equal(kinds, slices.Repeat(kinds[:1], len(kinds))) { // said once
			kinds = kinds[:1]
		}
		fmt.Fprintf(&r.out, "| %s | %s | %s | %s |\n", strings.Join(names, "<br>"), strings.Join(kinds, "<br>"), cell(strings.Join(defaults, "<br>")), cell(w.meaning))
	}
	r.out.WriteString("\n")
	r.rows = nil
}

// granted lists the keys of the tables whose names are the site's own.
func (r *reader) granted(keys []siteconfig.Key) {
	r.out.WriteString("## Keys of [accounts.NAME] and [qos.NAME]\n\n| key | type |\n|---|---|\n")
	for _, k := range keys {
		if k.Default == "" {
			fmt.Fprintf(&r.out, "| `%s` | %s |\n", k.Name, k.Kind)
		}
	}
}

// cell keeps text within one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
