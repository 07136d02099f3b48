package gpu

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// SMIArgs are the arguments with which nvidia-smi writes what ParseSMI reads.
func SMIArgs() []string {
	return []string{"--query-gpu=index,uuid,name,mig.mode.current,utilization.gpu,memory.used,memory.total," +
		"clocks_throttle_reasons.active,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total", "--format=csv,noheader,nounits"}
}

const smiColumns = 10

// ParseSMI reads the lines that nvidia-smi writes when it is called with SMIArgs. What is in brackets, such as "[N/A]", "[Not Supported]" or
// "[Unknown Error]", and whatever else is no number, is unavailable; a line with other columns is an error, after those before it.
func ParseSMI(out []byte) ([]Sample, error) {
	var samples []Sample
	for line := range bytes.Lines(out[:min(len(out), MaxBytes)]) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		f := strings.Split(text, ",")
		if len(f) != smiColumns {
			return samples, fmt.Errorf("nvidia-smi: %d columns, want %d: %q", len(f), smiColumns, Plain(text))
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		index, err := strconv.ParseUint(f[0], 10, 16)
		if err != nil || len(samples) == MaxSamples {
			return samples, fmt.Errorf("nvidia-smi: device %q", Plain(f[0]))
		}
		s := Sample{Index: int(index), Slice: -1, UUID: word(f[1]), Name: word(f[2]), Health: Well, MIG: unavailable, Throttled: []string{},
			Utilization: number(f[4], 1), MemoryUsed: number(f[5], 1<<20), MemoryTotal: number(f[6], 1<<20), Corrected: number(f[8], 1), Uncorrected: number(f[9], 1)}
		switch strings.ToLower(f[3]) {
		case "enabled":
			s.MIG = "on"
			s.Utilization = Value{}
		case "disabled":
			s.MIG = "off"
		}
		if mask, err := strconv.ParseUint(strings.TrimPrefix(f[7], "0x"), 16, 64); err == nil && strings.HasPrefix(f[7], "0x") {
			s.Throttled, s.ThrottledKnown = Throttles(mask), true
		}
		if s.Utilization.N > 100 {
			s.Utilization = Value{}
		}
		switch lower := strings.ToLower(text); {
		case strings.Contains(lower, "lost"):
			s.Health = Lost
		case !s.MemoryTotal.Known && (strings.Contains(lower, "error") || strings.Contains(lower, "err!")):
			s.Health = Silent
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func number(s string, unit float64) Value {
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil {
		return Value{}
	}
	return Of(float64(n) * unit)
}

func word(s string) string {
	if strings.HasPrefix(s, "[") {
		return ""
	}
	return Plain(s)
}
