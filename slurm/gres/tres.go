package gres

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// TypeCount is a number of GPUs of one type.
type TypeCount struct {
	Type  string
	Count int64
}

// TRES is a set of trackable resources, "cpu=1,mem=62.50G,node=1,gres/gpu=4".
type TRES struct {
	CPUs, Nodes, Billing int64
	MemMB                int64 // MiB
	// GPUs is the untyped count where there is one, else the sum of the typed
	// ones: Slurm writes the same GPUs under both names.
	GPUs   int64
	ByType []TypeCount // by type, whole GPUs only
	// Shared says that shards, MPS or MIG slices are counted too.
	Shared bool
}

// Type is the only GPU type named, "" when none or several are.
func (t TRES) Type() string {
	if len(t.ByType) == 1 {
		return t.ByType[0].Type
	}
	return ""
}

// ParseTRES reads a TRES string. Kinds that are not asked about here (energy,
// licences, gres/gpumem) are skipped; a broken value is an error.
func ParseTRES(s string) (TRES, error) {
	var t TRES
	if len(s) > maxInput {
		return t, fmt.Errorf("%w: %d bytes", ErrSyntax, len(s))
	}
	if isNull(s) {
		return t, nil
	}
	untyped, typed := int64(-1), int64(0)
	for _, item := range strings.Split(s, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok || key == "" {
			return TRES{}, fmt.Errorf("%w: %q has no value", ErrSyntax, clip(item))
		}
		var err error
		switch {
		case key == "cpu":
			t.CPUs, err = parseCount(value)
		case key == "node":
			t.Nodes, err = parseCount(value)
		case key == "billing":
			t.Billing, err = parseRounded(value)
		case key == "mem":
			t.MemMB, err = ParseMemMB(value)
		case key == "gres/gpu":
			untyped, err = parseCount(value)
		case strings.HasPrefix(key, "gres/gpu:"):
			var n int64
			if n, err = parseCount(value); err == nil {
				typed += t.addTyped(key[len("gres/gpu:"):], n)
			}
		case strings.HasPrefix(key, "gres/shard"), strings.HasPrefix(key, "gres/mps"):
			t.Shared = true
		}
		if err != nil {
			return TRES{}, fmt.Errorf("%w: %q: %w", ErrSyntax, clip(item), err)
		}
	}
	if t.GPUs = typed; untyped >= 0 {
		t.GPUs = untyped
	}
	slices.SortFunc(t.ByType, func(a, b TypeCount) int { return strings.Compare(a.Type, b.Type) })
	return t, nil
}

// addTyped counts one typed entry and returns what it adds to the typed sum.
func (t *TRES) addTyped(typ string, n int64) int64 {
	if _, mig := MIGSlices(typ); mig {
		t.Shared = true
		return n
	}
	if n > 0 {
		t.ByType = append(t.ByType, TypeCount{Type: typ, Count: n})
	}
	return n
}

// ParseMemMB reads "62.50G", "512M", "1T" or a bare number of MiB, rounded to
// the nearest MiB.
func ParseMemMB(s string) (int64, error) {
	factor := 1.0
	if s != "" {
		switch s[len(s)-1] &^ 0x20 {
		case 'K':
			factor, s = 1.0/1024, s[:len(s)-1]
		case 'M':
			s = s[:len(s)-1]
		case 'G':
			factor, s = 1<<10, s[:len(s)-1]
		case 'T':
			factor, s = 1<<20, s[:len(s)-1]
		case 'P':
			factor, s = 1<<30, s[:len(s)-1]
		}
	}
	return scaled(s, factor)
}

func parseRounded(s string) (int64, error) {
	if n, err := parseCount(s); err == nil {
		return n, nil
	}
	return scaled(s, 1)
}

func scaled(s string, factor float64) (int64, error) {
	if !startsWithDigit(s) {
		return 0, fmt.Errorf("bad number %q", clip(s))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f*factor > float64(maxCount) {
		return 0, fmt.Errorf("bad number %q", clip(s))
	}
	return int64(math.Round(f * factor)), nil
}
