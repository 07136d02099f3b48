package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/events"
	"unisched/bridge/siteconfig"
)

// Bounds of a bundle, before compression.
const (
	maxBundleFile  = 32 << 20
	maxBundleBytes = 96 << 20
	tailBytes      = 1 << 20
	logLines       = 2000
)

func (a *app) debugCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "debug", Short: "For bug reports", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("debug: want bundle") },
	}
	var out string
	var rounds int
	b := &cobra.Command{
		Use: "bundle", Short: "One file with all that a bug report needs", Args: cobra.NoArgs,
		Long: "Collects status, jobs, plan, snapshot, metrics, events, configuration (secrets removed), the last rounds, the end of journal and log, and\n" +
			"versions into one tar.gz. Run it as root, or as the daemon's user: what cannot be read is left out, and CONTENTS.txt says so.\n" +
			"Names of jobs and users and the users' comments are in it.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			if rounds < 0 || rounds > 50 {
				return coded{exitUsage, fmt.Errorf("--rounds %d is not within 0..50", rounds)}
			}
			return a.bundle(cmd, out, rounds)
		}),
	}
	b.Flags().StringVar(&out, "out", "", "the `file` to write, which must not exist (default unisched-bundle-TIME.tar.gz)")
	b.Flags().IntVar(&rounds, "rounds", 3, "how many of the last rounds go along")
	c.AddCommand(b)
	return c
}

// bundle is what has been collected so far.
type bundle struct {
	a     *app
	now   time.Time
	tw    *tar.Writer
	left  int
	hide  [][]byte
	items []bundleItem
}

// bundleItem is one line of the table of contents.
type bundleItem struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Note  string `json:"note,omitempty"` // why it is not there, or not whole
}

func (a *app) bundle(cmd *cobra.Command, out string, rounds int) error {
	site, settings, err := a.site()
	if settings == nil && err != nil {
		return err
	}
	now := a.now().UTC()
	out = cmp.Or(out, "unisched-bundle-"+now.Format("20060102T150405Z")+".tar.gz")
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	zip := gzip.NewWriter(f)
	b := &bundle{a: a, now: now, tw: tar.NewWriter(zip), left: maxBundleBytes, hide: secrets(site)}
	b.fill(cmd.Context(), site, settings, rounds)
	err = errors.Join(b.finish(), zip.Close(), f.Close())
	if err != nil {
		os.Remove(out)
		return fmt.Errorf("bundle: %w", err)
	}
	info, err := os.Stat(out)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if a.output == "json" {
		return a.json(struct {
			Schema   int          `json:"schema_version"`
			File     string       `json:"file"`
			Bytes    int64        `json:"bytes"`
			Contents []bundleItem `json:"contents"`
		}{bridge.ViewSchema, out, info.Size(), b.items})
	}
	_, err = fmt.Fprintf(a.out, "%s\n%s: %d bytes. Names of jobs and users are in it.\n", b.contents(), out, info.Size())
	return err
}

// fill collects. What cannot be had is noted, and the rest goes on: a bundle is made when something is broken.
func (b *bundle) fill(ctx context.Context, site siteconfig.Site, settings []siteconfig.Setting, rounds int) {
	versions, _ := json.MarshalIndent(map[string]any{"schema_version": bridge.ViewSchema, "unisched": version, "at": b.now, "kernel": firstLine("/proc/version"),
		"os": firstLine("/etc/os-release")}, "", "  ")
	b.add("versions.json", versions, nil)
	for i, s := range settings {
		if siteconfig.Secret(s.Key) && s.Value != `""` && s.Value != "[]" {
			settings[i].Value = `"(removed)"`
		}
	}
	config, _ := json.MarshalIndent(configDoc{Schema: bridge.ViewSchema, Settings: settings, Valid: true}, "", "  ")
	b.add("config.json", config, nil)

	client, err := b.a.client()
	if err != nil {
		b.add("status.json", nil, err)
	} else {
		client.Timeout = 60 * time.Second
		for _, q := range []struct{ name, path string }{
			{"status.json", control.PathStatus}, {"jobs.json", control.PathJobs}, {"plan.json", control.PathPlan}, {"snapshot.json", control.PathSnapshot},
			{"forecast.json", control.PathForecast}, {"metrics.txt", "/metrics"}, {"events.json", events.Path + "?limit=" + strconv.Itoa(events.MaxLimit)},
		} {
			raw, err := client.Raw(ctx, q.path)
			b.add(q.name, raw, err)
			if errors.Is(err, control.ErrDown) {
				break // nor would the others be answered
			}
		}
	}
	dir := site.Daemon.StateDir
	b.tail("heartbeat", filepath.Join(dir, "heartbeat"))
	b.tail("journal-end", filepath.Join(dir, "journal"))
	b.rounds(filepath.Join(dir, "rounds"), rounds)
	if b.a.logs != nil {
		raw, err := b.a.logs(ctx)
		b.add("log-end.txt", raw, err)
	}
}

// add puts one file in, or the reason why it is missing.
func (b *bundle) add(name string, raw []byte, err error) {
	item := bundleItem{Name: name}
	switch raw = b.scrub(raw); {
	case err != nil:
		if p, ok := errors.AsType[*fs.PathError](err); ok { // the table says which file
			err = p.Err
		}
		item.Note = "left out: " + clean(err.Error(), false)
	case len(raw) > min(maxBundleFile, b.left):
		item.Note = fmt.Sprintf("left out: %d bytes are too many", len(raw))
	default:
		err := b.tw.WriteHeader(&tar.Header{Name: "unisched-bundle/" + name, Mode: 0o600, Size: int64(len(raw)), ModTime: b.now.Truncate(time.Second)})
		if err == nil {
			_, err = b.tw.Write(raw)
		}
		if err != nil { // finish will say so as well
			item.Note = "left out: " + err.Error()
			break
		}
		b.left -= len(raw)
		item.Bytes = len(raw)
	}
	b.items = append(b.items, item)
}

// tail adds the end of a file that grows.
func (b *bundle) tail(name, path string) {
	f, err := os.Open(path)
	if err != nil {
		b.add(name, nil, err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > tailBytes {
		_, err = f.Seek(-tailBytes, io.SeekEnd)
	}
	var raw []byte
	if err == nil {
		raw, err = io.ReadAll(io.LimitReader(f, tailBytes))
	}
	b.add(name, raw, err)
	if n := len(b.items) - 1; err == nil && info.Size() > tailBytes {
		b.items[n].Note = fmt.Sprintf("the end of %d bytes", info.Size())
	}
}

// rounds adds the newest rounds.
func (b *bundle) rounds(dir string, most int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.add("rounds", nil, err)
		return
	}
	names := []string{}
	for _, e := range entries { // names begin with the time
		if strings.HasSuffix(e.Name(), ".json") && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	for _, name := range names[max(len(names)-most, 0):] {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() > maxBundleFile {
			b.items = append(b.items, bundleItem{Name: "rounds/" + name, Note: fmt.Sprintf("left out: %d bytes are too many", info.Size())})
			continue
		}
		raw, err := os.ReadFile(path)
		b.add("rounds/"+name, raw, err)
	}
}

// finish adds the table of contents and ends the archive.
func (b *bundle) finish() error {
	text := []byte(b.contents())
	err := b.tw.WriteHeader(&tar.Header{Name: "unisched-bundle/CONTENTS.txt", Mode: 0o600, Size: int64(len(text)), ModTime: b.now.Truncate(time.Second)})
	if err == nil {
		_, err = b.tw.Write(text)
	}
	return errors.Join(err, b.tw.Close())
}

func (b *bundle) contents() string {
	var out strings.Builder
	fmt.Fprintf(&out, "UniSched debug bundle of %s\n", b.now.Format(time.RFC3339))
	fmt.Fprintln(&out, "Tokens, keys and the values of secret settings were removed. Names of jobs,")
	fmt.Fprintln(&out, "users and accounts, and comments were not: look before you hand it on.")
	t := table{head: []string{"FILE", "BYTES", ""}, bound: []int{48, 10, 60}, flex: 2}
	for _, i := range b.items {
		t.add(i.Name, strconv.Itoa(i.Bytes), i.Note)
	}
	t.write(&out)
	return out.String()
}

// jwt is anything that looks like a JSON web token.
var jwt = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}`)

// scrub takes out what must not leave the machine, wherever it stands.
func (b *bundle) scrub(raw []byte) []byte {
	for _, s := range b.hide {
		raw = bytes.ReplaceAll(raw, s, []byte("(removed)"))
	}
	return jwt.ReplaceAll(raw, []byte("(removed)"))
}

// secrets are the words that this machine's configuration keeps secret, as far as they can be read, longest first.
func secrets(site siteconfig.Site) [][]byte {
	var out [][]byte
	add := func(s string) {
		if s = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "SLURM_JWT=")); len(s) >= 8 {
			out = append(out, []byte(s))
		}
	}
	for _, path := range []string{site.Slurm.TokenFile, site.Daemon.NodeKeyFile, site.Notify.TokenFile} {
		if f, err := os.Open(path); err == nil {
			raw, _ := io.ReadAll(io.LimitReader(f, 64<<10))
			f.Close()
			add(string(raw))
		}
	}
	add(site.Notify.Webhook)
	for i, w := range site.Notify.Command {
		if i > 0 {
			add(w)
		}
	}
	slices.SortFunc(out, func(x, y []byte) int { return cmp.Compare(len(y), len(x)) })
	return out
}

func firstLine(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return line
}

// systemLog is the end of the daemon's log, from journald.
func systemLog(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", "--unit=unischedd", "--lines="+strconv.Itoa(logLines), "--no-pager", "--output=cat")
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("journalctl: %w", err)
	}
	return raw[max(len(raw)-4*tailBytes, 0):], nil
}
