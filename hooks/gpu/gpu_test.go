package gpu

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// case 39: what is not known is "unavailable" in JSON, never 0, and comes back as such.
func TestUnavailableIsNotZero(t *testing.T) {
	r := Report{SchemaVersion: 1, Time: time.Unix(1e9, 0).UTC(), Source: NVML, GPUs: []Sample{
		{Index: 0, Slice: -1, Health: Well, MIG: "on", MemoryUsed: Of(0), Throttled: []string{}, ThrottledKnown: true}}}
	line, err := r.Line()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"utilization_percent":"unavailable"`, `"memory_used_bytes":0`, `"ecc_corrected":"unavailable"`} {
		if !strings.Contains(string(line), want) {
			t.Errorf("%s lacks %s", line, want)
		}
	}
	back, err := Parse(line)
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v", back, err)
	}
	if s := (Value{}).String() + " " + Of(7.5).String(); s != "unavailable 7.5" {
		t.Error(s)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in string }{
		{"no JSON", "x"},
		{"another schema", `{"schema_version":2,"source":"nvml"}`},
		{"a source that is none", `{"schema_version":1,"source":"me"}`},
		{"a bad index", `{"schema_version":1,"source":"nvml","gpus":[{"gpu":-1,"slice":-1}]}`},
		{"too many", `{"schema_version":1,"source":"nvml","gpus":[{}` + strings.Repeat(",{}", MaxSamples) + `]}`},
		{"too long", `{"why":"` + strings.Repeat("x", MaxBytes) + `"}`},
	} {
		if _, err := Parse([]byte(tt.in)); !errors.Is(err, ErrReport) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestParseMakesHarmless(t *testing.T) {
	got, err := Parse([]byte(`{"schema_version":1,"source":"unavailable","why":"a\u001b[31m\nb","gpus":[{"gpu":1,"slice":-1,"health":"?","mig":"?","utilization_percent":400,` +
		`"memory_used_bytes":-5,"memory_total_bytes":"1e400","ecc_corrected":{},"throttled":["b","a","b"]}]}`))
	want := Report{SchemaVersion: 1, Source: Nobody, Why: "a[31mb", GPUs: []Sample{{Index: 1, Slice: -1, Health: Silent, MIG: "unavailable", Throttled: []string{"a", "b"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestThrottles(t *testing.T) {
	for mask, want := range map[uint64]string{0: "[]", 1: "[idle]", 4: "[power]", 0x28: "[hardware thermal]", 1 << 40: "[bit-40]"} {
		if b, _ := json.Marshal(Throttles(mask)); strings.ReplaceAll(strings.ReplaceAll(string(b), `"`, ""), ",", " ") != want {
			t.Errorf("%#x: %s", mask, b)
		}
	}
	if n := len(Throttles(^uint64(0))); n != maxThrottles {
		t.Error(n)
	}
}

// case 39: every way in which nvidia-smi says that it does not know.
func TestParseSMI(t *testing.T) {
	const whole = "0, GPU-aa, NVIDIA H200, Disabled, 97, 1024, 143771, 0x0000000000000004, 3, 0"
	well := Sample{Index: 0, Slice: -1, UUID: "GPU-aa", Name: "NVIDIA H200", Health: Well, MIG: "off", Utilization: Of(97), MemoryUsed: Of(1024 << 20),
		MemoryTotal: Of(143771 << 20), Corrected: Of(3), Uncorrected: Of(0), Throttled: []string{"power"}, ThrottledKnown: true}
	for _, tt := range []struct {
		name, in string
		want     []Sample
		bad      bool
	}{
		{"whole", whole + "\n", []Sample{well}, false},
		{"nothing", "\n \n", nil, false},
		{"old card without ECC", "1, GPU-bb, GeForce, [N/A], 0, 5, 10, [Not Supported], [N/A], [N/A]", []Sample{{Index: 1, Slice: -1, UUID: "GPU-bb", Name: "GeForce", Health: Well,
			MIG: "unavailable", Utilization: Of(0), MemoryUsed: Of(5 << 20), MemoryTotal: Of(10 << 20), Throttled: []string{}}}, false},
		{"MIG has no utilisation, whatever is written", "2, GPU-cc, A100, Enabled, 0, 5, 10, 0x0, 0, 0", []Sample{{Index: 2, Slice: -1, UUID: "GPU-cc", Name: "A100", Health: Well,
			MIG: "on", MemoryUsed: Of(5 << 20), MemoryTotal: Of(10 << 20), Corrected: Of(0), Uncorrected: Of(0), Throttled: []string{}, ThrottledKnown: true}}, false},
		{"unknown error", "3, GPU-dd, A100, [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error]",
			[]Sample{{Index: 3, Slice: -1, UUID: "GPU-dd", Name: "A100", Health: Silent, MIG: "unavailable", Throttled: []string{}}}, false},
		{"lost", "4, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]",
			[]Sample{{Index: 4, Slice: -1, Health: Lost, MIG: "unavailable", Throttled: []string{}}}, false},
		{"not a table", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", nil, true},
		{"bad after good", whole + "\nx, y", []Sample{well}, true},
		{"no index", strings.Replace(whole, "0,", "-1,", 1), nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseSMI([]byte(tt.in))
			if !reflect.DeepEqual(got, tt.want) || (err != nil) != tt.bad {
				t.Errorf("%+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add([]byte("0, GPU-aa, NVIDIA H200, Disabled, 97, 1024, 143771, 0x0000000000000004, 3, 0\n"))
	f.Add([]byte("1, [GPU is lost], ,Enabled,[N/A],ERR!,9999999999999999999,0xg,-1,1e9"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _ := ParseSMI(in)
		r := Report{SchemaVersion: 1, Source: SMI, GPUs: got}
		line, err := r.Line()
		if err != nil {
			return // over the bound
		}
		if _, err := Parse(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema_version":1,"source":"nvml","gpus":[{"gpu":0,"slice":-1,"utilization_percent":"unavailable","throttled":null}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Parse(in)
		if err != nil {
			return
		}
		line, err := r.Line()
		if err != nil {
			return
		}
		again, err := Parse(line)
		if err != nil || !reflect.DeepEqual(r.GPUs, again.GPUs) {
			t.Fatalf("%+v, %+v, %v", r, again, err)
		}
	})
}
