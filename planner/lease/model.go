package lease

import (
	"math"

	"unisched/planner"
	"unisched/planner/cell"
	"unisched/planner/milp"
)

// program is the model F4 of an instance: one binary per column of every job that has a choice, block counts of nodes whose kept jobs may
// leave odd holes, and the rows that ledger keeps for the greedy candidates.
type program struct {
	in    *instance
	m     milp.Model
	first []int // model column of a job's column 0; -1 for jobs without a choice
	base  *ledger
	fixed float64 // reward of jobs without a choice

	// one row under construction; at is the place of a model column in it, plus one
	idx []int32
	val []float64
	at  []int32
}

func (in *instance) program() *program {
	pr := &program{in: in, first: make([]int, len(in.jobs)), base: in.base}
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.live == 1 {
			pr.first[ji] = -1
			pr.fixed += j.cols[j.base].obj
			continue
		}
		pr.first[ji] = pr.m.Cols()
		for _, c := range j.cols {
			if c.rank >= 0 {
				pr.m.AddCol(c.obj, 0, 1, true)
			}
		}
	}
	for ji := range in.jobs {
		if pr.first[ji] >= 0 {
			for ci := range in.jobs[ji].cols {
				pr.term(ji, ci, 1)
			}
			pr.row(1, 1)
		}
	}
	pr.capacityRows()
	pr.prefixRows()
	pr.blockRows()
	pr.budgetRow()
	pr.quotaRows()
	return pr
}

// term adds a coefficient of a job's column to the row under construction.
func (pr *program) term(ji, ci int, v float64) {
	if r := pr.in.jobs[ji].cols[ci].rank; r >= 0 {
		pr.add(pr.first[ji]+int(r), v)
	}
}

// column is the model's number of a column that is in it.
func (pr *program) column(ji, ci int) int { return pr.first[ji] + int(pr.in.jobs[ji].cols[ci].rank) }

// value is a job's column in a solution, 0 for one that is not in the model.
func (pr *program) value(x []float64, ji, ci int) float64 {
	if r := pr.in.jobs[ji].cols[ci].rank; r >= 0 {
		return x[pr.first[ji]+int(r)]
	}
	return 0
}

// add adds a coefficient of a model column; a job that spans nodes meets a row several times.
func (pr *program) add(col int, v float64) {
	if v == 0 {
		return
	}
	for len(pr.at) <= col {
		pr.at = append(pr.at, 0)
	}
	if k := pr.at[col]; k > 0 {
		pr.val[k-1] += v
		return
	}
	pr.idx, pr.val = append(pr.idx, int32(col)), append(pr.val, v)
	pr.at[col] = int32(len(pr.idx))
}

// row closes the row under construction.
func (pr *program) row(lo, hi float64) {
	if len(pr.idx) > 0 {
		pr.m.AddRow(lo, hi, pr.idx, pr.val)
	}
	pr.drop()
}

// drop forgets the row under construction.
func (pr *program) drop() {
	for _, col := range pr.idx {
		pr.at[col] = 0
	}
	pr.idx, pr.val = pr.idx[:0], pr.val[:0]
}

// sumRow adds the row sum(coef * column) <= hi over all jobs with a choice, unless it can never bind. Jobs without a choice have been
// taken off hi by the caller.
func (pr *program) sumRow(hi float64, coef func(j *job, c *column) float64) {
	most := 0.0
	for ji := range pr.in.jobs {
		if pr.first[ji] < 0 {
			continue
		}
		j, top := &pr.in.jobs[ji], 0.0
		for ci := range j.cols {
			if j.cols[ci].rank < 0 {
				continue
			}
			v := coef(j, &j.cols[ci])
			pr.term(ji, ci, v)
			top = max(top, v)
		}
		most += top
	}
	if most <= hi+1e-9 {
		pr.drop()
		return
	}
	pr.row(math.Inf(-1), hi)
}

// contains reports whether pool a lies inside pool b.
func (in *instance) contains(b, a int) bool {
	for _, s := range in.pools[a].supers {
		if s == b {
			return true
		}
	}
	return false
}

// inside lists for pool p which pools lie in it.
func (in *instance) inside(p int) []bool {
	out := make([]bool, len(in.pools))
	for a := range in.pools {
		out[a] = in.contains(p, a)
	}
	return out
}

// capacityRows bound the GPUs of this unit. (SLO leases reach into the next one, but only jobs that run now hold GPUs then.)
func (pr *program) capacityRows() {
	in := pr.in
	for p := range in.ruled {
		inside := in.inside(p)
		gpus := func(j *job, c *column) float64 {
			switch {
			case c.kind == keep:
				return float64(j.curOn[p])
			case c.kind == start && inside[j.opts[c.opt].pool]:
				return float64(c.gpus)
			}
			return 0
		}
		hi := float64(pr.base.room[p])
		for ji := range in.jobs {
			if j := &in.jobs[ji]; pr.first[ji] < 0 {
				hi -= gpus(j, &j.cols[j.base])
			}
		}
		pr.sumRow(hi, gpus)
	}
}

// prefixRows bound the work that is due until tau, see ledger.
func (pr *program) prefixRows() {
	in := pr.in
	for p := range in.ruled {
		inside := in.inside(p)
		for k := range in.taus {
			coef := func(_ *job, c *column) float64 {
				if c.demand == nil || !inside[c.pool] {
					return 0
				}
				return c.demand[k]
			}
			hi := pr.base.preCap[p][k]
			for ji := range in.jobs {
				if pr.first[ji] < 0 {
					hi -= coef(&in.jobs[ji], &in.jobs[ji].cols[in.jobs[ji].base])
				}
			}
			pr.sumRow(hi, coef)
		}
	}
}

// guest is a kept job that may be stopped, on one node.
type guest struct{ job, col, gpus int }

// blockRows bound the blocks of every share size: what starts need is at most what the nodes offer beside the jobs they keep. For any size t,
// shares g fit on nodes with f free only if sum floor(g/t) <= sum floor(f/t).
func (pr *program) blockRows() {
	in := pr.in
	guests, avail := make([][]guest, len(in.nodes)), make([]int, len(in.nodes))
	for i, n := range in.nodes {
		avail[i] = n.gpus
	}
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.State != planner.Running {
			continue
		}
		for _, sh := range j.Current {
			n, ok := in.index[sh.Node]
			switch {
			case !ok:
			case j.pinned != "":
				avail[n] -= sh.GPUs
			default:
				for ci, c := range j.cols {
					if c.kind == keep {
						guests[n] = append(guests[n], guest{ji, ci, sh.GPUs})
					}
				}
			}
		}
	}
	for k, size := range in.sizes {
		odd := make([]int, len(in.nodes)) // model column of the node's blocks, 0 none yet (column 0 is a job's)
		for p := range in.ruled {
			pr.blockRow(p, k, size, guests, avail, odd)
		}
	}
}

func (pr *program) blockRow(p, k, size int, guests [][]guest, avail, odd []int) {
	in := pr.in
	inside := in.inside(p)
	need := 0.0
	for ji := range in.jobs {
		j, top := &in.jobs[ji], 0.0
		if pr.first[ji] < 0 {
			continue
		}
		for ci, c := range j.cols {
			if c.rank >= 0 && c.kind == start && inside[j.opts[c.opt].pool] {
				v := float64(blocks(j.opts[c.opt].shape, size))
				pr.term(ji, ci, v)
				top = max(top, v)
			}
		}
		need += top
	}
	offer, least := 0, 0
	for _, n := range in.pools[p].nodes {
		offer += cell.Blocks(avail[n], size)
		kept := 0
		for _, g := range distinct(guests[n]) {
			kept += g.gpus
		}
		least += cell.Blocks(avail[n]-kept, size)
	}
	if need <= float64(least) {
		pr.drop()
		return
	}
	var extra []int
	for _, n := range in.pools[p].nodes {
		top := cell.Blocks(avail[n], size)
		if top == 0 || len(guests[n]) == 0 {
			continue
		}
		if !oddHoles(guests[n], size) {
			for _, g := range guests[n] {
				pr.term(g.job, g.col, float64(top-cell.Blocks(avail[n]-g.gpus, size)))
			}
			continue
		}
		offer -= top
		if odd[n] == 0 {
			odd[n] = pr.m.AddCol(0, 0, float64(top), true)
			extra = append(extra, n)
		}
		pr.add(odd[n], -1)
	}
	pr.row(math.Inf(-1), float64(offer))
	for _, n := range extra {
		pr.oddRow(n, size, odd[n], guests[n], avail[n])
	}
}

// oddRow says how many blocks a node offers when its guests leave holes that are no multiples of the size.
func (pr *program) oddRow(n, size, col int, gs []guest, avail int) {
	sum := 0
	for _, g := range distinct(gs) {
		sum += g.gpus
	}
	for _, g := range gs {
		pr.term(g.job, g.col, float64(g.gpus))
	}
	pr.add(col, float64(size))
	pr.row(math.Inf(-1), float64(max(avail, sum)))
}

// oddHoles reports whether the blocks left by a node's guests are no linear function of who is kept: when two or more hold no multiple of the size.
func oddHoles(gs []guest, size int) bool {
	n := 0
	for _, g := range distinct(gs) {
		if g.gpus%size != 0 {
			n++
		}
	}
	return n > 1
}

// distinct drops the further columns of a guest that has several (tiers).
func distinct(gs []guest) []guest {
	var out []guest
	for i, g := range gs {
		if i == 0 || gs[i-1].job != g.job {
			out = append(out, g)
		}
	}
	return out
}

// budgetRow bounds the jobs stopped or moved.
func (pr *program) budgetRow() {
	if !pr.in.bounded {
		return
	}
	movable := 0
	for ji := range pr.in.jobs {
		j := &pr.in.jobs[ji]
		if j.State != planner.Running || j.pinned != "" || pr.first[ji] < 0 {
			continue
		}
		movable++
		for ci, c := range j.cols {
			if c.kind == keep {
				pr.term(ji, ci, 1)
			}
		}
	}
	if n := movable - pr.in.stopCap; n > 0 {
		pr.row(float64(n), math.Inf(1))
	} else {
		pr.drop()
	}
}

// choice reads the column of every job from a solution.
func (pr *program) choice(x []float64) []int {
	out := make([]int, len(pr.in.jobs))
	for ji := range pr.in.jobs {
		out[ji] = pr.in.jobs[ji].base
		if pr.first[ji] < 0 {
			continue
		}
		top := 0.5
		for ci := range pr.in.jobs[ji].cols {
			if v := pr.value(x, ji, ci); v > top {
				top, out[ji] = v, ci
			}
		}
	}
	return out
}
