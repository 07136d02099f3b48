package lease

import (
	"cmp"
	"slices"

	"unisched/planner"
)

// maxShifts bounds the running jobs that the model may move only to make a hole whole.
const maxShifts = 24

// markShifts finds the running jobs that are worth moving to another node on the same shape: when somebody who waits finds no hole although enough GPUs
// are free, the jobs on the emptiest nodes. The objective decides whether it pays: a move loses a checkpoint, a resume and the unsaved work.
func (in *instance) markShifts() {
	f := newFloor(in)
	for ji := range in.jobs {
		if j := &in.jobs[ji]; j.State == planner.Running {
			f.take(j, j.Current, 1)
		}
	}
	wanted := in.holesWanted(f)
	if !slices.Contains(wanted, true) {
		return
	}
	type mover struct{ job, held, gpus int }
	var ms []mover
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.State != planner.Running || j.pinned != "" || j.Blocked != "" || len(j.Current) != 1 || j.n-j.ov <= 1 {
			continue
		}
		n, ok := in.index[j.Current[0].Node]
		if !ok || !in.nodes[n].usable || j.curr.gpus >= in.nodes[n].gpus || !in.wantedOn(wanted, n) {
			continue
		}
		ms = append(ms, mover{ji, in.nodes[n].gpus - f.gpus[n], j.curr.gpus})
	}
	slices.SortStableFunc(ms, func(a, b mover) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.job, b.job))
	})
	for _, m := range ms[:min(len(ms), maxShifts)] {
		in.jobs[m.job].shifts = true
	}
}

// holesWanted tells for each pool whether a waiting job finds no hole in it although as many GPUs are free there as it needs.
func (in *instance) holesWanted(f *floor) []bool {
	wanted, free := make([]bool, len(in.pools)), make([]int, len(in.pools))
	for p := range in.pools {
		for _, n := range in.pools[p].nodes {
			free[p] += max(0, f.gpus[n])
		}
	}
	seen := make([]bool, in.alike)
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.State != planner.Waiting || j.idle != "" || j.Foreign {
			continue
		}
		for _, o := range j.opts {
			if seen[o.like] || wanted[o.pool] || o.gpus > free[o.pool] || !f.within(j, o.gpus) {
				continue
			}
			seen[o.like] = true
			if _, ok := f.place(j, o); !ok {
				wanted[o.pool] = true
			}
		}
	}
	return wanted
}

func (in *instance) wantedOn(wanted []bool, n int) bool {
	for p := range in.pools {
		if wanted[p] && in.pools[p].member[n] {
			return true
		}
	}
	return false
}

// stayPut takes moves back that turned out to make room for nobody.
func (r *packed) stayPut(in *instance) {
	for ji := range in.jobs {
		j := &in.jobs[ji]
		c := j.cols[r.choice[ji]]
		if j.State != planner.Running || c.kind != start || !j.opts[c.opt].shape.Equal(j.curr.shape) {
			continue
		}
		ci := j.column(keep, -1, c.tier)
		if ci < 0 {
			ci = j.column(keep, -1, -1)
		}
		r.floor.take(j, r.places[ji], -1)
		if ci >= 0 && j.cols[ci].obj >= c.obj && r.floor.mayStay(j) && r.floor.stays(j, j.Current) {
			r.choice[ji] = ci
			r.keep(in, ji)
			continue
		}
		r.floor.take(j, r.places[ji], 1)
	}
}

// movedWhy says in words what a move is for.
func (in *instance) movedWhy(j *job, r packed, p planner.Placement) string {
	phi := j.curr.phi
	for _, o := range j.opts {
		if o.shape.Equal(p.Shape()) {
			phi = o.phi
		}
	}
	if phi > j.curr.phi {
		return "moves to " + p.String() + ", where it runs faster"
	}
	why := "moves to "
	if p.GPUs() < j.curr.gpus {
		why = "goes on with fewer GPUs at "
	}
	why += p.String() + ", which makes room for "
	for ji := range in.jobs {
		o := &in.jobs[ji]
		if o.State == planner.Waiting && o.cols[r.choice[ji]].kind == start && meet(r.places[ji], j.Current) {
			return why + "job " + o.Run.String()
		}
	}
	return why + "others"
}
