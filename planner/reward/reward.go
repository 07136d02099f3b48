// Package reward holds what finishing or running a job is worth: the four curves of the UniSched paper (section 3 of its
// model: strict and soft deadlines, best effort, profilers), with ageing. It decides nothing and sees one job at a time; planner/lease puts
// its numbers into the objective.
//
// One reward is worth "a best-effort job finished".
package reward

import (
	"math"

	"unisched/planner"
)

// Config holds the weights. Zero fields take the defaults named.
type Config struct {
	// Ratio is R, SLO against best effort: a tier of value v is worth Ratio*v/10 best-effort jobs (default 3: the setting that lost fewest
	// deadlines on mixed traces; the paper's scale of 1:100 is Ratio 10).
	Ratio float64
	// Filler is what running an SLO job now earns, as a share of what a best-effort job would (default 0.05).
	Filler float64
	// Stickiness multiplies the cost of a suspension of a running SLO job (default 1: what it costs a best-effort job; what it costs in deadlines is
	// in the chance of meeting them).
	Stickiness float64
	// Late is what running an SLO job past all its deadlines earns, as a share of best effort (default 0.3).
	Late float64
	// Profile is what running a profiler earns (default 1).
	Profile float64
	// AgeAfter is how long a best-effort, late or foreign job waits at least before it ages, AgeSpan how long it takes at least from then on to gain one
	// reward per GPU, both in units: together the bound on its wait in a stream of the best-paid jobs there can be (default 24 and 72: 2 h and 6 h). A job
	// with more than that left to run has the patience for as long as it has left, AgeMost each at most (default 288: a day): what ages first is stopped
	// for by others that have aged, so that among long jobs the age of hours buys a turn of minutes and a resume each.
	AgeAfter, AgeSpan, AgeMost float64
	// ProfileAgeAfter and ProfileAgeSpan are the same for profilers (default 1 and 2).
	ProfileAgeAfter, ProfileAgeSpan float64
}

// Default returns the documented defaults.
func Default() Config { return Config{}.Filled() }

// Filled replaces zero, negative and NaN fields by the defaults.
func (c Config) Filled() Config {
	for _, f := range []struct {
		v *float64
		d float64
	}{{&c.Ratio, 3}, {&c.Filler, 0.05}, {&c.Stickiness, 1}, {&c.Late, 0.3}, {&c.Profile, 1},
		{&c.AgeAfter, 24}, {&c.AgeSpan, 72}, {&c.AgeMost, 288}, {&c.ProfileAgeAfter, 1}, {&c.ProfileAgeSpan, 2}} {
		if !(*f.v > 0) || math.IsInf(*f.v, 0) {
			*f.v = f.d
		}
	}
	return c
}

// Weight is the job's own weight: 1 unless set, bounded to 0.001..1000 so that no typo turns one job into all the reward there is.
func Weight(j planner.Job) float64 {
	if !(j.Weight > 0) {
		return 1
	}
	return min(max(j.Weight, 1e-3), 1e3)
}

// Claim is the weight of all that a job earns besides deadlines: its own weight times the factor of its account's long-run share.
func Claim(j planner.Job) float64 { return Weight(j) * shareFactor(j) }

// Urgency is the weight of a job's deadlines: the share of its account decides between equals, and hardly more (1 % of a tier at most).
func Urgency(j planner.Job) float64 {
	return Weight(j) * (1 + 0.01*math.Log2(shareFactor(j)))
}

func shareFactor(j planner.Job) float64 {
	if !(j.ShareFactor > 0) {
		return 1
	}
	return min(max(j.ShareFactor, 0.5), 2)
}

// Share is the factor of an account that is to have the part share of all service in the long run and has had the part used: 2 while it has had
// nothing, 1 when it has what it is to have, 1/2 from twice its share on. An account without a share has factor 1.
func Share(share, used float64) float64 {
	if !(share > 0) || !(used >= 0) {
		return 1
	}
	return math.Exp2(min(max((share-used)/share, -1), 1))
}

// Tier is what counting on a tier of value v earns.
func (c Config) Tier(v float64) float64 { return c.Ratio * v / 10 }

// Done is the part of a job with n units left that one lease of length lease at relative speed phi gets done, 0..1.
func Done(n, lease, phi float64) float64 {
	if !(n > 0) {
		return 1
	}
	return min(lease*phi, n) / n
}

// Saved is the part of a job that keeping it in place saves: its suspension costs ov of n units.
func Saved(n, ov float64) float64 {
	if !(n > 0) {
		return 0
	}
	return min(ov, n) / n
}

// Age is the reward that a job with so many units left has gained by waiting for so many, to be added for each of its GPUs. It grows without bound: whatever
// better-paid stream arrives, a job that waits overtakes it in the end. For profilers, which hold little and not for long, it grows at
// once and evenly; for others with the square, so that equal jobs do not take turns all the time.
func (c Config) Age(class planner.Class, waited, left float64) float64 {
	if class == planner.Profiler {
		return max(0, waited-c.ProfileAgeAfter) / c.ProfileAgeSpan
	}
	patience := min(left, c.AgeMost)
	late := max(0, waited-max(c.AgeAfter, patience)) / max(c.AgeSpan, patience)
	return late * late
}
