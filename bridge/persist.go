package bridge

import (
	"encoding/json"
	"fmt"
	"time"

	"unisched/bridge/journal"
)

// compactAt is the size of the journal at which it is written anew.
const compactAt = 32 << 20

// persist writes what changed since the last call, in one synced append.
func (b *Bridge) persist(now time.Time) error {
	entries := b.audit
	b.audit = nil
	for _, rec := range b.allRecords() {
		if !rec.dirty {
			continue
		}
		entries = append(entries, entry(now, kindJob, rec.Job.String(), rec))
		rec.dirty = false
	}
	for _, key := range b.gone {
		entries = append(entries, journal.Entry{Kind: kindJob, Key: key, At: now.UTC(), Data: json.RawMessage("null")})
	}
	b.gone = nil
	if len(entries) == 0 {
		return nil
	}
	if err := b.parts.Memory.Append(entries...); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if b.parts.Memory.Size() > compactAt {
		return b.compact(now)
	}
	return nil
}

// allRecords are the known jobs in order, then those of the past.
func (b *Bridge) allRecords() []*Record {
	out := make([]*Record, 0, len(b.records)+len(b.past))
	for _, id := range b.ids() {
		out = append(out, b.records[id])
	}
	return append(out, b.past...)
}

// compact rewrites the journal with the state alone.
func (b *Bridge) compact(now time.Time) error {
	var entries []journal.Entry
	for _, rec := range b.allRecords() {
		entries = append(entries, entry(now, kindJob, rec.Job.String(), rec))
	}
	entries = append(entries, entry(now, kindFabric, "fabric", b.fabric), entry(now, kindPaused, "paused", b.paused))
	return b.parts.Memory.Compact(entries)
}

// forget drops a record from the journal.
func (b *Bridge) forget(rec *Record) {
	if other := b.records[rec.Job]; other == nil || other == rec {
		b.gone = append(b.gone, rec.Job.String())
	}
}

// restore takes up what a journal held.
func (b *Bridge) restore(entries []journal.Entry) error {
	for _, e := range entries {
		var err error
		switch e.Kind {
		case kindJob:
			rec := &Record{}
			if err = json.Unmarshal(e.Data, rec); err == nil {
				b.remember(rec) // an ended one is buried when Slurm does not show it any more
			}
		case kindFabric:
			err = json.Unmarshal(e.Data, &b.fabric)
		case kindPaused:
			err = json.Unmarshal(e.Data, &b.paused)
		}
		if err != nil {
			return fmt.Errorf("journal entry %s %s: %w", e.Kind, e.Key, err)
		}
	}
	return nil
}
