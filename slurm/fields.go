package slurm

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"unisched/slurm/hostlist"
)

// raw is one field of an answer, not yet understood. A missing field is empty.
type raw = json.RawMessage

// Slurm's marks in plain numbers: not set, and without limit.
const (
	noVal32, infinite32 = 0xfffffffe, 0xffffffff
)

// maxItems bounds the lists inside one record.
const maxItems = 1 << 16

// record collects what could not be understood while one record is read. Its
// methods never fail: they return the zero value and note the field's name.
type record struct {
	odd []string
}

func (r *record) note(name string) {
	if !slices.Contains(r.odd, name) && len(r.odd) < 64 {
		r.odd = append(r.odd, name)
	}
}

// notes are the noted names, sorted.
func (r *record) notes() []string {
	slices.Sort(r.odd)
	return r.odd
}

func absent(f raw) bool {
	return len(f) == 0 || bytes.Equal(f, []byte("null"))
}

// emptyBox says that the field is {} or [], which some releases write where
// others write a string or nothing.
func emptyBox(f raw) bool {
	if len(f) < 2 || f[0] != '{' && f[0] != '[' {
		return false
	}
	return len(bytes.TrimSpace(f[1:len(f)-1])) == 0
}

// count is a number that Slurm may leave unset or without limit.
type count struct {
	n             int64
	set, infinite bool
}

// number reads 5, 5.0, "5", and {set, infinite, number}, where infinite wins.
func (r *record) number(name string, f raw) count {
	c, ok := readNumber(f)
	if !ok {
		r.note(name)
	}
	return c
}

func readNumber(f raw) (count, bool) {
	if absent(f) {
		return count{}, true
	}
	switch f[0] {
	case '{':
		box, ok := flatBox(f)
		if !ok && json.Unmarshal(f, &box) != nil || absent(box.Set) && absent(box.Infinite) && absent(box.Number) {
			return count{}, false
		}
		if isTrue(box.Infinite) {
			return count{infinite: true}, true
		}
		if !absent(box.Set) && !isTrue(box.Set) {
			return count{}, true
		}
		if !absent(box.Number) && box.Number[0] == '{' {
			return count{}, false
		}
		return readNumber(box.Number)
	case '"':
		var s string
		if json.Unmarshal(f, &s) != nil {
			return count{}, false
		}
		switch strings.ToUpper(strings.TrimSpace(s)) {
		case "", "N/A", "(NULL)", "NONE", "NOT_SET", "UNKNOWN":
			return count{}, true
		case "INFINITE", "UNLIMITED":
			return count{infinite: true}, true
		}
		return plainNumber(strings.TrimSpace(s))
	}
	return plainNumber(string(f))
}

// numberBox is Slurm's form of a number that may be unset or without limit.
type numberBox struct{ Set, Infinite, Number raw }

// flatBox reads the usual form without the general decoder, which a list of
// thousands of jobs would spend most of its time in. ok is false for any other
// form.
func flatBox(f raw) (box numberBox, ok bool) {
	rest := bytes.TrimSpace(f[1 : len(f)-1])
	for len(rest) > 0 {
		member, after, more := bytes.Cut(rest, []byte{','})
		key, value, _ := bytes.Cut(member, []byte{':'})
		value = bytes.TrimSpace(value)
		if len(value) == 0 || bytes.ContainsAny(value, "\"{[") {
			return numberBox{}, false
		}
		switch string(bytes.TrimSpace(key)) {
		case `"set"`:
			box.Set = value
		case `"infinite"`:
			box.Infinite = value
		case `"number"`:
			box.Number = value
		default:
			return numberBox{}, false
		}
		if rest = bytes.TrimSpace(after); more && len(rest) == 0 {
			return numberBox{}, false
		}
	}
	return box, true
}

func plainNumber(s string) (count, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			switch u {
			case math.MaxUint64:
				return count{infinite: true}, true
			case math.MaxUint64 - 1:
				return count{}, true
			}
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || math.Abs(x) > 1<<53 {
			return count{}, false
		}
		n = int64(math.Round(x))
	}
	switch n {
	case infinite32:
		return count{infinite: true}, true
	case noVal32:
		return count{}, true
	}
	return count{n: n, set: true}, true
}

func isTrue(f raw) bool {
	return bytes.Equal(f, []byte("true")) || bytes.Equal(f, []byte("1")) || bytes.Equal(f, []byte(`"true"`))
}

// integer is a number of which only a plain value makes sense; unset is 0.
func (r *record) integer(name string, f raw) int64 { return r.number(name, f).n }

// small is an integer that fits the ranges of counts; others are noted.
func (r *record) small(name string, f raw) int {
	n := r.number(name, f).n
	if n < 0 || n > math.MaxInt32 {
		r.note(name)
		return 0
	}
	return int(n)
}

// instant is a Unix time; 0, unset and infinite are the zero time.
func (r *record) instant(name string, f raw) time.Time {
	c := r.number(name, f)
	if c.n == 0 {
		return time.Time{}
	}
	if c.n < 0 || c.n > 1<<37 {
		r.note(name)
		return time.Time{}
	}
	return time.Unix(c.n, 0).UTC()
}

// minutes is a limit; unlimited is told apart from unset.
func (r *record) minutes(name string, f raw) (d time.Duration, unlimited bool) {
	c := r.number(name, f)
	if c.n < 0 || c.n > 1<<32 {
		r.note(name)
		return 0, false
	}
	return time.Duration(c.n) * time.Minute, c.infinite
}

func (r *record) boolean(name string, f raw) bool {
	if absent(f) {
		return false
	}
	switch strings.ToLower(strings.Trim(string(f), `"`)) {
	case "true", "yes", "1":
		return true
	case "false", "no", "0", "":
		return false
	}
	c, ok := readNumber(f)
	if !ok {
		r.note(name)
	}
	return c.set && c.n != 0
}

// text reads a string, or a list of strings joined by commas. Bytes that are
// not UTF-8 become the replacement character; "(null)" is empty.
func (r *record) text(name string, f raw) string {
	if absent(f) || emptyBox(f) {
		return ""
	}
	var s string
	switch f[0] {
	case '"':
		if plain := f[1 : len(f)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
			s = string(plain)
		} else if json.Unmarshal(f, &s) != nil {
			r.note(name)
		}
	case '[':
		s = strings.Join(r.list(name, f), ",")
	default:
		if c, ok := readNumber(f); ok && c.set {
			return strconv.FormatInt(c.n, 10)
		}
		r.note(name)
	}
	if s == "(null)" {
		return ""
	}
	return s
}

// list reads a list of strings, or one string cut at its commas.
func (r *record) list(name string, f raw) []string {
	if absent(f) || emptyBox(f) {
		return nil
	}
	switch f[0] {
	case '"':
		s := r.text(name, f)
		if s == "" {
			return nil
		}
		return strings.Split(s, ",")
	case '[':
		var items []raw
		if json.Unmarshal(f, &items) != nil || len(items) > maxItems {
			r.note(name)
			return nil
		}
		var out []string
		for _, item := range items {
			if len(item) > 0 && (item[0] == '[' || item[0] == '{') {
				r.note(name)
				continue
			}
			out = append(out, r.text(name, item))
		}
		return out
	}
	r.note(name)
	return nil
}

// words is a sorted list without doubles and empty words.
func (r *record) words(name string, f raw) []string {
	return sortedSet(r.list(name, f))
}

func sortedSet(words []string) []string {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	slices.Sort(words)
	if words = slices.Compact(words); len(words) == 0 {
		return nil
	}
	return words
}

// hosts reads a host list, a list of host lists, or an object that holds one
// under "list" or "nodes".
func (r *record) hosts(name string, f raw) []string {
	if absent(f) || emptyBox(f) {
		return nil
	}
	s := ""
	switch f[0] {
	case '{':
		var box struct{ List, Nodes raw }
		if json.Unmarshal(f, &box) != nil || absent(box.List) && absent(box.Nodes) {
			r.note(name)
			return nil
		}
		if absent(box.List) {
			box.List = box.Nodes
		}
		if len(box.List) > 0 && box.List[0] == '{' {
			r.note(name)
			return nil
		}
		return r.hosts(name, box.List)
	default:
		s = r.text(name, f)
	}
	names, err := hostlist.Expand(s)
	if err != nil {
		r.note(name)
		return nil
	}
	return names
}

// dig walks down objects; anything else on the way gives a missing field.
func dig(f raw, path ...string) raw {
	for _, key := range path {
		if absent(f) || f[0] != '{' {
			return nil
		}
		var box map[string]raw
		if json.Unmarshal(f, &box) != nil {
			return nil
		}
		f = box[key]
	}
	return f
}
