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
	f.Add("standstill", []byte(`{"gpu":{"why":"x","until":"9999-01-01T00:00:00Z","active":true,"lost":-1}}`))
	f.Add("limit", []byte(`{"job":1,"reason":"AssocGrpGRES","until":"9999-01-01T00:00:00Z","held":{"jobs":-1}}`))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		cfg := Defaults()
		b, err := New(cfg, Parts{}, Restored{Entries: []journal.Entry{{Kind: kind, Key: "1", At: time.Unix(1_800_000_000, 0), Data: data}}})
		if err == nil && b.View() == nil {
			t.Error("a bridge without a view")
		}
	})
}
