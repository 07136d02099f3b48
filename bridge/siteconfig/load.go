package siteconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Bounds on what is read.
const (
	maxFileBytes = 1 << 20
	maxFiles     = 64
)

// Fault is one mistake in a file.
type Fault struct {
	File string
	Line int    // 0 when not known
	Key  string // "bridge.unit", "" for a mistake of syntax
	Err  error
}

func (f Fault) Error() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Key != "" {
		where += ": " + f.Key
	}
	return where + ": " + f.Err.Error()
}

func (f Fault) Unwrap() error { return f.Err }

// ErrUnknownKey is wrapped by the fault of a key that does not exist.
var ErrUnknownKey = errors.New("unknown key")

// Setting is one key with its value and where the value comes from.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as TOML
	From  string `json:"from"`  // "default" or file:line
}

// File is one configuration file already read.
type File struct {
	Name string
	Text []byte
}

// Load reads the file and the *.toml of conf.d beside it. Its error joins every fault found.
func Load(path string) (Site, []Setting, error) {
	files, err := read(path)
	if err != nil {
		return Defaults(), nil, err
	}
	return Parse(files...)
}

func read(path string) ([]File, error) {
	names := []string{path}
	more, err := os.ReadDir(filepath.Join(filepath.Dir(path), "conf.d"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	for _, e := range more { // ReadDir sorts by name
		if strings.HasSuffix(e.Name(), ".toml") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(filepath.Dir(path), "conf.d", e.Name()))
		}
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("configuration: %d files, at most %d", len(names), maxFiles)
	}
	files := make([]File, len(names))
	for i, name := range names {
		text, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		files[i] = File{name, text}
	}
	return files, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxFileBytes)
	}
	return b, err
}

// Parse merges the files over the defaults, later ones over earlier ones key by key, and validates the result. The site returned with
// an error holds what could be read.
func Parse(files ...File) (Site, []Setting, error) {
	site := Defaults()
	from := map[string]string{}
	var errs []error
	for _, f := range files {
		for _, fault := range apply(&site, f, from) {
			errs = append(errs, fault)
		}
	}
	if len(errs) == 0 { // faults of the values together would only repeat the faults of single keys
		if err := site.Validate(); err != nil {
			for _, e := range split(err) {
				errs = append(errs, Fault{File: files[0].Name, Err: e})
			}
		}
	}
	settings := make([]Setting, len(fields))
	for i, fd := range fields {
		settings[i] = Setting{fd.key, fd.get(&site), "default"}
		if w, ok := from[fd.key]; ok {
			settings[i].From = w
		}
	}
	return site, append(settings, grantSettings(&site, from)...), errors.Join(errs...)
}

func apply(site *Site, f File, from map[string]string) []Fault {
	var tree map[string]any
	if _, err := toml.Decode(string(f.Text), &tree); err != nil {
		fault := Fault{File: f.Name, Err: err}
		if p, ok := errors.AsType[toml.ParseError](err); ok {
			fault.Line, fault.Err = p.Position.Line, errors.New(p.Message)
		}
		return []Fault{fault}
	}
	values := map[string]any{}
	flatten(values, "", tree)
	lines := keyLines(f.Text)
	var faults []Fault
	for _, fd := range fields {
		v, ok := values[fd.key]
		if !ok {
			continue
		}
		delete(values, fd.key)
		if err := fd.set(site, v); err != nil {
			faults = append(faults, Fault{f.Name, lines[fd.key], fd.key, err})
		}
		from[fd.key] = fmt.Sprintf("%s:%d", f.Name, lines[fd.key])
	}
	faults = append(faults, applyGrants(site, f, values, lines, from)...)
	for key := range values {
		err := ErrUnknownKey
		if near := cmp.Or(nearestGrant(key), nearest(key)); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		faults = append(faults, Fault{f.Name, lines[key], key, err})
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Key, b.Key)
	})
	return faults
}

// flatten turns tables into dotted keys. A table of unknown name without keys is kept under its own name.
func flatten(into map[string]any, prefix string, tree map[string]any) {
	for k, v := range tree {
		key := prefix + k
		t, ok := v.(map[string]any)
		if ok && (len(t) > 0 || isSection(key)) {
			flatten(into, key+".", t)
			continue
		}
		into[key] = v
	}
}

func isSection(name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return strings.HasPrefix(f.key, name+".") })
}

// keyLines finds the line on which each dotted key is set. It only serves messages: the text was parsed already, and a key that this
// simple scan does not find is reported without its line.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	table := ""
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
			name, _, ok := strings.Cut(strings.Trim(line, "["), "]")
			if ok && !strings.ContainsAny(name, ",'\"") {
				table = strings.TrimSpace(name) + "."
				setOnce(lines, strings.TrimSpace(name), i+1)
			}
			continue
		}
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			key = strings.Trim(strings.TrimSpace(key), `"'`)
			setOnce(lines, table+key, i+1)
		}
	}
	return lines
}

func setOnce(m map[string]int, k string, v int) {
	if _, ok := m[k]; !ok {
		m[k] = v
	}
}

// nearest is the known key that differs least, "" when none is close.
func nearest(key string) string {
	best, bestD := "", 3
	for _, f := range fields {
		if _, leaf, _ := strings.Cut(f.key, "."); leaf == key[strings.LastIndexByte(key, '.')+1:] {
			return f.key // right word, wrong table
		}
		if d := distance(key, f.key); d < bestD {
			best, bestD = f.key, d
		}
	}
	return best
}

// distance is Levenshtein's, of strings that are short by construction; long ones count as far.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
