package bridge

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"unisched/slurm"
	"unisched/slurm/comment"
)

// The stage in force is the configuration's (bridge.stage, bridge.partition_stages) until an order changes it; an order holds, over restarts too, until the configuration
// says something else than it did when the order was given. The newest word counts.

// staging is what the journal holds of the stages in force.
type staging struct {
	// Base and Bases are what the configuration said when they were set.
	Base  Stage    `json:"base"`
	Bases []string `json:"bases,omitempty"`
	// Default is for partitions that Of does not name.
	Default Stage            `json:"default"`
	Of      map[string]Stage `json:"of,omitempty"`
}

// PartitionStage is the stage of one partition.
type PartitionStage struct {
	Partition string `json:"partition"`
	Stage     Stage  `json:"stage"`
}

// ErrNotReady refuses a higher stage that replay does not call ready and nobody insists on.
var ErrNotReady = errors.New("unisched replay does not call that stage ready")

// Level is a stage's place in the order of stages, -1 for what is none.
func (s Stage) Level() int { return slices.Index(stages, s) }

// parsePartitionStage reads "partition=stage".
func parsePartitionStage(s string) (partition string, stage Stage, err error) {
	partition, text, ok := strings.Cut(s, "=")
	if stage = Stage(text); !ok || partition == "" || stage.Level() < 0 {
		return "", "", fmt.Errorf("%q is not partition=stage with a stage of %v", s, stages)
	}
	return partition, stage, nil
}

// configured is what the configuration says.
func (c Config) configured() staging {
	s := staging{Base: c.Stage, Bases: c.PartitionStages, Default: c.Stage, Of: map[string]Stage{}}
	for _, p := range c.PartitionStages {
		if name, stage, err := parsePartitionStage(p); err == nil {
			s.Of[name] = stage
		}
	}
	return s
}

// of is the stage of a partition.
func (s staging) of(partition string) Stage {
	if stage, ok := s.Of[partition]; ok {
		return stage
	}
	return s.Default
}

// shadow reports whether nobody is acted on anywhere.
func (s staging) shadow() bool {
	for _, stage := range s.Of {
		if stage != Shadow {
			return false
		}
	}
	return s.Default == Shadow
}

// list is what differs from the default, by partition.
func (s staging) list() []PartitionStage {
	var out []PartitionStage
	for _, name := range slices.Sorted(maps.Keys(s.Of)) {
		out = append(out, PartitionStage{name, s.Of[name]})
	}
	return out
}

func (s staging) String() string {
	text := string(s.Default)
	for _, p := range s.list() {
		text += fmt.Sprintf(", %s=%s", p.Partition, p.Stage)
	}
	return text
}

// settleStages decides at the start between the configuration and the last order. A configuration that raises a stage is worth a line: nobody asked replay.
func (b *Bridge) settleStages(journalled *staging) {
	b.staging = b.cfg.configured()
	if journalled == nil {
		b.stageNews = fmt.Sprintf("stage %s, by configuration", b.staging)
		return
	}
	if journalled.Base == b.cfg.Stage && slices.Equal(journalled.Bases, b.cfg.PartitionStages) {
		if journalled.Of == nil {
			journalled.Of = map[string]Stage{}
		}
		b.staging = *journalled
		return
	}
	b.stageNews = fmt.Sprintf("stage %s, by configuration, instead of %s", b.staging, journalled)
}

// tellStages journals and tells what settleStages found to be new.
func (b *Bridge) tellStages(now time.Time) {
	if b.stageNews == "" {
		return
	}
	b.log(now, "warn", "stage", 0, "%s", b.stageNews)
	b.audit = append(b.audit, entry(now, kindStage, "stage", b.staging))
	b.stageNews = ""
}

// obeyStage changes the stage of one partition, or of all. Moving up takes replay's word, or somebody who insists; either way it is told and journalled.
func (b *Bridge) obeyStage(now time.Time, o Order) (string, error) {
	if o.Stage.Level() < 0 {
		return "", fmt.Errorf("stage %q is none of %v: %w", o.Stage, stages, ErrOrder)
	}
	if o.Partition != "" && !slices.Contains(b.cfg.Partitions, o.Partition) {
		return "", fmt.Errorf("partition %q is not managed (managed: %s): %w", o.Partition, strings.Join(b.cfg.Partitions, ", "), ErrOrder)
	}
	was := b.staging.String()
	lowest := b.staging.of(o.Partition).Level()
	if o.Partition == "" {
		for _, stage := range b.staging.Of {
			lowest = min(lowest, stage.Level())
		}
	}
	up := o.Stage.Level() > lowest
	if up && !o.Ready && !o.Force {
		return "", fmt.Errorf("%s: %w", o.Stage, ErrNotReady)
	}
	next := staging{Base: b.cfg.Stage, Bases: b.cfg.PartitionStages, Default: b.staging.Default, Of: maps.Clone(b.staging.Of)}
	if o.Partition == "" {
		next.Default, next.Of = o.Stage, map[string]Stage{}
	} else {
		next.Of[o.Partition] = o.Stage
	}
	b.staging = next
	b.audit = append(b.audit, entry(now, kindStage, "stage", b.staging))
	text := fmt.Sprintf("stage %s instead of %s", b.staging, was)
	level := "info"
	if up && !o.Ready {
		level, text = "warn", text+", by force: replay does not call it ready"
	}
	b.log(now, level, "stage", 0, "%s, by %s", text, o.By)
	b.rouse("the stage has changed")
	return text, nil
}

// acts reports whether the stage lets us act on the job. A canary share is chosen by the job's id, so that a job stays in or out for life.
func (b *Bridge) acts(rec *Record) bool {
	if b.paused || b.handsOff || b.blind || rec.Releasing {
		return false
	}
	if !rec.slo() && b.staging.of(rec.Original.Partition) == Canary {
		return canary(rec.Job, b.cfg.CanaryShare)
	}
	return b.stageActs(rec.Original.Partition, rec.Wish.Class)
}

// canary reports whether a job belongs to the share.
func canary(id slurm.JobID, share float64) bool {
	h := fnv.New64a()
	h.Write([]byte(id.String()))
	x := h.Sum64() // FNV alone leaves neighbouring numbers close together
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x%10000) < share*10000
}

// stageActs reports whether the stage lets us act on all jobs of a class in a partition.
func (b *Bridge) stageActs(partition string, c comment.Class) bool {
	level := b.staging.of(partition).Level()
	switch c {
	case comment.Strict:
		return level >= StageStrict.Level()
	case comment.Soft:
		return level >= StageSoft.Level()
	}
	return level >= StageBestEffort.Level()
}

// onlyWatched are the partitions whose jobs are planned although we do not act on them: those in shadow, as long as no partition that we act in shares a node with them,
// since a plan would give GPUs away that Slurm gives to somebody else.
func (b *Bridge) onlyWatched() map[string]bool {
	out := map[string]bool{}
	all := b.staging.shadow()
	for _, p := range b.cfg.Partitions {
		out[p] = b.staging.of(p) == Shadow
	}
	if all {
		return out
	}
	for _, n := range b.seen.Nodes {
		acted := slices.ContainsFunc(n.Partitions, func(p string) bool { return slices.Contains(b.cfg.Partitions, p) && b.staging.of(p) != Shadow })
		for _, p := range n.Partitions {
			if acted && out[p] {
				out[p] = false
			}
		}
	}
	return out
}
