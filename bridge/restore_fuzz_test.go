package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"unisched/bridge/journal"
	"unisched/planner/lease"
	"unisched/slurm/slurmsim"
)

// kept is a journal in memory.
type kept struct{ entries []journal.Entry }

func (k *kept) Append(entries ...journal.Entry) error {
	for _, e := range entries {
		e, err := e.Encoded()
		if err != nil {
			return err
		}
		k.entries = append(k.entries, e)
	}
	return nil
}

func (k *kept) Compact(entries []journal.Entry) error {
	k.entries = nil
	return k.Append(entries...)
}

func (k *kept) Size() int64 { return 0 }

// FuzzRestore: whatever a journal holds under the kinds that are read, New takes it or says what is wrong. What it takes is the same when it is written and
// read again, the daemon works with it for two cycles, and gives back what it knows of; nothing panics.
func FuzzRestore(f *testing.F) {
	at := time.Unix(1_800_000_000, 0).UTC()
	world := func() *slurmsim.Cluster {
		sim := slurmsim.New(slurmsim.Config{}, slurmsim.Nodes(2, 4), slurmsim.Partition{Name: "gpu"})
		for _, comment := range []string{"unisched:ckpt=B:USR1,stop=iters:600", "", "unisched:class=strict,deadline=now+2h,profile=skip,stop=iters:600"} {
			sim.Submit(slurmsim.Submission{Name: "job", User: "ann", UID: 1001, GPUsPerNode: 2, Nodes: 1, TimeLimit: time.Hour, Comment: comment, Body: slurmsim.Body{Iterations: 600}})
		}
		sim.Advance(sim.Now().Add(time.Minute))
		return sim
	}
	// What a real journal holds after some time.
	sim, mem := world(), &kept{}
	cfg := Defaults()
	cfg.Stage = StageStrict
	b, err := New(cfg, Parts{Cluster: sim, Memory: mem, Policy: lease.New(lease.Config{}, nil), Reports: sim.Reports}, Restored{})
	if err != nil {
		f.Fatal(err)
	}
	for range 30 {
		sim.Advance(sim.Now().Add(cfg.Poll))
		if err := b.Step(context.Background(), sim.Now()); err != nil {
			f.Fatal(err)
		}
	}
	if err := b.compact(sim.Now()); err != nil {
		f.Fatal(err)
	}
	for _, e := range mem.entries {
		f.Add(e.Kind, e.Key, []byte(e.Data))
	}
	f.Add("job", "1", []byte(`{"job":1,"phase":"waiting","changed":{"hold":true}}`))
	f.Add("paused", "paused", []byte(`true`))
	f.Add("budget", "ann", []byte(`[{}]`))
	f.Add("standstill", "1", []byte(`{"gpu":{"why":"x","until":"9999-01-01T00:00:00Z","active":true,"lost":-1}}`))
	f.Add("limit", "1", []byte(`{"job":1,"reason":"AssocGrpGRES","until":"9999-01-01T00:00:00Z","held":{"jobs":-1}}`))
	f.Fuzz(func(t *testing.T, kind, key string, data []byte) {
		taken := func(entries []journal.Entry, sim *slurmsim.Cluster) (*Bridge, *kept) {
			mem := &kept{}
			b, err := New(cfg, Parts{Cluster: sim, Memory: mem, Policy: lease.New(lease.Config{}, nil)}, Restored{Entries: entries})
			if err != nil {
				return nil, nil
			}
			return b, mem
		}
		entries := []journal.Entry{{Kind: kind, Key: key, At: at, Data: data}}
		sim := world()
		b, first := taken(entries, sim)
		if b == nil {
			return
		}
		if b.compact(at) != nil {
			return // a value that JSON cannot hold is told
		}
		again, second := taken(first.entries, sim)
		if again == nil || again.compact(at) != nil {
			t.Fatal("what was written cannot be read")
		}
		for i := range first.entries {
			if i >= len(second.entries) || first.entries[i].Key != second.entries[i].Key || !bytes.Equal(first.entries[i].Data, second.entries[i].Data) {
				t.Fatalf("%s\nbecame\n%s", asJSON(first.entries), asJSON(second.entries))
			}
		}
		for range 2 {
			sim.Advance(sim.Now().Add(cfg.Poll))
			_ = b.Step(context.Background(), sim.Now())
		}
		if b.View() == nil {
			t.Error("a bridge without a view")
		}
		_, _ = ReleaseDead(context.Background(), cfg, sim, &kept{}, entries, sim.Now())
	})
}

func asJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
