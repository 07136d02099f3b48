// Package gres reads the strings in which Slurm writes generic resources and
// TRES: "gpu:v100:8(S:0-1)", "gres/gpu:3", "cpu=1,mem=62.50G,gres/gpu=4". It is
// pure and bounded, tells whole GPUs from shards, MPS and MIG slices, and
// decides nothing. The reader of package slurm and the parse command call it.
package gres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what strangers may write.
const (
	maxInput   = 64 << 10
	maxEntries = 1024
	maxCount   = int64(1) << 40
	maxIndex   = 4095
)

// ErrSyntax is the error of every string that is not well formed.
var ErrSyntax = errors.New("gres: bad syntax")

// Entry is one generic resource of a node, of a job on a node, or of a
// request.
type Entry struct {
	Name  string // "gpu", "shard", "mps", ...
	Type  string // "" when untyped
	Count int64
	// Indices are the devices of an "(IDX:...)" part, Sockets the sockets of an
	// "(S:...)" part, both rising; nil when the part is missing or "N/A".
	Indices, Sockets []int
}

// GPU says that the entry counts whole GPUs.
func (e Entry) GPU() bool { return e.Name == "gpu" && !e.MIG() }

// MIG says that the entry counts slices of GPUs.
func (e Entry) MIG() bool {
	_, ok := MIGSlices(e.Type)
	return e.Name == "gpu" && ok
}

// Shared says that the entry divides GPUs between jobs: shards, MPS, MIG.
func (e Entry) Shared() bool { return e.Name == "shard" || e.Name == "mps" || e.MIG() }

// Parse reads a comma-separated list. The words that Slurm writes for nothing
// ("", "(null)", "N/A", "none") give an empty list. The prefixes "gres/" and
// "gres:" of request strings are accepted, as is '=' before the count; a
// missing count is 1.
func Parse(s string) ([]Entry, error) {
	if len(s) > maxInput {
		return nil, fmt.Errorf("%w: %d bytes", ErrSyntax, len(s))
	}
	if isNull(s) {
		return nil, nil
	}
	var entries []Entry
	for _, item := range splitOutside(s) {
		if isNull(item) {
			continue
		}
		e, err := parseEntry(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		if entries = append(entries, e); len(entries) > maxEntries {
			return nil, fmt.Errorf("%w: more than %d entries", ErrSyntax, maxEntries)
		}
	}
	return entries, nil
}

func isNull(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "(null)", "null", "n/a", "none", "(none)":
		return true
	}
	return false
}

// splitOutside cuts at the commas outside parentheses.
func splitOutside(s string) []string {
	var items []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				items = append(items, s[start:i])
				start = i + 1
			}
		}
	}
	return append(items, s[start:])
}

func parseEntry(item string) (Entry, error) {
	bad := func(why string) (Entry, error) {
		return Entry{}, fmt.Errorf("%w: %s in %q", ErrSyntax, why, clip(item))
	}
	body := item
	var e Entry
	// Slurm writes "gpu:(null):2(IDX:0-1)" where the type is not set.
	if before, after, ok := strings.Cut(body, ":(null)"); ok {
		body = before + after
	}
	if open := strings.IndexByte(body, '('); open >= 0 {
		detail := body[open:]
		body = body[:open]
		if err := e.readDetail(detail); err != nil {
			return bad(err.Error())
		}
	}
	if rest, ok := strings.CutPrefix(body, "gres/"); ok {
		body = rest
	} else if rest, ok := strings.CutPrefix(body, "gres:"); ok {
		body = rest
	}
	if i := strings.LastIndexByte(body, '='); i >= 0 {
		body = body[:i] + ":" + body[i+1:]
	}
	fields := strings.Split(body, ":")
	e.Name, e.Count = fields[0], 1
	fields = slices.DeleteFunc(fields[1:], func(f string) bool { return f == "no_consume" })
	if n := len(fields); n > 0 {
		if c, err := parseCount(fields[n-1]); err == nil {
			e.Count, fields = c, fields[:n-1]
		} else if startsWithDigit(fields[n-1]) && n > 1 {
			return bad(err.Error())
		}
	}
	switch len(fields) {
	case 0:
	case 1:
		e.Type = fields[0]
		if e.Type == "" || !word(e.Type) {
			return bad("bad type")
		}
	default:
		return bad("too many parts")
	}
	if e.Name == "" || !word(e.Name) {
		return bad("bad name")
	}
	return e, nil
}

// readDetail reads "(S:0-1)" and "(IDX:0-3)"; parts of other kinds, such as a
// shard's "(1/4,0/4)", are skipped.
func (e *Entry) readDetail(s string) error {
	for s != "" {
		end := strings.IndexByte(s, ')')
		if s[0] != '(' || end < 0 {
			return errors.New("bad parentheses")
		}
		inner := s[1:end]
		s = s[end+1:]
		kind, list, _ := strings.Cut(inner, ":")
		var err error
		switch kind {
		case "S":
			e.Sockets, err = parseIndices(list)
		case "IDX":
			e.Indices, err = parseIndices(list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseIndices reads "0-1,4-6"; "" and "N/A" are no indices.
func parseIndices(s string) ([]int, error) {
	if isNull(s) {
		return nil, nil
	}
	var out []int
	for _, r := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || b < a || b > maxIndex {
			return nil, errors.New("bad index list")
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
		if len(out) > 2*maxIndex {
			return nil, errors.New("index list too long")
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseCount reads a count with Slurm's binary suffixes K, M, G, T.
func parseCount(s string) (int64, error) {
	factor := int64(1)
	if s != "" {
		if i := strings.IndexByte("KMGT", s[len(s)-1]&^0x20); i >= 0 {
			factor <<= 10 * (i + 1)
			s = s[:len(s)-1]
		}
	}
	if !startsWithDigit(s) {
		return 0, errors.New("bad count")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxCount/factor {
		return 0, errors.New("bad count")
	}
	return n * factor, nil
}

// MIGSlices reads the number of compute slices out of a MIG type name such as
// "nvidia_h200_nvl_4g.71gb" or "1g.10gb+me". The memory figure differs between
// drivers for the same slice (3g.39gb, 3g.40gb), so only the slices tell
// profiles apart.
func MIGSlices(typ string) (slices int, ok bool) {
	typ = strings.ToLower(typ)
	for i := 0; i < len(typ); i++ {
		if !isDigit(typ[i]) || i > 0 && (isDigit(typ[i-1]) || isLetter(typ[i-1])) {
			continue
		}
		n, rest := cutDigits(typ[i:])
		rest, ok := strings.CutPrefix(rest, "g.")
		if !ok {
			continue
		}
		mem, rest := cutDigits(rest)
		if mem == "" || !strings.HasPrefix(rest, "gb") {
			continue
		}
		rest = rest[2:]
		if rest != "" && isLetter(rest[0]) {
			continue
		}
		v, err := strconv.Atoi(n)
		return v, err == nil
	}
	return 0, false
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && i < 6 && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

func startsWithDigit(s string) bool { return s != "" && isDigit(s[0]) }
func isDigit(c byte) bool           { return c >= '0' && c <= '9' }
func isLetter(c byte) bool          { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func word(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isDigit(c) && !isLetter(c) && !strings.ContainsRune("_-.+/", rune(c)) {
			return false
		}
	}
	return len(s) <= 128
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
