package comment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// moment reads a deadline: RFC 3339, a local time of the site, or now+6h from
// the first submission.
func moment(v string, c Context) (time.Time, *problem) {
	at, p := readMoment(v, c)
	if p != nil {
		return time.Time{}, p
	}
	at = at.In(c.Zone)
	if !at.After(c.Now) {
		return time.Time{}, &problem{reason: instant(at) + " is in the past"}
	}
	if at.Sub(c.Now) > maxAhead {
		return time.Time{}, &problem{reason: "is more than ten years ahead"}
	}
	return at, nil
}

func readMoment(v string, c Context) (time.Time, *problem) {
	if rest, ok := strings.CutPrefix(v, "now+"); ok {
		d, p := duration(rest, maxAhead)
		if p != nil {
			p.at += len("now+")
			return time.Time{}, p
		}
		return c.First.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if wall, err := time.Parse(layout, v); err == nil {
			return local(wall, c.Zone)
		}
	}
	return time.Time{}, &problem{reason: quote(v) + " is no time", suggest: "2026-12-01T18:00 or now+6h"}
}

// local finds the instant at which the zone's clocks show the wall time. When
// they show it twice the earlier one counts, so that a deadline is never later
// than its writer meant; a time that the clocks skip is an error.
func local(wall time.Time, zone *time.Location) (time.Time, *problem) {
	var found time.Time
	for _, near := range []time.Duration{-36 * time.Hour, 36 * time.Hour} {
		_, offset := wall.Add(near).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		_, seen := t.Zone()
		if seen == offset && (found.IsZero() || t.Before(found)) {
			found = t
		}
	}
	if found.IsZero() {
		return time.Time{}, &problem{reason: fmt.Sprintf("%s does not exist in %s: the clocks are put forward then",
			wall.Format("2006-01-02T15:04:05"), zone)}
	}
	return found, nil
}

// duration reads whole numbers with the units d, h, m, s in that order: "6h",
// "1d12h". It is above 0 and at most most.
func duration(v string, most time.Duration) (time.Duration, *problem) {
	bad := func(at int) (time.Duration, *problem) {
		return 0, &problem{at: at, reason: quote(v) + " is no duration above 0s and up to " + days(most), suggest: "40s, 90m, 6h or 2d"}
	}
	units := []struct {
		letter byte
		length time.Duration
	}{{'d', 24 * time.Hour}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}
	var sum time.Duration
	for at := 0; at < len(v); {
		end := at
		for end < len(v) && v[end] >= '0' && v[end] <= '9' {
			end++
		}
		n, err := strconv.ParseInt(v[at:end], 10, 64)
		if err != nil || end == len(v) {
			return bad(at)
		}
		for len(units) > 0 && units[0].letter != v[end] {
			units = units[1:]
		}
		if len(units) == 0 {
			return bad(end)
		}
		if n > int64(most/units[0].length) {
			return bad(at)
		}
		if sum += time.Duration(n) * units[0].length; sum > most {
			return bad(at)
		}
		units = units[1:]
		at = end + 1
	}
	if sum <= 0 {
		return bad(0)
	}
	return sum, nil
}

func days(d time.Duration) string { return fmt.Sprintf("%dd", d/(24*time.Hour)) }
