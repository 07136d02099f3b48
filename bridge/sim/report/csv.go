package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/sim"
)

func writeCSV(name string, rows func(add func(...string))) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	rows(func(fields ...string) { _ = w.Write(fields) })
	w.Flush()
	if err := w.Error(); err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return file.Close()
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// since writes a time since the first submission, empty when there was none.
func since(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return seconds(d.Seconds())
}

// maybe writes a figure that may not exist.
func maybe(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', 8, 64)
}

func (r Report) jobRows(add func(...string)) {
	add("policy", "job", "user", "account", "class", "gpus", "submit_s", "duration_s", "begin_s", "end_s", "miss", "tier_met", "preemptions", "held_gpu_s", "due_s")
	for _, x := range r.Results {
		for _, o := range x.Outcomes {
			due := ""
			if o.Due > 0 {
				due = seconds((o.Submit + o.Due).Seconds())
			}
			add(x.Name, o.ID, o.User, o.Account, string(o.Class), strconv.Itoa(o.GPUs), seconds(o.Submit.Seconds()), seconds(o.Duration.Seconds()), since(o.Begin),
				since(o.End), strconv.FormatFloat(o.Miss, 'g', 6, 64), strconv.Itoa(o.Tier), strconv.Itoa(o.Preemptions), seconds(o.Held), due)
		}
	}
}

func (r Report) busyRows(add func(...string)) {
	add("policy", "from_s", "gpus_held", "utilization", "jobs_waiting", "gpus_wanted", "gpu_holes")
	for _, x := range r.Results {
		for i, v := range x.Busy {
			add(x.Name, seconds(float64(i)*x.Unit.Seconds()), seconds(v), strconv.FormatFloat(v/float64(max(x.GPUs, 1)), 'f', 4, 64), seconds(x.Waiting[i]),
				seconds(x.Wanted[i]), seconds(x.Holes[i]))
		}
	}
}

func (r Report) tenantRows(add func(...string)) {
	add("policy", "tenant", "jobs", "unfinished", "held_gpu_s", "weighted_miss", "jct_p50_s", "jct_p95_s", "jct_p99_s", "be_jct_mean_s", "be_jct_p95_s",
		"queue_wait_p50_s", "queue_wait_p95_s", "preemptions")
	for _, x := range r.Results {
		for _, t := range x.Tenants {
			add(x.Name, t.Name, strconv.Itoa(t.Jobs), strconv.Itoa(t.Unfinished), seconds(t.HeldGPU), maybe(t.WeightedMiss), maybe(t.JCTP50), maybe(t.JCTP95),
				maybe(t.JCTP99), maybe(t.BEJCTMean), maybe(t.BEJCTP95), maybe(t.WaitP50), maybe(t.WaitP95), strconv.Itoa(t.Preemptions))
		}
	}
}

// policyRows has a column for every figure that is a number or a word, under its JSON name; the accounts' names are joined with a dot.
func (r Report) policyRows(add func(...string)) {
	add(Columns()...)
	for _, x := range r.Results {
		add(Row(x.Figures)...)
	}
}

// Columns are the JSON names of the figures, in order.
func Columns() []string {
	var out []string
	columns(reflect.TypeFor[sim.Figures](), "", &out)
	return out
}

func columns(t reflect.Type, prefix string, out *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch f.Type.Kind() {
		case reflect.Slice:
		case reflect.Struct:
			columns(f.Type, prefix+name+".", out)
		default:
			*out = append(*out, prefix+name)
		}
	}
}

// Row is the figures of one policy in the order of [Columns]; empty where there is none.
func Row(f sim.Figures) []string {
	var out []string
	cells(reflect.ValueOf(f), &out)
	return out
}

func cells(v reflect.Value, out *[]string) {
	for i := range v.NumField() {
		x := v.Field(i)
		switch x.Kind() {
		case reflect.Slice:
			continue
		case reflect.Struct:
			cells(x, out)
			continue
		case reflect.Pointer:
			if x.IsNil() {
				*out = append(*out, "")
				continue
			}
			x = x.Elem()
		}
		if x.Kind() == reflect.String {
			*out = append(*out, x.String())
			continue
		}
		b, _ := json.Marshal(x.Interface())
		*out = append(*out, string(b))
	}
}
