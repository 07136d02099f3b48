package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"unisched/bridge/account"
	"unisched/bridge/ask"
	"unisched/bridge/control"
	"unisched/bridge/postmortem"
	"unisched/estimator"
	"unisched/planner"
)

// schemaDir is where the schema files of all documents are. They are written from the Go types (go test -update), so that a change of a document shows in review.
const schemaDir = "../../../docs/schema"

// documents are those of the API and of `-o json`, by the name of their schema file.
var documents = []struct {
	name, about string
	value       any
}{
	{"status", "unisched status; GET /v1/status", control.Status{}},
	{"jobs", "unisched jobs; GET /v1/jobs", control.Jobs{}},
	{"job", "unisched job ID; GET /v1/jobs/ID", control.Job{}},
	{"explain", "unisched explain ID; GET /v1/explain/ID", ask.Explanation{}},
	{"whatif", "unisched whatif; the answer of POST /v1/whatif", ask.Answer{}},
	{"question", "what POST /v1/whatif takes", ask.Question{}},
	{"plan", "unisched plan; GET /v1/plan", planner.Plan{}},
	{"plan-diff", "unisched plan diff; GET /v1/plandiff", planner.PlanDiff{}},
	{"snapshot", "GET /v1/snapshot; what unisched plan --snapshot reads", planner.Snapshot{}},
	{"forecast", "unisched report forecast; GET /v1/forecast", estimator.ForecastReport{}},
	{"slo", "unisched report slo", account.Report{}},
	{"ended", "GET /v1/ended; the lines of state_dir/ended are its jobs", account.Document{}},
	{"postmortem", "unisched postmortem JOB", postmortem.Report{}},
	{"worst", "unisched postmortem --worst; the files of state_dir/postmortem", worstDoc{}},
	{"assess", "unisched assess", assessDoc{}},
	{"board", "unisched gantt; GET /v1/board", control.Board{}},
	{"history", "GET /v1/history/ID", control.History{}},
	{"result", "the answer to an order: unisched pause, resume, release", control.Result{}},
	{"problem", "every failure with -o json, and every answer of the API that is not 2xx", control.Problem{}},
	{"lint", "unisched lint; unisched parse comment", lintDoc{}},
}

// schemas collects the definitions of one schema file.
type schemas struct{ defs map[string]any }

func schemaOf(title, about string, v any) map[string]any {
	s := schemas{defs: map[string]any{}}
	root := s.object(reflect.TypeOf(v))
	root["$schema"], root["title"], root["description"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", title, about, s.defs
	return root
}

// of is the schema of a type.
func (s *schemas) of(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "integer", "description": "nanoseconds"}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return map[string]any{"type": "integer"}
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Struct:
		name := strings.ReplaceAll(t.String(), "main.", "")
		if _, ok := s.defs[name]; !ok {
			s.defs[name] = nil // a type that holds itself
			s.defs[name] = s.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	panic("no schema for " + t.String())
}

// object is the schema of a struct's members, embedded ones included. Members may be added within a schema_version, so that others than these are allowed.
func (s *schemas) object(t reflect.Type) map[string]any {
	props, required := map[string]any{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		var inside []reflect.Type
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				inside = append(inside, f.Type)
				continue
			case name == "-" || !f.IsExported():
				continue
			case name == "":
				name = f.Name
			}
			if _, shadowed := props[name]; shadowed {
				continue
			}
			if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && f.Type.Elem().NumField() == 0 {
				props[name] = false // never there: it hides a member of what is embedded
				continue
			}
			props[name] = s.of(f.Type)
			if !strings.Contains(options, "omit") {
				required = append(required, name)
			}
		}
		for _, t := range inside {
			add(t)
		}
	}
	add(t)
	for name, p := range props {
		if p == false {
			delete(props, name)
		}
	}
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": props, "required": required}
}

// TestSchemaFiles: the files say what the code does.
func TestSchemaFiles(t *testing.T) {
	for _, d := range documents {
		raw, err := json.MarshalIndent(schemaOf(d.name, d.about, d.value), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join(schemaDir, d.name+".json"), string(raw)+"\n")
	}
	files, err := filepath.Glob(filepath.Join(schemaDir, "*.json"))
	if err != nil || len(files) != len(documents) {
		t.Errorf("%d files for %d documents, %v", len(files), len(documents), err)
	}
}

// strict forbids members that the schema does not name: what a document says must be in its schema.
func strict(v any) {
	switch x := v.(type) {
	case map[string]any:
		if x["type"] == "object" {
			x["additionalProperties"] = false
		}
		for _, y := range x {
			strict(y)
		}
	case []any:
		for _, y := range x {
			strict(y)
		}
	}
}

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(schemaDir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	strict(doc)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOutputsKeepToTheSchemas runs the commands against a daemon and holds what they print against the files.
func TestOutputsKeepToTheSchemas(t *testing.T) {
	script := filepath.Join(t.TempDir(), "train.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH --gpus=4 -t 60\n#SBATCH --comment='unisched:class=strict,deadline=now+9h,stop=iters:100,ckpt=USR1'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := simulated(t)
	for _, tt := range []struct {
		name, schema string
		args         []string
	}{
		{"status", "status", []string{"status"}}, {"jobs", "jobs", []string{"jobs"}}, {"job", "job", []string{"job", "1"}}, {"explain", "explain", []string{"explain", "1"}},
		{"explain one that waits", "explain", []string{"explain", "3"}}, {"gantt", "board", []string{"gantt"}}, {"plan", "plan", []string{"plan"}}, {"plan diff", "plan-diff", []string{"plan", "diff"}},
		{"what-if", "whatif", []string{"whatif", script}}, {"what-if that is not managed", "whatif", []string{"whatif", "--gpus", "1", "--comment", "hello"}},
		{"forecast", "forecast", []string{"report", "forecast"}}, {"lint", "lint", []string{"lint", "unisched:class=strict"}}, {"pause", "result", []string{"pause"}},
		{"a job that is not there", "problem", []string{"explain", "4711"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			a := testApp()
			a.out, a.err, a.env = &out, &errs, func(string) string { return "" }
			a.run(t.Context(), append([]string{"--socket", socket, "-o", "json"}, tt.args...))
			doc, err := jsonschema.UnmarshalJSON(&out)
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			if err := compiled(t, tt.schema).Validate(doc); err != nil {
				t.Errorf("%#v", err)
			}
			if m, ok := doc.(map[string]any); !ok || m["schema_version"] == nil {
				t.Error("no schema_version")
			}
		})
	}
	t.Run("snapshot and history", func(t *testing.T) {
		c := control.Client{Path: socket}
		for path, schema := range map[string]string{control.PathSnapshot: "snapshot", control.PathHistory + "1": "history"} {
			raw, err := c.Raw(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled(t, schema).Validate(doc); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("a member that no schema names", func(t *testing.T) {
		if err := compiled(t, "result").Validate(map[string]any{"schema_version": json.Number("1"), "ok": true, "text": "", "more": "x"}); err == nil {
			t.Error("passes")
		}
	})
}
