package bridge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"unisched/slurm/topology"
)

// Stage says for whom the bridge acts. Each stage includes the ones before it.
type Stage string

// The stages of a rollout.
const (
	Shadow          Stage = "shadow"     // plans and journals; delays, profiles and moves nothing
	Canary          Stage = "canary"     // acts on a stable share of the best-effort jobs
	StageBestEffort Stage = "besteffort" // acts on all best-effort jobs
	StageSoft       Stage = "soft"       // and on soft SLO jobs
	StageStrict     Stage = "strict"     // and on strict SLO jobs: all
)

// The policies of Config.Unconfirmed.
const (
	Keep  = "keep"
	Evict = "requeue"
)

var stages = []Stage{Shadow, Canary, StageBestEffort, StageSoft, StageStrict}

// Config is what Step needs to know about the site. The zero value is not usable; start from [Defaults].
type Config struct {
	Stage Stage
	// PartitionStages are the stages of single partitions, "partition=stage".
	PartitionStages []string
	CanaryShare     float64 // 0..1, of the best-effort jobs
	// Unit is the best-effort lease, SLOUnits the length of an SLO lease in units.
	Unit     time.Duration
	SLOUnits int
	// Poll is the period at which Step is called; waits are counted in it.
	Poll time.Duration
	// ViewEvery is how old the published [View] may be while all is well (0: made anew in every cycle).
	ViewEvery time.Duration
	// NoForecasts leaves out the forecasts that are kept to be scored later, where nobody will.
	NoForecasts bool
	// Delay is how far ahead the begin time of a waiting job is set; it is renewed when half of it has passed. When the bridge
	// dies, its jobs start by themselves after at most this long.
	Delay time.Duration

	Partitions       []string // whose jobs we manage
	ProfilePartition string   // empty: nobody is profiled
	ProfileTime      time.Duration
	// ProfileGPUs bounds the GPUs of a profile run (0: 2): with 1 only the computation is measured, with 4 and more the exchange of that many as well.
	ProfileGPUs int
	// RequeueExit is the exit code that sends a job back to the queue (slurm.conf RequeueExit).
	RequeueExit int
	// PriorityMode is "nice" or "off".
	PriorityMode string

	// CheckpointTimeout is how long a signalled job may take before it counts as not having answered. CheckpointStrikes is how
	// often that may happen before the job counts as not preemptible.
	CheckpointTimeout time.Duration
	CheckpointStrikes int
	// Unconfirmed says what becomes of a job that declared ckpt= and does not answer, or gives no sign of life: "keep" (it is never preempted) or "requeue" (it is, and loses
	// what it has not saved).
	Unconfirmed string
	// MaxCheckpoints and MaxStarts bound how many jobs may write or read checkpoints at once (shared storage).
	MaxCheckpoints, MaxStarts int
	// MaxActions bounds the writes of one cycle.
	MaxActions int
	// StartTimeout is how long a released job may stay pending with its GPUs free before it is delayed again.
	StartTimeout time.Duration
	// Quantile of the duration estimate that deadlines are planned on.
	Quantile float64
	// AccountWeights and QOSWeights multiply the rewards of jobs: "name=factor", 1 for who is not named (price tiers by QOS, shares by account).
	AccountWeights, QOSWeights []string
	// Accounts and QOS are what the site grants them, by name. ShareHalfLife is after how long service counts half towards a share.
	Accounts      map[string]AccountGrant
	QOS           map[string]QOSGrant
	ShareHalfLife time.Duration
	// MaxPreemptionsPerHour bounds the jobs stopped or moved within any hour, MaxJobPreemptionsPerHour how often one of them is (0: no bound).
	MaxPreemptionsPerHour, MaxJobPreemptionsPerHour int
	// Network is where nodes hang, for clusters whose nodes do not say so themselves.
	Network topology.Topology
	// ResumeTimeout is how long a powered-down node takes to come up, SuspendTimeout how long one takes to go down (slurm.conf has both).
	ResumeTimeout, SuspendTimeout time.Duration
	// MinRun is how long every run may go on before it is stopped or moved, whatever its lease.
	MinRun time.Duration
	// Admission says who may ask for deadlines, and for how much.
	Admission Admission
	// Zone of deadlines written without one.
	Zone *time.Location
}

// Defaults are the values of a site that sets nothing.
func Defaults() Config {
	return Config{
		Stage: Shadow, PartitionStages: []string{}, CanaryShare: 0.1, Unit: 5 * time.Minute, SLOUnits: 2, Poll: 10 * time.Second, Delay: 3 * time.Minute,
		Partitions: []string{"gpu"}, ProfilePartition: "profile", ProfileTime: 5 * time.Minute, RequeueExit: 99, PriorityMode: "nice",
		CheckpointTimeout: 5 * time.Minute, CheckpointStrikes: 2, Unconfirmed: Keep, MaxCheckpoints: 8, MaxStarts: 8, MaxActions: 200,
		ShareHalfLife: 7 * 24 * time.Hour, ResumeTimeout: 5 * time.Minute, SuspendTimeout: 30 * time.Second,
		StartTimeout: 30 * time.Second, Quantile: 0.6, Zone: time.UTC, AccountWeights: []string{}, QOSWeights: []string{},
		Admission: Admission{StrictQOS: []string{}, StrictAccounts: []string{}, SoftQOS: []string{}, SoftAccounts: []string{}, BudgetWindow: 30 * 24 * time.Hour},
	}
}

// Validate says what is wrong with a configuration, every fault at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, w := range slices.Concat(c.AccountWeights, c.QOSWeights) {
		_, _, err := parseWeight(w)
		bad(err == nil, "account_weights or qos_weights: %v", err)
	}
	errs = append(append(errs, c.validGrants()...), c.Admission.validate()...)
	bad(slices.Contains(stages, c.Stage), "stage %q is none of %v", c.Stage, stages)
	for _, s := range c.PartitionStages {
		name, _, err := parsePartitionStage(s)
		bad(err == nil, "partition_stages: %v", err)
		bad(err != nil || slices.Contains(c.Partitions, name), "partition_stages: partition %q is not in partitions", name)
	}
	bad(c.CanaryShare >= 0 && c.CanaryShare <= 1, "canary_share %v is not within 0..1", c.CanaryShare)
	bad(c.Unit >= 5*time.Second && c.Unit <= time.Hour, "unit %v is not within 5s..1h", c.Unit)
	bad(c.SLOUnits >= 1 && c.SLOUnits <= 24, "slo_lease_units %d is not within 1..24", c.SLOUnits)
	bad(c.Poll >= 100*time.Millisecond && c.Poll <= c.Unit, "poll %v is not within 100ms..unit", c.Poll)
	bad(c.Delay >= 3*c.Poll, "delay %v is shorter than three polls (%v)", c.Delay, 3*c.Poll)
	bad(len(c.Partitions) > 0, "partitions is empty: name at least one to manage")
	bad(c.ProfilePartition == "" || !slices.Contains(c.Partitions, c.ProfilePartition),
		"profile_partition %q is also in partitions", c.ProfilePartition)
	bad(c.ProfilePartition == "" || c.ProfileTime >= time.Second, "profile_time %v is below 1s", c.ProfileTime)
	bad(c.ProfileGPUs >= 0 && c.ProfileGPUs <= 64, "profile GPUs %d are not within 0..64", c.ProfileGPUs)
	bad(c.RequeueExit >= 1 && c.RequeueExit <= 255, "requeue_exit %d is not within 1..255", c.RequeueExit)
	bad(c.PriorityMode == "nice" || c.PriorityMode == "off", "priority_mode %q is neither nice nor off", c.PriorityMode)
	bad(c.CheckpointTimeout >= time.Second, "checkpoint_timeout %v is below 1s", c.CheckpointTimeout)
	bad(c.CheckpointStrikes >= 1, "checkpoint_strikes %d is below 1", c.CheckpointStrikes)
	bad(c.Unconfirmed == Keep || c.Unconfirmed == Evict, "unconfirmed %q is neither keep nor requeue", c.Unconfirmed)
	bad(c.MaxCheckpoints >= 1 && c.MaxStarts >= 1 && c.MaxActions >= 1, "max_checkpoints, max_starts and max_actions must be at least 1")
	bad(c.StartTimeout >= c.Poll, "start_timeout %v is shorter than one poll", c.StartTimeout)
	bad(c.Quantile >= 0.1 && c.Quantile <= 0.95, "quantile %v is not within 0.1..0.95", c.Quantile)
	bad(c.ResumeTimeout >= 0 && c.ResumeTimeout <= 24*time.Hour && c.SuspendTimeout >= 0 && c.SuspendTimeout <= 24*time.Hour,
		"resume_timeout %v or suspend_timeout %v is not within 0s..24h", c.ResumeTimeout, c.SuspendTimeout)
	bad(c.Zone != nil, "zone is not set")
	return errors.Join(errs...)
}

// Stages are all stages, each including those before it.
func Stages() []Stage { return slices.Clone(stages) }
