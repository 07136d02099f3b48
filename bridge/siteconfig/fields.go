package siteconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// field is one key of the file: how it is read and how it is shown. The table below is the only list of keys.
type field struct {
	key  string // "bridge.unit"
	kind string // what people call its type
	set  func(*Site, any) error
	get  func(*Site) string // as TOML
}

// Fault types that every reader below gives for a value of another type.
var errType = errors.New("wrong type")

func wrong(want string, v any) error {
	return fmt.Errorf("%w: want %s, got %s", errType, want, kind(v))
}

func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "another type"
}

func text(key string, at func(*Site) *string) field {
	return field{key, "text", func(s *Site, v any) error {
		x, ok := v.(string)
		if !ok {
			return wrong("a string", v)
		}
		*at(s) = x
		return nil
	}, func(s *Site) string { return strconv.Quote(*at(s)) }}
}

func list(key string, at func(*Site) *[]string) field {
	return field{key, "list of text", func(s *Site, v any) error {
		items, ok := v.([]any)
		if !ok {
			return wrong(`an array of strings such as ["a", "b"]`, v)
		}
		out := make([]string, len(items))
		for i, it := range items {
			if out[i], ok = it.(string); !ok {
				return fmt.Errorf("element %d: %w", i+1, wrong("a string", it))
			}
		}
		*at(s) = out
		return nil
	}, func(s *Site) string {
		out := "["
		for i, x := range *at(s) {
			if i > 0 {
				out += ", "
			}
			out += strconv.Quote(x)
		}
		return out + "]"
	}}
}

func span(key string, at func(*Site) *time.Duration) field {
	return field{key, "duration", func(s *Site, v any) error {
		x, ok := v.(string)
		if !ok {
			return wrong(`a duration in quotes such as "5m" or "90s"`, v)
		}
		d, err := time.ParseDuration(x)
		if err != nil {
			return fmt.Errorf(`%q is no duration such as "5m" or "90s"`, x)
		}
		*at(s) = d
		return nil
	}, func(s *Site) string { return strconv.Quote(shortSpan(*at(s))) }}
}

// shortSpan writes 5m instead of 5m0s.
func shortSpan(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

func whole(key string, at func(*Site) *int) field {
	return field{key, "integer", func(s *Site, v any) error {
		x, ok := v.(int64)
		if !ok {
			return wrong("an integer", v)
		}
		if int64(int(x)) != x {
			return fmt.Errorf("%d is out of range", x)
		}
		*at(s) = int(x)
		return nil
	}, func(s *Site) string { return strconv.Itoa(*at(s)) }}
}

func real(key string, at func(*Site) *float64) field {
	return field{key, "number", func(s *Site, v any) error {
		switch x := v.(type) {
		case int64:
			*at(s) = float64(x)
		case float64:
			*at(s) = x
		default:
			return wrong("a number", v)
		}
		return nil
	}, func(s *Site) string { return strconv.FormatFloat(*at(s), 'g', -1, 64) }}
}

// mode reads an octal file mode, in quotes ("0660") or as TOML's own octal number (0o660). A plain 660 would be a decimal number that
// nobody means, and is a fault.
func mode(key string, at func(*Site) *fs.FileMode) field {
	return field{key, "file mode", func(s *Site, v any) error {
		x, ok := v.(string)
		if !ok {
			return wrong(`a mode in quotes such as "0660"`, v)
		}
		n, err := strconv.ParseUint(x, 8, 32)
		if err != nil {
			return fmt.Errorf(`%q is no mode such as "0660"`, x)
		}
		*at(s) = fs.FileMode(n)
		return nil
	}, func(s *Site) string { return fmt.Sprintf(`"%04o"`, uint32(*at(s))) }}
}

func zone(key string, at func(*Site) **time.Location) field {
	return field{key, "time zone", func(s *Site, v any) error {
		x, ok := v.(string)
		if !ok {
			return wrong("a time zone name", v)
		}
		z, err := time.LoadLocation(x)
		if err != nil {
			return fmt.Errorf("%q is no time zone such as \"Europe/Berlin\": %w", x, err)
		}
		*at(s) = z
		return nil
	}, func(s *Site) string {
		if *at(s) == nil {
			return `""`
		}
		return strconv.Quote((*at(s)).String())
	}}
}

// fields lists every key in the order in which the file and `config show` have them.
var fields = []field{
	text("slurm.url", func(s *Site) *string { return &s.Slurm.URL }),
	list("slurm.urls", func(s *Site) *[]string { return &s.Slurm.URLs }),
	text("slurm.token_file", func(s *Site) *string { return &s.Slurm.TokenFile }),
	text("slurm.user", func(s *Site) *string { return &s.Slurm.User }),
	list("slurm.scontrol", func(s *Site) *[]string { return &s.Slurm.Scontrol }),
	span("slurm.timeout", func(s *Site) *time.Duration { return &s.Slurm.Timeout }),
	span("slurm.list_timeout", func(s *Site) *time.Duration { return &s.Slurm.ListTimeout }),

	text("daemon.state_dir", func(s *Site) *string { return &s.Daemon.StateDir }),
	text("daemon.control_socket", func(s *Site) *string { return &s.Daemon.ControlSocket }),
	mode("daemon.socket_mode", func(s *Site) *fs.FileMode { return &s.Daemon.SocketMode }),
	text("daemon.socket_group", func(s *Site) *string { return &s.Daemon.SocketGroup }),
	list("daemon.operators", func(s *Site) *[]string { return &s.Daemon.Operators }),
	text("daemon.listen", func(s *Site) *string { return &s.Daemon.Listen }),
	text("daemon.node_key_file", func(s *Site) *string { return &s.Daemon.NodeKeyFile }),
	text("daemon.tls_cert_file", func(s *Site) *string { return &s.Daemon.TLSCertFile }),
	text("daemon.tls_key_file", func(s *Site) *string { return &s.Daemon.TLSKeyFile }),
	text("daemon.log_level", func(s *Site) *string { return &s.Daemon.LogLevel }),

	text("web.listen", func(s *Site) *string { return &s.Web.Listen }),
	list("web.hosts", func(s *Site) *[]string { return &s.Web.Hosts }),

	text("bridge.stage", func(s *Site) *string { return (*string)(&s.Bridge.Stage) }),
	list("bridge.partition_stages", func(s *Site) *[]string { return &s.Bridge.PartitionStages }),
	real("bridge.canary_share", func(s *Site) *float64 { return &s.Bridge.CanaryShare }),
	span("bridge.unit", func(s *Site) *time.Duration { return &s.Bridge.Unit }),
	whole("bridge.slo_lease_units", func(s *Site) *int { return &s.Bridge.SLOUnits }),
	span("bridge.poll", func(s *Site) *time.Duration { return &s.Bridge.Poll }),
	span("bridge.delay", func(s *Site) *time.Duration { return &s.Bridge.Delay }),
	list("bridge.partitions", func(s *Site) *[]string { return &s.Bridge.Partitions }),
	text("bridge.profile_partition", func(s *Site) *string { return &s.Bridge.ProfilePartition }),
	span("bridge.profile_time", func(s *Site) *time.Duration { return &s.Bridge.ProfileTime }),
	whole("bridge.requeue_exit", func(s *Site) *int { return &s.Bridge.RequeueExit }),
	text("bridge.priority_mode", func(s *Site) *string { return &s.Bridge.PriorityMode }),
	span("bridge.checkpoint_timeout", func(s *Site) *time.Duration { return &s.Bridge.CheckpointTimeout }),
	whole("bridge.checkpoint_strikes", func(s *Site) *int { return &s.Bridge.CheckpointStrikes }),
	text("bridge.unconfirmed", func(s *Site) *string { return &s.Bridge.Unconfirmed }),
	whole("bridge.max_checkpoints", func(s *Site) *int { return &s.Bridge.MaxCheckpoints }),
	whole("bridge.max_starts", func(s *Site) *int { return &s.Bridge.MaxStarts }),
	whole("bridge.max_actions", func(s *Site) *int { return &s.Bridge.MaxActions }),
	span("bridge.start_timeout", func(s *Site) *time.Duration { return &s.Bridge.StartTimeout }),
	zone("bridge.zone", func(s *Site) **time.Location { return &s.Bridge.Zone }),

	real("planner.quantile", func(s *Site) *float64 { return &s.Bridge.Quantile }),
	span("planner.solver_limit", func(s *Site) *time.Duration { return &s.Planner.SolverLimit }),
	list("planner.account_weights", func(s *Site) *[]string { return &s.Bridge.AccountWeights }),
	list("planner.qos_weights", func(s *Site) *[]string { return &s.Bridge.QOSWeights }),
	real("planner.reward_ratio", func(s *Site) *float64 { return &s.Planner.RewardRatio }),
	whole("planner.max_preemptions_per_hour", func(s *Site) *int { return &s.Bridge.MaxPreemptionsPerHour }),
	whole("planner.max_job_preemptions_per_hour", func(s *Site) *int { return &s.Bridge.MaxJobPreemptionsPerHour }),
	span("planner.resume_timeout", func(s *Site) *time.Duration { return &s.Bridge.ResumeTimeout }),
	span("planner.suspend_timeout", func(s *Site) *time.Duration { return &s.Bridge.SuspendTimeout }),
	span("planner.min_run", func(s *Site) *time.Duration { return &s.Bridge.MinRun }),
	span("planner.share_half_life", func(s *Site) *time.Duration { return &s.Bridge.ShareHalfLife }),

	list("admission.strict_qos", func(s *Site) *[]string { return &s.Bridge.Admission.StrictQOS }),
	list("admission.strict_accounts", func(s *Site) *[]string { return &s.Bridge.Admission.StrictAccounts }),
	list("admission.soft_qos", func(s *Site) *[]string { return &s.Bridge.Admission.SoftQOS }),
	list("admission.soft_accounts", func(s *Site) *[]string { return &s.Bridge.Admission.SoftAccounts }),
	real("admission.job_gpu_hours", func(s *Site) *float64 { return &s.Bridge.Admission.JobGPUHours }),
	real("admission.wait_hours", func(s *Site) *float64 { return &s.Bridge.Admission.WaitHours }),
	real("admission.strict_gpu_hours", func(s *Site) *float64 { return &s.Bridge.Admission.StrictGPUHours }),
	span("admission.budget_window", func(s *Site) *time.Duration { return &s.Bridge.Admission.BudgetWindow }),

	text("topology.file", func(s *Site) *string { return &s.TopologyFile }),

	text("metrics.listen", func(s *Site) *string { return &s.Metrics.Listen }),

	list("notify.command", func(s *Site) *[]string { return &s.Notify.Command }),
	text("notify.webhook", func(s *Site) *string { return &s.Notify.Webhook }),
	text("notify.webhook_token_file", func(s *Site) *string { return &s.Notify.TokenFile }),
	list("notify.on", func(s *Site) *[]string { return &s.Notify.On }),
	span("notify.timeout", func(s *Site) *time.Duration { return &s.Notify.Timeout }),
	span("notify.repeat", func(s *Site) *time.Duration { return &s.Notify.Repeat }),
	whole("notify.per_hour", func(s *Site) *int { return &s.Notify.PerHour }),

	span("replay.min_span", func(s *Site) *time.Duration { return &s.Replay.MinSpan }),
	whole("replay.min_jobs", func(s *Site) *int { return &s.Replay.MinJobs }),
	real("replay.max_timeouts", func(s *Site) *float64 { return &s.Replay.MaxTimeouts }),
	real("replay.max_cached", func(s *Site) *float64 { return &s.Replay.MaxCached }),
	real("replay.max_be_jct", func(s *Site) *float64 { return &s.Replay.MaxBEJCT }),
	real("replay.max_preemptions", func(s *Site) *float64 { return &s.Replay.MaxPreemptions }),
	real("replay.max_holes", func(s *Site) *float64 { return &s.Replay.MaxHoles }),
	real("replay.max_forecast_error", func(s *Site) *float64 { return &s.Replay.MaxForecastError }),
	real("replay.min_coverage", func(s *Site) *float64 { return &s.Replay.MinCoverage }),
	real("replay.max_miss", func(s *Site) *float64 { return &s.Replay.MaxMiss }),
}
