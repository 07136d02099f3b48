// Command planbench measures the planner on this machine: `unisched bench plan` on clusters of several sizes, each with both shapes, all mixes and some
// seeds, one process each as an admin would run it. It prints the tables of docs/planner.md and ends with one line of ratios.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"unisched/planner/bench"
)

// size is one row of the table.
type size struct{ gpus, jobs int }

var sizes = []size{{960, 500}, {960, 1000}, {10000, 5000}, {10000, 10000}}

// instance is one answer of `unisched bench plan`.
type instance struct {
	name string
	bench.Result
}

func main() {
	bin := flag.String("bin", "bin/unisched", "the program to measure")
	seeds := flag.Int("seeds", 5, "seeds of each kind of instance")
	flag.Parse()
	if err := run(*bin, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "planbench:", err)
		os.Exit(1)
	}
}

func run(bin string, seeds int) error {
	total := len(sizes) * 2 * 3 * seeds
	done := 0
	var all [][]instance
	for _, sz := range sizes {
		var of []instance
		for _, shape := range []string{"philly", "helios"} {
			for _, mix := range []string{"strict", "mix1", "mix2"} {
				for seed := 1; seed <= seeds; seed++ {
					fmt.Fprintf(os.Stderr, "\r%d of %d  %d GPUs, %d jobs, %s, %s, seed %d      ", done, total, sz.gpus, sz.jobs, shape, mix, seed)
					in, err := one(bin, sz, shape, mix, seed)
					if err != nil {
						return err
					}
					of = append(of, in)
					done++
				}
			}
		}
		all = append(all, of)
	}
	fmt.Fprintln(os.Stderr)
	report(all)
	return nil
}

func one(bin string, sz size, shape, mix string, seed int) (instance, error) {
	args := []string{"bench", "plan", "--gpus", fmt.Sprint(sz.gpus), "--jobs", fmt.Sprint(sz.jobs), "--mix", mix, "--shape", shape, "--seed", fmt.Sprint(seed), "-o", "json"}
	in := instance{name: strings.Join(args[2:len(args)-2], " ")}
	cmd := exec.Command(bin, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return in, fmt.Errorf("%s %s: %w", bin, strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(out, &in.Result); err != nil {
		return in, fmt.Errorf("answer of %s: %w", in.name, err)
	}
	return in, nil
}

func report(all [][]instance) {
	fmt.Println("| instance | n | rows | columns | non-zeros | processor s, median | worst | wall s, median | worst | gap, worst | memory MB, worst |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for k, of := range all {
		at := func(f func(instance) float64) []float64 {
			var v []float64
			for _, in := range of {
				v = append(v, f(in))
			}
			slices.Sort(v)
			return v
		}
		cpu, wall := at(func(in instance) float64 { return in.CPUS }), at(func(in instance) float64 { return in.TotalS })
		last := len(of) - 1
		fmt.Printf("| %d GPUs, %d jobs | %d | %.0f | %.0f | %.0f | %.2f | %.2f | %.3f | %.2f | %.5f | %.0f |\n", sizes[k].gpus, sizes[k].jobs, len(of),
			mid(at(func(in instance) float64 { return float64(in.Rows) })), mid(at(func(in instance) float64 { return float64(in.Cols) })),
			mid(at(func(in instance) float64 { return float64(in.Nonzeros) })), mid(cpu), cpu[last], mid(wall), wall[last],
			at(func(in instance) float64 { return in.Gap })[last], at(func(in instance) float64 { return in.PeakRSSMB })[last])
	}
	fmt.Println("\n| instance | SLO jobs | met | best plain scheduler | our best without solver | instances where fewer are met | where the objective is lower |")
	fmt.Println("|---|---|---|---|---|---|---|")
	var met, plain, fewer, lower int
	for k, of := range all {
		var slo, m, g, own, f, l int
		for _, in := range of {
			slo, m, g, own = slo+in.SLOTotal, m+in.SLOMet, g+in.Greedy.SLOMet, own+in.GreedyCandidates.SLOMet
			if in.SLOMet < in.Greedy.SLOMet {
				f++
			}
			if in.Objective < in.Greedy.Objective {
				l++
			}
		}
		fmt.Printf("| %d GPUs, %d jobs | %d | %d | %d | %d | %d | %d |\n", sizes[k].gpus, sizes[k].jobs, slo, m, g, own, f, l)
		met, plain, fewer, lower = met+m, plain+g, fewer+f, lower+l
	}
	worst := slices.MaxFunc(slices.Concat(all...), func(a, b instance) int { return cmp.Compare(a.TotalS, b.TotalS) })
	fmt.Printf("\nBENCH deadlines met against the best plain scheduler %.3f; fewer in %d instances, a lower objective in %d; slowest plan %.2f s (%s)\n",
		float64(met)/float64(max(plain, 1)), fewer, lower, worst.TotalS, worst.name)
}

// mid is the median of sorted values.
func mid(v []float64) float64 { return v[len(v)/2] }
