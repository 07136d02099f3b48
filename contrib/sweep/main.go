// Command sweep runs the crash sweep of the bridge, first as the product is and then without each of its safeguards in turn, and prints how many
// worlds and crash points it played and what the sweep finds when a safeguard is missing.
//
// It changes no file: journal and mutants are built with go build -overlay. It fails when the product has a failure, or when a mutant has none.
// The last line is the summary. make sweep is its caller.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tally is what the sweep's test writes.
type tally struct {
	Worlds, Effects, Calls, Points, Faults, Disk, People, Torn int
	Failed                                                     []string
	Stopped                                                    bool
}

func main() {
	most := flag.Int("failures", 5, "failures after which the sweep of a mutant stops")
	only := flag.String("only", "", "run only the mutants whose name contains this, and not the product")
	flag.StringVar(&logs, "log", "", "folder for what the test prints, in one file for the product and one for each mutant")
	flag.Parse()
	if err := run(*most, *only); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

// logs is a folder, or "".
var logs string

func run(most int, only string) error {
	dir, err := os.MkdirTemp("", "sweep")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if logs != "" { // now, not after the first quarter of an hour
		if err := os.MkdirAll(logs, 0o700); err != nil {
			return err
		}
	}
	began := time.Now()
	var product tally
	if only == "" {
		var log string
		if product, log, err = sweep(dir, mutant{}, 0); err != nil {
			return fmt.Errorf("%w\n%s", err, log)
		}
		fmt.Printf("%d worlds, %d effects, %d of them calls to Slurm\n", product.Worlds, product.Effects, product.Calls)
		fmt.Printf("%d crash points, %d failed calls, %d failures of the disk, %d interventions between a look and a call, appends cut at %d bytes: %d failures (%v)\n", product.Points,
			product.Faults, product.Disk, product.People, product.Torn, len(product.Failed), time.Since(began).Round(time.Second))
		for _, f := range product.Failed {
			fmt.Println("  FAILS:", f)
		}
	}
	fmt.Printf("\n%-60s %-10s %s\n", "without", "failures", "the first")
	survived, tried := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.safeguard, only) {
			continue
		}
		tried++
		t, log, err := sweep(dir, m, most)
		count, first := fmt.Sprint(len(t.Failed)), ""
		if t.Stopped {
			count += "+"
		}
		switch {
		case err != nil && strings.Contains(log, "panic: "): // the daemon itself fell over
			count, first = "1+", "panic"
		case err != nil:
			return fmt.Errorf("%s: %w\n%s", m.safeguard, err, log)
		case len(t.Failed) == 0:
			survived++
			first = "SURVIVES"
		default:
			first = t.Failed[0]
		}
		fmt.Printf("%-60s %-10s %s\n", m.safeguard, count, first)
	}
	fmt.Printf("\nsweep: %d worlds, %d crash points, %d failures; %d safeguards removed one at a time, %d not noticed; %v\n", product.Worlds, product.Points,
		len(product.Failed), tried, survived, time.Since(began).Round(time.Second))
	if len(product.Failed) > 0 || survived > 0 {
		return fmt.Errorf("%d failures, %d safeguards whose absence is not noticed", len(product.Failed), survived)
	}
	return nil
}

// sweep builds the sweep's test without a safeguard and runs it. The error says that there is no tally; log is the end of what it printed.
func sweep(dir string, m mutant, most int) (t tally, log string, err error) {
	overlay, err := overlayOf(dir, append(m.edits[:len(m.edits):len(m.edits)], onCrashDisk...))
	if err != nil {
		return t, "", err
	}
	binary, out := filepath.Join(dir, "sweep.test"), filepath.Join(dir, "tally.json")
	_ = os.Remove(out)
	build := exec.Command("go", "test", "-c", "-tags", "sweep", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, "./bridge")
	if text, err := build.CombinedOutput(); err != nil {
		return t, string(text), fmt.Errorf("build: %w", err)
	}
	test := exec.Command(binary, "-test.run", "^TestSweep$", "-test.timeout", "3h")
	test.Dir = "bridge"
	test.Env = append(os.Environ(), "GOGC=400", "SWEEP_OUT="+out, fmt.Sprint("SWEEP_FAILURES=", most))
	if most > 0 {
		test.Env = append(test.Env, "SWEEP_QUIET=1", "SWEEP_TEAR=0", "SWEEP_FIRST="+m.first)
	}
	text, _ := test.CombinedOutput() // its failures are in the tally
	if logs != "" {
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return '-'
		}, strings.ToLower(m.safeguard))
		if err := os.WriteFile(filepath.Join(logs, "sweep-"+name+".log"), text, 0o600); err != nil {
			return t, "", err
		}
	}
	log = string(text[max(0, len(text)-4000):])
	if at := strings.Index(string(text), "panic: "); at >= 0 {
		log = string(text[at:min(at+4000, len(text))])
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return t, log, fmt.Errorf("the sweep did not finish: %w", err)
	}
	return t, log, json.Unmarshal(b, &t)
}

// overlayOf writes the edited files and the list that go build takes.
func overlayOf(dir string, edits []edit) (string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		text, ok := texts[e.file]
		if !ok {
			b, err := os.ReadFile(e.file)
			if err != nil {
				return "", err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s: %q occurs %d times, not once: the safeguard has moved", e.file, e.old, n)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		from, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[from] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}
