package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"unisched/bridge/journal"
	"unisched/estimator"
)

// compactAt is the size of the journal at which it is written anew.
const compactAt = 32 << 20

// persist writes what changed since the last call, in one synced append. After a failure it writes everything anew, which mends a journal that was
// full or removed; until that succeeds nothing disruptive is done, and when it lasts longer than a delay every job is given back to Slurm.
func (b *Bridge) persist(now time.Time) error {
	if b.unsaved != "" {
		err := b.compact(now)
		if b.blind = err != nil && now.Sub(b.since) > b.cfg.Delay; err == nil {
			b.unsaved = ""
			b.log(now, "info", "journal-back", 0, "the journal can be written again")
		}
		return err
	}
	entries := b.audit
	b.audit = nil
	for _, list := range [][]*Record{b.known(), b.past} {
		for _, rec := range list {
			if !rec.dirty {
				continue
			}
			entries = append(entries, entry(now, kindJob, rec.Job.String(), rec))
			rec.dirty = false
		}
	}
	for _, key := range b.gone {
		entries = append(entries, journal.Entry{Kind: kindJob, Key: key, At: now.UTC(), Data: json.RawMessage("null")})
	}
	b.gone = nil
	if len(entries) == 0 {
		return nil
	}
	if err := b.parts.Memory.Append(entries...); err != nil {
		return b.notSaved(now, fmt.Errorf("records: %w", err))
	}
	if b.parts.Memory.Size() > compactAt {
		if err := b.compact(now); err != nil {
			return b.notSaved(now, err)
		}
	}
	return nil
}

// notSaved notes that the journal could not be written.
func (b *Bridge) notSaved(now time.Time, err error) error {
	b.unsaved, b.since = "the journal cannot be written: "+err.Error(), now
	b.suspect = b.unsaved
	b.log(now, "error", "journal", 0, "%v: nothing disruptive is done until it can be written", err)
	return err
}

// allRecords are the known jobs in order, then those of the past.
func (b *Bridge) allRecords() []*Record {
	out := make([]*Record, 0, len(b.records)+len(b.past))
	return append(append(out, b.known()...), b.past...)
}

// compact rewrites the journal with the state alone.
func (b *Bridge) compact(now time.Time) error {
	var entries []journal.Entry
	for _, rec := range b.allRecords() {
		entries = append(entries, entry(now, kindJob, rec.Job.String(), rec))
	}
	entries = append(entries, entry(now, kindFabric, "fabric", b.lore.fabric), entry(now, kindPaused, "paused", b.paused),
		entry(now, kindStage, "stage", b.staging), entry(now, kindStill, "standstills", b.stillNow()))
	for _, key := range slices.Sorted(maps.Keys(b.limits)) {
		entries = append(entries, entry(now, kindLimit, key, b.limits[key]))
	}
	for _, p := range b.lore.history.Pasts {
		entries = append(entries, entry(now, kindPast, pastKey(p.Key), p))
	}
	for _, account := range slices.Sorted(maps.Keys(b.carried)) {
		entries = append(entries, entry(now, kindBudget, account, b.carried[account]))
	}
	return b.parts.Memory.Compact(entries)
}

// forget drops a record from the journal.
func (b *Bridge) forget(rec *Record) {
	if other := b.records[rec.Job]; other == nil || other == rec {
		b.gone = append(b.gone, rec.Job.String())
	}
}

// restore takes up what a journal held.
func (b *Bridge) restore(entries []journal.Entry) (stages *staging, err error) {
	for _, e := range entries {
		if e.At.After(b.journalled) {
			b.journalled = e.At
		}
		var err error
		switch e.Kind {
		case kindJob:
			rec := &Record{}
			if err = json.Unmarshal(e.Data, rec); err == nil {
				b.takeUp(rec) // an ended one is buried when Slurm does not show it any more
			}
		case kindFabric:
			err = json.Unmarshal(e.Data, &b.lore.fabric)
		case kindPast:
			var p estimator.Past
			if err = json.Unmarshal(e.Data, &p); err == nil {
				b.lore.history = b.lore.history.Restore(p)
			}
		case kindStage:
			stages = &staging{}
			err = json.Unmarshal(e.Data, stages)
		case kindBudget:
			var list []charge
			if err = json.Unmarshal(e.Data, &list); err == nil {
				if b.carried == nil {
					b.carried = map[string][]charge{}
				}
				b.carried[e.Key] = list
			}
		case kindStill:
			var was map[string]standstill
			if err = json.Unmarshal(e.Data, &was); err == nil {
				b.restoreStill(e.At, was)
			}
		case kindLimit:
			var m limitMemo
			if err = json.Unmarshal(e.Data, &m); err == nil {
				b.restoreLimit(e.At, e.Key, m)
			}
		case kindPaused:
			err = json.Unmarshal(e.Data, &b.paused)
		}
		if err != nil {
			return nil, fmt.Errorf("journal entry %s %s: %w", e.Kind, e.Key, err)
		}
	}
	return stages, nil
}
