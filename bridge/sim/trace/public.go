package trace

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/planner"
)

// readChronus reads the traces of the CHRONUS artifact (SoCC'21): times in minutes, deadlines relative to the submission, values 10-8-5-2.
func readChronus(t *table, _ Options) error {
	if err := t.need("job_id", "num_gpu", "submit_time", "duration", "expect_time_list", "expect_value_list", "job_type"); err != nil {
		return err
	}
	return t.each(func() error {
		j := Job{ID: t.get("job_id"), User: t.get("user"), Account: t.get("user"), Model: t.get("model_name")}
		gpus, err := t.count("num_gpu", maxGPUs)
		if err != nil {
			return err
		}
		j.GPUs = int(gpus)
		if j.Submit, err = t.span("submit_time", time.Minute); err != nil {
			return err
		}
		if j.Duration, err = t.span("duration", time.Minute); err != nil {
			return err
		}
		if t.has("iterations") {
			if j.Iterations, err = t.count("iterations", maxIters); err != nil {
				return err
			}
		}
		switch kind := t.get("job_type"); kind {
		case "best":
			j.Class = planner.BestEffort
		case "strict", "soft":
			j.Class = planner.Strict
			if kind == "soft" {
				j.Class = planner.Soft
			}
			if j.Tiers, err = t.chronusTiers(); err != nil {
				return err
			}
		default:
			return t.wrong("job_type", "%q is none of strict, soft, best", clip(kind))
		}
		t.add(j)
		return nil
	})
}

// chronusTiers reads the two lists of a row; the scale becomes 100 for the best.
func (t *table) chronusTiers() ([]Tier, error) {
	times, values := strings.Split(t.get("expect_time_list"), "-"), strings.Split(t.get("expect_value_list"), "-")
	if len(times) != len(values) || len(times) > maxTiers {
		return nil, t.wrong("expect_time_list", "%d deadlines with %d values (at most %d)", len(times), len(values), maxTiers)
	}
	var out []Tier
	top := 0.0
	for i := range times {
		at, err := strconv.ParseFloat(times[i], 64)
		if err != nil || !(at > 0) || at > maxDuration.Minutes() {
			return nil, t.wrong("expect_time_list", "%q is no deadline in minutes", clip(times[i]))
		}
		v, err := strconv.ParseFloat(values[i], 64)
		if err != nil || !(v > 0) || v > 1e6 {
			return nil, t.wrong("expect_value_list", "%q is no value", clip(values[i]))
		}
		d := time.Duration(at * float64(time.Minute))
		if n := len(out); n > 0 && (d <= out[n-1].After || v >= out[n-1].Value) {
			return nil, t.wrong("expect_time_list", "deadlines must rise and values fall")
		}
		top = max(top, v)
		out = append(out, Tier{d, v})
	}
	for i := range out {
		out[i].Value *= 100 / top
	}
	return out, nil
}

// readPhilly reads the condensed Philly trace (ATC'19): wall times, seconds.
func readPhilly(t *table, o Options) error {
	if err := t.need("timestamp", "duration", "num_gpus"); err != nil {
		return err
	}
	return t.each(func() error {
		if c := t.get("cluster"); o.Cluster != "" && c != o.Cluster {
			t.skip("another virtual cluster: left out")
			return nil
		}
		at, err := t.instant("timestamp", time.DateTime, time.UTC)
		if err != nil {
			return err
		}
		j := Job{ID: "p" + strconv.Itoa(t.line), User: t.get("cluster"), Account: t.get("cluster"), Submit: at}
		return t.plain(j, "num_gpus", "duration")
	})
}

// readITP reads the Microsoft ITP traces of ElasticFlow (ASPLOS'23): seconds.
func readITP(t *table, _ Options) error {
	if err := t.need("job_id", "submission_time", "duration", "num_gpu"); err != nil {
		return err
	}
	return t.each(func() (err error) {
		j := Job{ID: t.get("job_id")}
		if j.Submit, err = t.span("submission_time", time.Second); err != nil {
			return err
		}
		return t.plain(j, "num_gpu", "duration")
	})
}

// readHelios reads cluster_log.csv of Helios (SC'21): wall times, durations in seconds; jobs without GPUs are left out.
func readHelios(t *table, o Options) error {
	if err := t.need("job_id", "gpu_num", "submit_time", "duration"); err != nil {
		return err
	}
	return t.each(func() error {
		if c := t.get("vc"); o.Cluster != "" && c != o.Cluster {
			t.skip("another virtual cluster: left out")
			return nil
		}
		at, err := t.instant("submit_time", time.DateTime, time.UTC)
		if err != nil {
			return err
		}
		return t.plain(Job{ID: t.get("job_id"), User: t.get("user"), Account: t.get("vc"), Submit: at}, "gpu_num", "duration")
	})
}

// plain fills in GPUs and duration in seconds and adds the job.
func (t *table) plain(j Job, gpus, duration string) error {
	n, err := t.count(gpus, math.MaxInt32)
	if err != nil {
		return err
	}
	j.GPUs = int(n)
	if j.Duration, err = t.span(duration, time.Second); err != nil {
		return err
	}
	t.add(j)
	return nil
}

// instant reads a wall time as the span since 1970.
func (t *table) instant(name, layout string, zone *time.Location) (time.Duration, error) {
	v := t.get(name)
	at, err := time.ParseInLocation(layout, v, zone)
	if err != nil || at.Year() < 1980 || at.Year() > 2200 {
		return 0, t.wrong(name, "%q is no time like %s", clip(v), layout)
	}
	return time.Duration(at.Unix()) * time.Second, nil
}

// modelOf is the model of a job of a trace that names none: hash(seed, id) over the models measured.
func modelOf(seed uint64, id string, models []string) string {
	if len(models) == 0 {
		return ""
	}
	return models[mix(seed, "model", id).Uint64()%uint64(len(models))]
}

// NameModels gives a model to every job that has none.
func (t Trace) NameModels(seed uint64, models []string) Trace {
	t.Jobs = slices.Clone(t.Jobs)
	for i := range t.Jobs {
		if j := &t.Jobs[i]; !slices.Contains(models, j.Model) {
			j.Model = modelOf(seed, j.ID, models)
		}
	}
	return t
}
