// Package assess looks at the history of a cluster and says whether it is worth putting UniSched on it: what jobs there are, what of them could be moved, resized
// or stopped, what that would cost, and what a simulation of a part of them predicts beside what a site can do without.
//
// It refuses to run anything and to hide what history cannot tell: it judges jobs and figures that were handed to it, every verdict has its reasons, and what was
// assumed is listed. `unisched assess` reads, simulates and calls it.
package assess

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/planner"
)

// History is what is judged: the jobs as a simulation sees them, what else sacct told (nil for other traces), and the cluster.
type History struct {
	Jobs    []trace.Job // by submission
	Rows    map[string]Row
	Nodes   int
	PerNode int
}

// Size is a class of GPU counts with its share of jobs and of GPU time.
type Size struct {
	GPUs    string  `json:"gpus"`
	Jobs    float64 `json:"jobs"`
	GPUTime float64 `json:"gpu_time"`
}

// Mix describes the jobs. Shares are 0..1, of GPU time where nothing else is said.
type Mix struct {
	Jobs       int     `json:"jobs"`
	Users      int     `json:"users"`
	Days       float64 `json:"days"` // from the first submission to the last
	PerDay     float64 `json:"jobs_per_day"`
	GPUHours   float64 `json:"gpu_hours"`
	Load       float64 `json:"load"`         // GPU time asked for in those days, over that of the cluster
	InSystem   float64 `json:"mean_at_once"` // jobs running at once on average, if none waited
	Sizes      []Size  `json:"sizes"`
	P50        float64 `json:"duration_p50_s"`
	P90        float64 `json:"duration_p90_s"`
	Typical    float64 `json:"duration_by_gpu_time_p50_s"` // half of the GPU time is in jobs at least this long
	SLO        float64 `json:"slo_jobs"`                   // share of jobs with deadlines
	SLOGPUTime float64 `json:"slo_gpu_time"`
	Multi      float64 `json:"multi_gpu"` // in jobs of several GPUs

	Flexibility Flexibility `json:"flexibility"`
	CrossNode   CrossNode   `json:"cross_node"`
	Preemption  Preemption  `json:"preemption"`
	Pools       Pools       `json:"pools"`
}

// Flexibility is how much of the GPU time could run on other GPU counts.
type Flexibility struct {
	Declared float64 `json:"declared"` // elastic by their own declaration
	Rigid    float64 `json:"rigid"`    // declared never to run on another count
	// Seen is the share in kinds of jobs (a user's jobs of one name) that ran on several counts; nil where names are not known.
	Seen *float64 `json:"seen"`
	Text string   `json:"text"`
}

// CrossNode is what history tells of the slowdown on more nodes than needed.
type CrossNode struct {
	Kinds    int      `json:"kinds"`    // compared
	Slowdown *float64 `json:"slowdown"` // median of how many times as long they ran; nil: it cannot tell
	Text     string   `json:"text"`
}

// Preemption is what stopping jobs would cost, and whether they can be stopped.
type Preemption struct {
	Fixed   float64 `json:"fixed"`   // cannot be stopped, by declaration
	Saves   float64 `json:"saves"`   // declare a checkpoint
	Unknown float64 `json:"unknown"` // say nothing
	// Requeued counts jobs that history shows to have been requeued: they came back at least once.
	Requeued int `json:"requeued_jobs"`
	// CostGPUMin is the mean cost of one stop in GPU minutes, by GPU time; LeaseShare is it over the lease of 10 min that it buys.
	CostGPUMin float64 `json:"cost_gpu_min"`
	LeaseShare float64 `json:"cost_of_lease"`
	Text       string  `json:"text"`
}

// Pools says whether jobs with deadlines and those without used nodes in common.
type Pools struct {
	Known    bool    `json:"known"`
	Separate bool    `json:"separate"`
	Common   float64 `json:"common"` // share of the nodes (or partitions) of the smaller side that the other used as well
	Text     string  `json:"text"`
}

// Describe sums the jobs up. It needs at least one.
func Describe(h History) Mix {
	m := Mix{Jobs: len(h.Jobs)}
	users := map[string]bool{}
	last := time.Duration(0)
	var all []float64
	weights := map[float64]float64{} // GPU time by duration, lookup only
	total := 0.0
	sizes := map[string]*Size{}
	for _, j := range h.Jobs {
		users[j.User] = true
		last = max(last, j.Submit)
		d, w := j.Duration.Seconds(), gpuTime(j)
		total += w
		all = append(all, d)
		weights[d] += w
		m.InSystem += d
		s := sizes[sizeOf(j.GPUs)]
		if s == nil {
			s = &Size{GPUs: sizeOf(j.GPUs)}
			sizes[s.GPUs] = s
		}
		s.Jobs++
		s.GPUTime += w
		if j.Class.SLO() {
			m.SLO++
			m.SLOGPUTime += w
		}
		if j.GPUs > 1 {
			m.Multi += w
		}
	}
	span := max(last.Seconds(), 3600)
	m.Users, m.Days, m.PerDay = len(users), span/86400, float64(m.Jobs)/(span/86400)
	m.GPUHours, m.Load, m.InSystem = total/3600, total/(span*float64(max(h.Nodes*h.PerNode, 1))), m.InSystem/span
	m.SLO, m.SLOGPUTime, m.Multi = m.SLO/float64(max(m.Jobs, 1)), over(m.SLOGPUTime, total), over(m.Multi, total)
	for _, name := range sizeNames {
		if s := sizes[name]; s != nil {
			m.Sizes = append(m.Sizes, Size{name, s.Jobs / float64(m.Jobs), over(s.GPUTime, total)})
		}
	}
	slices.Sort(all)
	m.P50, m.P90, m.Typical = nearest(all, 0.5), nearest(all, 0.9), typical(all, weights, total)
	m.Flexibility, m.CrossNode, m.Preemption, m.Pools = h.flexibility(total), h.crossNode(), h.preemption(total), h.pools()
	return m
}

func gpuTime(j trace.Job) float64 { return j.Duration.Seconds() * float64(j.GPUs) }

func over(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

var sizeNames = []string{"1", "2", "3-4", "5-8", "9-16", "17-32", "33+"}

func sizeOf(gpus int) string {
	for i, most := range []int{1, 2, 4, 8, 16, 32} {
		if gpus <= most {
			return sizeNames[i]
		}
	}
	return "33+"
}

func nearest(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// typical is the duration above which half of the GPU time lies.
func typical(sorted []float64, weights map[float64]float64, total float64) float64 {
	sum := 0.0
	for i := len(sorted) - 1; i >= 0; i-- {
		if i == len(sorted)-1 || sorted[i] != sorted[i+1] {
			if sum += weights[sorted[i]]; sum >= total/2 {
				return sorted[i]
			}
		}
	}
	return 0
}

// kind is whose jobs of one name are likely to be the same work.
type kind struct{ user, name string }

func (h History) kindOf(j trace.Job) (kind, bool) {
	r, ok := h.Rows[j.ID]
	return kind{j.User, r.Name}, ok && r.Name != ""
}

func (h History) flexibility(total float64) Flexibility {
	f := Flexibility{}
	counts, work := map[kind]map[int]bool{}, map[kind]float64{}
	var order []kind
	for _, j := range h.Jobs {
		w := gpuTime(j)
		if len(j.Counts) > 1 {
			f.Declared += w
		}
		if h.Rows[j.ID].Rigid {
			f.Rigid += w
		}
		if k, ok := h.kindOf(j); ok {
			if counts[k] == nil {
				counts[k] = map[int]bool{}
				order = append(order, k)
			}
			counts[k][j.GPUs] = true
			work[k] += w
		}
	}
	f.Declared, f.Rigid = over(f.Declared, total), over(f.Rigid, total)
	f.Text = fmt.Sprintf("%.0f %% of the GPU time is in jobs that declare several GPU counts", 100*f.Declared)
	if len(order) == 0 {
		f.Text += "; job names are not known, so whether the same work ran on several counts cannot be told"
		return f
	}
	seen := 0.0
	for _, k := range order {
		if len(counts[k]) > 1 {
			seen += work[k]
		}
	}
	seen = over(seen, total)
	f.Seen = &seen
	f.Text += fmt.Sprintf("; %.0f %% in jobs whose user ran others of the same name on another count, and may be able to", 100*seen)
	return f
}

// What a comparison of placements asks for.
const (
	minRuns  = 3   // on each side
	minKinds = 3   // for a figure at all
	maxRange = 3.0 // of durations on the fewest nodes: more is other work, not other placement
)

// crossNode compares the run times of the same work on its fewest nodes and on more.
func (h History) crossNode() CrossNode {
	type group struct {
		kind
		gpus int
	}
	by := map[group]map[int][]float64{}
	var order []group
	for _, j := range h.Jobs {
		k, ok := h.kindOf(j)
		r := h.Rows[j.ID]
		if !ok || r.State != "COMPLETED" || r.Nodes <= 0 || j.GPUs < 2 || r.Restarts > 0 {
			continue
		}
		g := group{k, j.GPUs}
		if by[g] == nil {
			by[g] = map[int][]float64{}
			order = append(order, g)
		}
		by[g][r.Nodes] = append(by[g][r.Nodes], j.Duration.Seconds())
	}
	var ratios []float64
	for _, g := range order {
		fewest := math.MaxInt
		for n := range by[g] {
			fewest = min(fewest, n)
		}
		base := by[g][fewest]
		var more []float64
		for _, n := range sortedKeys(by[g]) {
			if n > fewest {
				more = append(more, by[g][n]...)
			}
		}
		slices.Sort(base)
		slices.Sort(more)
		if len(base) < minRuns || len(more) < minRuns || base[0] <= 0 || base[len(base)-1] > maxRange*base[0] {
			continue
		}
		ratios = append(ratios, nearest(more, 0.5)/nearest(base, 0.5))
	}
	c := CrossNode{Kinds: len(ratios)}
	if len(ratios) < minKinds {
		c.Text = fmt.Sprintf("history cannot tell what spreading a job over more nodes costs (%d kinds of jobs ran %d times or more both ways, %d are needed); the simulation uses published slowdowns",
			len(ratios), minRuns, minKinds)
		return c
	}
	slices.Sort(ratios)
	s := nearest(ratios, 0.5)
	c.Slowdown = &s
	c.Text = fmt.Sprintf("%d kinds of jobs took %.2f times as long (median) on more nodes than their fewest; the simulation uses published slowdowns", len(ratios), s)
	return c
}

func sortedKeys[V any](m map[int]V) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// saving is what a checkpoint takes, resume what loading it on g GPUs takes, in seconds: what the simulator takes as well where the trace says nothing.
const saving = 4.0

func resume(g int) float64 { return 30 * (1 + math.Log2(float64(max(g, 1)))) }

func (h History) preemption(total float64) Preemption {
	p := Preemption{}
	gpus := 0.0
	for _, j := range h.Jobs {
		w := gpuTime(j)
		r := h.Rows[j.ID]
		switch {
		case j.Fixed:
			p.Fixed += w
		case r.Wish && r.Saves || h.Rows == nil && j.Checkpoint > 0:
			p.Saves += w
		default:
			p.Unknown += w
		}
		if r.Restarts > 0 {
			p.Requeued++
		}
		save, load := saving, resume(j.GPUs)
		if j.Checkpoint > 0 {
			save = j.Checkpoint.Seconds()
		}
		if j.Resume > 0 {
			load = j.Resume.Seconds()
		}
		p.CostGPUMin += w * (save + load) * float64(j.GPUs) / 60
		gpus += w * float64(j.GPUs)
	}
	p.Fixed, p.Saves, p.Unknown, p.CostGPUMin, gpus = over(p.Fixed, total), over(p.Saves, total), over(p.Unknown, total), over(p.CostGPUMin, total), over(gpus, total)
	p.LeaseShare = over(p.CostGPUMin, 10*gpus)
	p.Text = fmt.Sprintf("one stop costs %.1f GPU minutes on average, %.0f %% of the ten minutes that it gives to others; %.0f %% of the GPU time is in jobs that declare a checkpoint, %.0f %% in jobs that cannot be stopped, %.0f %% in jobs that say nothing",
		p.CostGPUMin, 100*p.LeaseShare, 100*p.Saves, 100*p.Fixed, 100*p.Unknown)
	return p
}

// pools compares where jobs with deadlines ran and where the others did: by node names, else by partition.
func (h History) pools() Pools {
	names := [2]map[string]bool{{}, {}}
	parts := [2]map[string]bool{{}, {}}
	for _, j := range h.Jobs {
		r, ok := h.Rows[j.ID]
		if !ok {
			continue
		}
		side := 0
		if j.Class.SLO() {
			side = 1
		}
		for _, n := range r.Where {
			names[side][n] = true
		}
		for p := range strings.SplitSeq(r.Partition, ",") {
			if p != "" {
				parts[side][p] = true
			}
		}
	}
	what, sets := "nodes", names
	if len(names[0]) == 0 || len(names[1]) == 0 {
		what, sets = "partitions", parts
	}
	if len(sets[0]) == 0 || len(sets[1]) == 0 {
		return Pools{Text: "whether jobs with deadlines and the others share nodes cannot be told: there is but one kind of them, or neither NodeList nor Partition is in the history"}
	}
	small, large := sets[0], sets[1]
	if len(large) < len(small) {
		small, large = large, small
	}
	both := 0
	for n := range small {
		if large[n] {
			both++
		}
	}
	p := Pools{Known: true, Common: float64(both) / float64(len(small))}
	p.Separate = p.Common < 0.1
	p.Text = fmt.Sprintf("jobs with deadlines used %d %s, the others %d, %d of them in common", len(sets[1]), what, len(sets[0]), both)
	return p
}

// Slice picks the part that is simulated: of the runs of n jobs in a row, the one whose load is nearest to the third quartile of all; busy, but not the worst day there
// was. Submissions are counted from its first.
func Slice(jobs []trace.Job, n, gpus int) []trace.Job {
	if n <= 0 || len(jobs) <= n {
		return shifted(jobs)
	}
	type chunk struct {
		at   int
		load float64
	}
	var chunks []chunk
	for at := 0; at+n <= len(jobs); at += n {
		part := jobs[at : at+n]
		sum := 0.0
		for _, j := range part {
			sum += gpuTime(j)
		}
		span := max((part[n-1].Submit - part[0].Submit).Seconds(), 3600)
		chunks = append(chunks, chunk{at, sum / (span * float64(max(gpus, 1)))})
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int { return cmp.Compare(a.load, b.load) })
	at := chunks[(3*(len(chunks)-1)+3)/4].at
	return shifted(jobs[at : at+n])
}

func shifted(jobs []trace.Job) []trace.Job {
	out := slices.Clone(jobs)
	for i := range out {
		out[i].Submit -= jobs[0].Submit
	}
	return out
}

// Reservation is how many nodes a fixed reservation for jobs with deadlines has: their share of the GPU time, at least what their largest job needs, and never so many
// that the largest of the others fits nowhere. 0: there is nobody to reserve for, or no room for both.
func Reservation(jobs []trace.Job, nodes, perNode int) int {
	slo, total, largest, other := 0.0, 0.0, 0, 0
	for _, j := range jobs {
		total += gpuTime(j)
		if j.Class.SLO() {
			slo += gpuTime(j)
			largest = max(largest, j.GPUs)
		} else {
			other = max(other, j.GPUs)
		}
	}
	if slo == 0 || nodes <= 0 || perNode <= 0 {
		return 0
	}
	up := func(g int) int { return (g + perNode - 1) / perNode }
	k := max(int(math.Ceil(slo/total*float64(nodes))), up(largest), 1)
	if slo < total {
		k = min(k, nodes-max(up(other), 1))
	}
	if k < up(largest) {
		return 0
	}
	return min(k, nodes)
}

// Fix marks jobs that cannot be stopped: those that say so, and of those that say nothing the share 1 - preemptible, chosen by their id.
func Fix(jobs []trace.Job, rows map[string]Row, preemptible float64) []trace.Job {
	out := slices.Clone(jobs)
	for i := range out {
		j := &out[i]
		r, ok := rows[j.ID]
		switch {
		case j.Fixed:
		case ok && r.Wish:
			j.Fixed = !r.Saves
		case ok:
			j.Fixed = draw(j.ID) >= preemptible
		}
	}
	return out
}

// draw is a number 0..1 of an id.
func draw(id string) float64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	return float64(h>>11) / (1 << 53)
}

// Deadlines is a class with deadlines for the jobs of some partitions, for sites that mark urgent work that way: deadlines are those that given carries for the same id.
func Deadlines(jobs []trace.Job, rows map[string]Row, partitions []string, given []trace.Job) []trace.Job {
	tiers := map[string][]trace.Tier{}
	for _, j := range given {
		tiers[j.ID] = j.Tiers
	}
	out := slices.Clone(jobs)
	for i := range out {
		j := &out[i]
		if r := rows[j.ID]; !j.Class.SLO() && slices.Contains(partitions, r.Partition) && len(tiers[j.ID]) > 0 {
			j.Class, j.Tiers = planner.Strict, tiers[j.ID]
		}
	}
	return out
}
