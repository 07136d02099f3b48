package testcluster_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/contrib/testcluster"
)

// TestCluster walks through the helper's whole surface on one cluster. The script's own promises are asserted by
// `selftest`.
func TestCluster(t *testing.T) {
	var dir string
	t.Run("up", func(t *testing.T) {
		c := testcluster.Start(t, testcluster.Options{Nodes: 2, GPUsPerNode: 2, Unit: 20 * time.Second})
		dir = c.Dir
		describes(t, c)
		runsJob(t, c)
		answersREST(t, c)
		survivesRestart(t, c)
	})
	if t.Failed() || dir == "" {
		return
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the cluster's folder is left behind: %v", err)
	}
}

func describes(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	got := fmt.Sprint(c.Nodes, c.GPUsPerNode, c.UnitSeconds, c.Users)
	if diff := cmp.Diff("[n1 n2] 2 20 [unisched alice bob carol]", got); diff != "" {
		t.Errorf("cluster.json (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(c.Slurm, "24.11.") {
		t.Errorf("Slurm %q, want 24.11.x", c.Slurm)
	}
	out, err := exec.Command(c.Scontrol[0], append(c.Scontrol[1:], "show", "partition", "profile")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "MaxNodes=2") {
		t.Errorf("scontrol as user unisched: %v\n%s", err, out)
	}
}

func runsJob(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	id, err := c.Submit("bob", "echo \"$CUDA_VISIBLE_DEVICES $1\"\n", "--gres=gpu:2", "--wait", "--output=out", "--comment=a b")
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Exec("bob", "cat", "out")
	if err != nil || out != "0,1 \n" {
		t.Errorf("job %d printed %q (%v), want its two GPUs", id, out, err)
	}
	if _, err := c.Submit("bob", "true", "--gres=gpu:3", "--nodes=1"); err == nil {
		t.Error("a job of 3 GPUs on one node of 2 was accepted")
	}
	if _, err := c.Exec("mallory", "true"); err == nil {
		t.Error("a command ran as a user that does not exist")
	}
}

func answersREST(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	if status, body := get(t, http.DefaultClient, c.RestURL, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: HTTP %d: %s", status, body)
	}
	token, err := c.Token(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, http.DefaultClient, c.RestURL, token); status != http.StatusOK {
		t.Errorf("with a token: HTTP %d: %s", status, body)
	}
	local := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.RestSocket)
		},
	}}
	defer local.CloseIdleConnections()
	if status, body := get(t, local, "http://localhost", ""); status != http.StatusOK {
		t.Errorf("on the socket: HTTP %d: %s", status, body)
	}
}

func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/slurm/v0.0.42/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-SLURM-USER-TOKEN", token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func survivesRestart(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	if err := c.Kill9("slurmrestd"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(c.RestURL); err == nil {
		resp.Body.Close()
		t.Error("a killed slurmrestd answers")
	}
	if err := c.Start("slurmrestd"); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, http.DefaultClient, c.RestURL, strings.TrimSpace(string(token))); status != http.StatusOK {
		t.Errorf("after a restart: HTTP %d: %s", status, body)
	}
	if err := c.Stop("nonsense"); err == nil || !strings.Contains(err.Error(), "no such service") {
		t.Errorf("Stop of an unknown service: %v", err)
	}
}
