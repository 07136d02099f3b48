// Package hostlist expands and compresses Slurm's short form of node name
// lists, "n[01-04,7],login". It is pure, bounds what it builds, and refuses
// names that no node can have; the reader of package slurm and the parse
// command call it.
package hostlist

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds on what strangers may make Expand build.
const (
	MaxNames = 65536   // names in one list
	MaxInput = 4 << 20 // bytes of one list
	maxName  = 255     // bytes of one name
	maxDigit = 18      // digits of one number
)

// ErrSyntax is the error of every list that is not well formed, ErrTooMany of
// a list that would pass MaxNames or MaxInput.
var (
	ErrSyntax  = errors.New("hostlist: bad syntax")
	ErrTooMany = errors.New("hostlist: too many names")
)

// Expand writes out a list in Slurm's order, doubles kept. The words that
// Slurm writes for no nodes ("", "(null)", "None", "N/A", "None assigned")
// give an empty list.
func Expand(s string) ([]string, error) {
	if len(s) > MaxInput {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooMany, len(s))
	}
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "", "(null)", "null", "n/a", "none", "none assigned", "(none)":
		return nil, nil
	}
	var names []string
	for start := 0; start <= len(s); {
		end, err := itemEnd(s, start)
		if err != nil {
			return nil, err
		}
		if names, err = expandItem(names, s[start:end]); err != nil {
			return nil, err
		}
		start = end + 1
	}
	return names, nil
}

// itemEnd finds the comma outside brackets that ends the item at start.
func itemEnd(s string, start int) (int, error) {
	open := false
	for i := start; i < len(s); i++ {
		switch s[i] {
		case '[':
			if open {
				return 0, fmt.Errorf("%w: '[' inside brackets at byte %d", ErrSyntax, i)
			}
			open = true
		case ']':
			if !open {
				return 0, fmt.Errorf("%w: ']' without '[' at byte %d", ErrSyntax, i)
			}
			open = false
		case ',':
			if !open {
				return i, nil
			}
		}
	}
	if open {
		return 0, fmt.Errorf("%w: '[' is not closed", ErrSyntax)
	}
	return len(s), nil
}

// part is a literal piece of a name or a bracket's list of numbers.
type part struct {
	literal string
	ranges  []span
}

type span struct {
	lo, hi uint64
	width  int
}

func expandItem(names []string, item string) ([]string, error) {
	parts, total, err := splitItem(item)
	if err != nil {
		return nil, err
	}
	if uint64(len(names))+total > MaxNames {
		return nil, fmt.Errorf("%w: more than %d", ErrTooMany, MaxNames)
	}
	return product(names, "", parts)
}

// splitItem cuts "r[1-2]n[3,5]" into its parts and counts the names.
func splitItem(item string) ([]part, uint64, error) {
	if item == "" {
		return nil, 0, fmt.Errorf("%w: empty name", ErrSyntax)
	}
	var parts []part
	total := uint64(1)
	for item != "" {
		open := strings.IndexByte(item, '[')
		if open != 0 {
			if open < 0 {
				open = len(item)
			}
			if err := checkName(item[:open]); err != nil {
				return nil, 0, err
			}
			parts = append(parts, part{literal: item[:open]})
			item = item[open:]
			continue
		}
		shut := strings.IndexByte(item, ']')
		ranges, n, err := parseRanges(item[1:shut])
		if err != nil {
			return nil, 0, err
		}
		if total *= n; total > MaxNames {
			return nil, 0, fmt.Errorf("%w: more than %d", ErrTooMany, MaxNames)
		}
		parts = append(parts, part{ranges: ranges})
		item = item[shut+1:]
	}
	return parts, total, nil
}

func parseRanges(s string) ([]span, uint64, error) {
	var ranges []span
	total := uint64(0)
	for _, r := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		a, err := number(lo)
		if err != nil {
			return nil, 0, err
		}
		b, err := number(hi)
		if err != nil {
			return nil, 0, err
		}
		if b < a {
			return nil, 0, fmt.Errorf("%w: range %q falls", ErrSyntax, r)
		}
		if total += b - a + 1; total > MaxNames {
			return nil, 0, fmt.Errorf("%w: range %q", ErrTooMany, r)
		}
		ranges = append(ranges, span{lo: a, hi: b, width: len(lo)})
	}
	return ranges, total, nil
}

func number(s string) (uint64, error) {
	if s == "" || len(s) > maxDigit || !allDigits(s) {
		return 0, fmt.Errorf("%w: %q is not a number", ErrSyntax, clip(s))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not a number", ErrSyntax, s)
	}
	return n, nil
}

// product appends prefix joined with every choice of the parts; the last
// bracket runs fastest, as in Slurm.
func product(names []string, prefix string, parts []part) ([]string, error) {
	if len(prefix) > maxName {
		return nil, fmt.Errorf("%w: a name is longer than %d bytes", ErrSyntax, maxName)
	}
	if len(parts) == 0 {
		return append(names, prefix), nil
	}
	var err error
	if parts[0].ranges == nil {
		return product(names, prefix+parts[0].literal, parts[1:])
	}
	for _, r := range parts[0].ranges {
		for n := r.lo; n <= r.hi; n++ {
			if names, err = product(names, prefix+pad(n, r.width), parts[1:]); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

func pad(n uint64, width int) string {
	digits := strconv.FormatUint(n, 10)
	if len(digits) < width {
		digits = strings.Repeat("0", width-len(digits)) + digits
	}
	return digits
}

func checkName(s string) error {
	if len(s) > maxName {
		return fmt.Errorf("%w: a name is longer than %d bytes", ErrSyntax, maxName)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '-' || c == '_' || c == '.'
		if !ok {
			return fmt.Errorf("%w: byte %q in a name", ErrSyntax, c)
		}
	}
	return nil
}

// ValidName says whether s can be one node's name. Names that pass are safe in
// an argument list and in a path element, except for a leading '-' or '.',
// which are refused too.
func ValidName(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && checkName(s) == nil
}

// Compress is the inverse of Expand for valid names: it keeps order and
// doubles, and joins neighbours that differ in their last number only.
func Compress(names []string) string {
	var out strings.Builder
	for i := 0; i < len(names); {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		prefix, digits := splitNumber(names[i])
		end := i + 1
		if digits != "" {
			for end < len(names) {
				p, d := splitNumber(names[end])
				if p != prefix || d == "" {
					break
				}
				end++
			}
		}
		if end == i+1 {
			out.WriteString(names[i])
		} else {
			out.WriteString(prefix + "[" + ranges(names[i:end], len(prefix)) + "]")
		}
		i = end
	}
	return out.String()
}

// ranges joins the numbers behind the common prefix, "1-3,7".
func ranges(names []string, prefix int) string {
	var out []string
	for i := 0; i < len(names); {
		first := names[i][prefix:]
		n, _ := strconv.ParseUint(first, 10, 64)
		end := i + 1
		for end < len(names) && names[end][prefix:] == pad(n+1, len(first)) {
			n++
			end++
		}
		if end == i+1 {
			out = append(out, first)
		} else {
			out = append(out, first+"-"+names[end-1][prefix:])
		}
		i = end
	}
	return strings.Join(out, ",")
}

// splitNumber cuts the digits off the end of a name. More digits than a number
// may have stay part of the prefix.
func splitNumber(name string) (prefix, digits string) {
	i := len(name)
	for i > 0 && len(name)-i < maxDigit-1 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	return name[:i], name[i:]
}

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
