package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// GPUCap is a limit of accounting on a number of GPUs.
type GPUCap struct {
	// Of is who it binds: "QOS high", "account lab", "user alice of account lab".
	Of string
	// Limit is its name in sacctmgr: MaxTRESPerJob, GrpTRES, ...
	Limit string
	// Type is the type of GPUs that it counts, "" for all. One with a type binds only jobs that name the type (seen on 24.11 and 26.05): a job of --gpus=N goes past it.
	Type  string
	Count int64
}

// capPaths are the lists of limits in a record, below "max"/"tres", and what sacctmgr calls them.
var capPaths = []struct {
	path       []string
	qos, assoc string
}{
	{[]string{"total"}, "GrpTRES", "GrpTRES"},
	{[]string{"per", "job"}, "MaxTRESPerJob", "MaxTRESPerJob"},
	{[]string{"per", "node"}, "MaxTRESPerNode", "MaxTRESPerNode"},
	{[]string{"per", "user"}, "MaxTRESPerUser", ""},
	{[]string{"per", "account"}, "MaxTRESPerAccount", ""},
	{[]string{"minutes", "total"}, "GrpTRESMins", "GrpTRESMins"},
	{[]string{"minutes", "per", "job"}, "MaxTRESMinsPerJob", "MaxTRESMinsPerJob"},
}

// maxCaps bounds what is kept of them.
const maxCaps = 10_000

// GPUCaps asks slurmdbd, through slurmrestd, for all limits on GPUs of QOS and associations, sorted.
func (c *Client) GPUCaps(ctx context.Context) ([]GPUCap, error) {
	var out []GPUCap
	read := func(of string, tres raw, assoc bool) {
		rec := &record{}
		for _, at := range capPaths {
			name := at.qos
			if assoc {
				name = at.assoc
			}
			var list []raw
			if name == "" || json.Unmarshal(dig(tres, at.path...), &list) != nil {
				continue
			}
			for _, t := range list[:min(len(list), maxItems)] {
				kind, typ, _ := strings.Cut(rec.text("", dig(t, "name")), ":")
				if rec.text("", dig(t, "type")) == "gres" && kind == "gpu" && len(out) < maxCaps {
					out = append(out, GPUCap{of, name, typ, rec.integer("", dig(t, "count"))})
				}
			}
		}
	}
	for _, q := range []call{
		{op: "get all qos", path: "/qos/", list: "qos", each: func(data raw) {
			read("QOS "+(&record{}).text("", dig(data, "name")), dig(data, "limits", "max", "tres"), false)
		}},
		{op: "get associations", path: "/associations/", list: "associations", each: func(data raw) {
			rec := &record{}
			of := "account " + rec.text("", dig(data, "account"))
			if user := rec.text("", dig(data, "user")); user != "" {
				of = "user " + user + " of " + of
			}
			if p := rec.text("", dig(data, "partition")); p != "" {
				of += " in partition " + p
			}
			read(of, dig(data, "max", "tres"), true)
		}},
	} {
		q.root, q.method, q.timeout = "/slurmdb", "GET", c.opts.Timeouts.List
		before := len(out)
		q.again = func() { out = out[:before] }
		if _, err := c.do(ctx, q); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b GPUCap) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Count, b.Count))
	})
	return out, nil
}
