package replay

import (
	"testing"
	"time"
)

func TestBetween(t *testing.T) {
	r := Records{files: []string{"/a/20261201T120000.000Z-p1.json", "/b/20261201T120500.000Z-p2.json", "/b/20261201T121000.000Z-p3.json", "/b/notes.json", "/b/2026120aT121000.000Z-p4.json"}}
	at := func(m int) time.Time { return time.Date(2026, 12, 1, 12, m, 0, 0, time.UTC) }
	for _, tt := range []struct{ from, until, want int }{{0, 10, 3}, {1, 9, 1}, {5, 5, 1}, {11, 20, 0}} {
		if got := r.Between(at(tt.from), at(tt.until)).Len(); got != tt.want {
			t.Errorf("from %d to %d: %d rounds, want %d", tt.from, tt.until, got, tt.want)
		}
	}
}
