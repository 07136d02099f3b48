package bridge

import (
	"testing"
	"time"

	"unisched/bridge/journal"
)

// FuzzRestore: whatever a journal holds under the kinds that are read, New takes it or says what is wrong, and never panics.
func FuzzRestore(f *testing.F) {
	f.Add("job", []byte(`{"job":1,"phase":"waiting","changed":{"hold":true}}`))
	f.Add("paused", []byte(`true`))
	f.Add("past", []byte(`{}`))
	f.Add("fabric", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		cfg := Defaults()
		b, err := New(cfg, Parts{}, Restored{Entries: []journal.Entry{{Kind: kind, Key: "1", At: time.Unix(1_800_000_000, 0), Data: data}}})
		if err == nil && b.View() == nil {
			t.Error("a bridge without a view")
		}
	})
}
