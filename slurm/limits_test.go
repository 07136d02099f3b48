package slurm

import (
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"60": time.Hour, "0": 0, "60:30": time.Hour + 30*time.Second, "1:02:03": time.Hour + 2*time.Minute + 3*time.Second,
		"2-0": 48 * time.Hour, "2-12": 60 * time.Hour, "1-02:03": 26*time.Hour + 3*time.Minute,
		"1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second, "30-00:00:00": 720 * time.Hour,
	} {
		if got, unlimited, err := ParseLimit(in); got != want || unlimited || err != nil {
			t.Errorf("%s: %v, %v, %v", in, got, unlimited, err)
		}
	}
	for _, in := range []string{"UNLIMITED", "infinite"} {
		if got, unlimited, err := ParseLimit(in); got != 0 || !unlimited || err != nil {
			t.Errorf("%s: %v, %v, %v", in, got, unlimited, err)
		}
	}
	for _, in := range []string{"", "x", "-5", "1:2:3:4", "1-", "-1:00", "1-2-3", "99999999999999999999", "+5", "1 2", "Partition_Limit", "40000-0"} {
		if got, unlimited, err := ParseLimit(in); err == nil {
			t.Errorf("%q: %v, %v", in, got, unlimited)
		}
	}
}

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("X", 3600)
	for in, want := range map[string]time.Time{
		"2026-12-01T18:00:00": time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC), "1795964676": time.Unix(1795964676, 0),
		"Unknown": {}, "N/A": {}, "": {}, "None": {}, "(null)": {},
	} {
		if got, err := ParseTime(in, zone); !got.Equal(want) || err != nil {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"tomorrow", "2026-13-01T00:00:00", "-5", "2026-12-01"} {
		if got, err := ParseTime(in, zone); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add("1-02:03:04")
	f.Fuzz(func(t *testing.T, s string) {
		if d, _, err := ParseLimit(s); d < 0 || err != nil && d != 0 {
			t.Fatal(d, err)
		}
		ParseTime(s, time.UTC)
	})
}
