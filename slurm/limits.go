package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDays bounds what ParseLimit reads.
const maxDays = 36600

// ParseLimit reads a time limit as Slurm's commands write and take it: minutes,
// minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], or a
// word for no limit.
func ParseLimit(s string) (d time.Duration, unlimited bool, err error) {
	bad := func() (time.Duration, bool, error) {
		return 0, false, fmt.Errorf("slurm: %.40q is no time limit", s)
	}
	switch strings.ToUpper(s) {
	case "UNLIMITED", "INFINITE":
		return 0, true, nil
	}
	days, clock, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, clock = "0", s
	}
	parts := strings.Split(clock, ":")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	switch {
	case len(parts) > 3:
		return bad()
	case !hasDays && len(parts) < 3:
		units = units[1:] // a bare number is minutes
	}
	n, ok := digits(days, maxDays)
	if !ok {
		return bad()
	}
	d = time.Duration(n) * 24 * time.Hour
	for i, p := range parts {
		if n, ok = digits(p, maxDays*24*60); !ok {
			return bad()
		}
		d += time.Duration(n) * units[i]
	}
	return d, false, nil
}

func digits(s string, most int64) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= most
}

// ParseTime reads a time as Slurm's commands print it, in the given zone. The
// words for no time ("Unknown", "N/A", "None") give the zero time.
func ParseTime(s string, zone *time.Location) (time.Time, error) {
	switch strings.ToUpper(s) {
	case "", "UNKNOWN", "N/A", "NONE", "(NULL)", "INVALID":
		return time.Time{}, nil
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", s, zone); err == nil {
		return t, nil
	}
	if n, ok := digits(s, 1<<37); ok {
		return time.Unix(n, 0).In(zone), nil
	}
	return time.Time{}, fmt.Errorf("slurm: %.40q is no time", s)
}
