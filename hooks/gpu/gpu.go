// Package gpu holds what a node tells of its GPUs: one Report per look, a Sample per device or slice of one. A value that the device, its driver or the
// library does not give is "unavailable", in JSON too, and never 0: a GPU of which nothing is known must not look idle. The package refuses to touch a
// device; hooks/cmd/unisched-gpu does, hooks/cmd/unisched-node passes its lines on, bridge/nodes takes them. It uses the standard library only, trusts no
// line, and reads no clock.
package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds on one report.
const (
	SchemaVersion = 1
	MaxBytes      = 128 << 10 // of a line
	MaxSamples    = 256       // devices and slices of one node
	maxText       = 256
	maxThrottles  = 16
)

// ErrReport is wrapped by every error of Parse.
var ErrReport = errors.New("gpu report")

// unavailable is what stands where a value is not known.
const unavailable = "unavailable"

// Value is a number that may be unavailable, which its zero value is.
type Value struct {
	N     float64
	Known bool
}

// Of is a known value.
func Of(n float64) Value { return Value{n, true} }

// String is the number, or "unavailable".
func (v Value) String() string {
	if !v.Known {
		return unavailable
	}
	return strconv.FormatFloat(v.N, 'f', -1, 64)
}

// MarshalJSON writes the number, or "unavailable".
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known || math.IsNaN(v.N) || math.IsInf(v.N, 0) {
		return []byte(`"` + unavailable + `"`), nil
	}
	return json.Marshal(v.N)
}

// UnmarshalJSON reads a number; whatever else is there is unavailable.
func (v *Value) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(string(b), 64)
	*v = Value{}
	if err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		*v = Of(n)
	}
	return nil
}

// Health is what a device is good for.
type Health string

// The states of a device. A Silent one answers with errors, a Lost one has fallen off the bus and needs its node to be restarted.
const (
	Well   Health = "ok"
	Silent Health = "silent"
	Lost   Health = "lost"
)

// Sample is one GPU, or one MIG slice of it.
type Sample struct {
	Index int `json:"gpu"`   // of the device
	Slice int `json:"slice"` // of a MIG slice, -1 for a whole device
	// Minor is the number of the device's file, /dev/nvidiaN, which may differ from its index. Slurm counts by files.
	Minor  Value  `json:"minor"`
	UUID   string `json:"uuid,omitempty"` // "" when unavailable
	Name   string `json:"name,omitempty"`
	Health Health `json:"health"`
	MIG    string `json:"mig"` // "on", "off", "unavailable"; a device with "on" has no utilisation of its own
	// Utilization is the share of the last moments in which a kernel ran, in percent.
	Utilization Value `json:"utilization_percent"`
	MemoryUsed  Value `json:"memory_used_bytes"`
	MemoryTotal Value `json:"memory_total_bytes"`
	// Corrected and Uncorrected count memory errors since the driver was loaded.
	Corrected   Value `json:"ecc_corrected"`
	Uncorrected Value `json:"ecc_uncorrected"`
	// Throttled says why clocks are lowered, sorted: "idle", "power", "thermal", "hardware", ... ThrottledKnown is false when nobody says.
	Throttled      []string `json:"throttled"`
	ThrottledKnown bool     `json:"throttled_known"`
}

// Where reports come from.
const (
	NVML   = "nvml"
	SMI    = "nvidia-smi"
	Nobody = unavailable
)

// Report is one look at a node's GPUs.
type Report struct {
	SchemaVersion int       `json:"schema_version"`
	Time          time.Time `json:"time"`
	Source        string    `json:"source"`        // NVML, SMI or Nobody
	Why           string    `json:"why,omitempty"` // of Nobody, or of what went wrong beside the devices
	GPUs          []Sample  `json:"gpus"`
}

// Line is the report as one line of JSON with its newline.
func (r Report) Line() ([]byte, error) {
	if r.GPUs == nil {
		r.GPUs = []Sample{}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if len(b) >= MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrReport, len(b), MaxBytes)
	}
	return append(b, '\n'), nil
}

// Parse reads one line. Texts are cut to what is printable; a report over a bound is an error.
func Parse(line []byte) (Report, error) {
	if len(line) > MaxBytes {
		return Report{}, fmt.Errorf("%w: %d bytes, at most %d", ErrReport, len(line), MaxBytes)
	}
	var r Report
	if err := json.Unmarshal(line, &r); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if err := r.Check(); err != nil {
		return Report{}, err
	}
	return r, nil
}

// Check holds a report to its bounds and makes its texts harmless.
func (r *Report) Check() error {
	switch {
	case r.SchemaVersion != SchemaVersion:
		return fmt.Errorf("%w: schema_version %d, want %d", ErrReport, r.SchemaVersion, SchemaVersion)
	case len(r.GPUs) > MaxSamples:
		return fmt.Errorf("%w: %d devices, at most %d", ErrReport, len(r.GPUs), MaxSamples)
	case !slices.Contains([]string{NVML, SMI, Nobody}, r.Source):
		return fmt.Errorf("%w: source %.32q", ErrReport, r.Source)
	}
	r.Why = Plain(r.Why)
	if r.GPUs == nil {
		r.GPUs = []Sample{}
	}
	for i := range r.GPUs {
		s := &r.GPUs[i]
		if s.Index < 0 || s.Index >= 1<<16 || s.Slice < -1 || s.Slice >= 1<<16 {
			return fmt.Errorf("%w: device %d slice %d", ErrReport, s.Index, s.Slice)
		}
		s.UUID, s.Name = Plain(s.UUID), Plain(s.Name)
		if !slices.Contains([]Health{Well, Silent, Lost}, s.Health) {
			s.Health = Silent
		}
		if s.MIG != "on" && s.MIG != "off" {
			s.MIG = unavailable
		}
		for _, v := range []*Value{&s.Minor, &s.Utilization, &s.MemoryUsed, &s.MemoryTotal, &s.Corrected, &s.Uncorrected} {
			if v.N < 0 || v.N > 1<<62 {
				*v = Value{}
			}
		}
		if s.Utilization.N > 100 {
			s.Utilization = Value{}
		}
		s.Throttled = s.Throttled[:min(len(s.Throttled), maxThrottles)]
		for k := range s.Throttled {
			s.Throttled[k] = Plain(s.Throttled[k])
		}
		slices.Sort(s.Throttled)
		if s.Throttled = slices.Compact(s.Throttled); s.Throttled == nil {
			s.Throttled = []string{}
		}
	}
	return nil
}

// Plain is a text of others without what is not printable ASCII, cut short.
func Plain(s string) string {
	s = s[:min(len(s), 4*maxText)]
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), maxText)]
}

// throttles are the bits of the vendor's mask, by name. Bit 0 says that nothing runs and is no fault.
var throttles = []string{"idle", "applications", "power", "hardware", "sync-boost", "thermal", "hardware-thermal", "power-brake", "display"}

// Throttles names the bits of a mask, sorted.
func Throttles(mask uint64) []string {
	out := []string{}
	for i := range 64 {
		if mask&(1<<i) == 0 {
			continue
		}
		name := "bit-" + strconv.Itoa(i)
		if i < len(throttles) {
			name = throttles[i]
		}
		if out = append(out, name); len(out) == maxThrottles {
			break
		}
	}
	slices.Sort(out)
	return out
}
