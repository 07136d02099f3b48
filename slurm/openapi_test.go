package slurm

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestBodiesMatchOpenAPI checks what is written against the server's own
// description of its interface: right types, and no key that it does not know
// (the server itself only warns about those).
func TestBodiesMatchOpenAPI(t *testing.T) {
	base, token := os.Getenv("UNISCHED_CLUSTER_REST_URL"), os.Getenv("UNISCHED_CLUSTER_TOKEN_FILE")
	if base == "" || token == "" {
		t.Skip("no test cluster: UNISCHED_CLUSTER_REST_URL and UNISCHED_CLUSTER_TOKEN_FILE are not set")
	}
	secret, err := readToken(token)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/openapi/v3", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-SLURM-USER-TOKEN", secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		t.Fatal(err)
	}
	version, err := newClient(t, Options{URL: base, TokenFile: token}).Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The description calls priorities 32-bit signed, which Slurm's own are not.
	single := Update{Priority: Some(int64(1 << 30)), ExcludedNodes: Some([]string{"n1"})}
	bodies := map[string][]any{
		"/job/{job_id}": {everything.body(), single.body()},
		"/job/submit":   {map[string]any{"job": map[string]any{"script": "#!/bin/sh\n", "requeue": true, "environment": []string{"A=b"}, "time_limit": boxed(5), "begin_time": boxed(1), "tasks": 1, "nodes": "1-2", "array": "1-2", "hold": true}}},
	}
	if versionNumber(version) >= versionNumber(restRequeue) {
		bodies["/jobs/requeue"] = []any{map[string]any{"jobs": []string{"5"}, "flags": []string{"Incomplete"}}}
	}
	for path, examples := range bodies {
		item := doc.Paths.Value("/slurm/" + version + path)
		if item == nil || item.Post == nil {
			t.Errorf("%s: no POST", path)
			continue
		}
		schema := item.Post.RequestBody.Value.Content["application/json"].Schema.Value
		for _, body := range examples {
			var plain any
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &plain); err != nil {
				t.Fatal(err)
			}
			if err := schema.VisitJSON(plain); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			knownKeys(t, path, schema, plain)
		}
	}
}

func knownKeys(t *testing.T, path string, schema *openapi3.Schema, value any) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for key, v := range object {
		p, ok := schema.Properties[key]
		if !ok {
			t.Errorf("%s: the server does not know %q", path, key)
			continue
		}
		knownKeys(t, path+"."+key, p.Value, v)
	}
}
