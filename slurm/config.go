package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is slurm.conf as a controller runs it: what Slurm filled in is there too. Values are kept as text, since releases
// and sources (REST, scontrol, the file) differ in types; a value that means "nothing" is "".
type Config struct {
	// Source says where it comes from, for people.
	Source string
	values map[string]string
}

const maxConfigValues = 4096

// NewConfig makes a Config of values by name; names are taken without regard to case.
func NewConfig(source string, values map[string]string) Config {
	c := Config{Source: source, values: map[string]string{}}
	for k, v := range values {
		c.set(k, v)
	}
	return c
}

func (c *Config) set(key, value string) {
	key = strings.ToLower(strings.TrimSpace(key))
	if i := strings.IndexByte(key, '['); i > 0 { // SlurmctldHost[0], Prolog[1]
		key = key[:i]
	}
	value = strings.TrimSpace(value)
	switch strings.ToLower(value) {
	case "(null)", "none", "n/a", "(null type)":
		value = ""
	}
	if len(c.values) >= maxConfigValues {
		return
	}
	if old := c.values[key]; old != "" && value != "" {
		value = old + "," + value
	}
	c.values[key] = value
}

// Text is a value, "" when it is not set.
func (c Config) Text(key string) string { return c.values[strings.ToLower(key)] }

// Known says that the source knows the key, set or not.
func (c Config) Known(key string) bool {
	_, ok := c.values[strings.ToLower(key)]
	return ok
}

// List is a value split at its commas.
func (c Config) List(key string) []string {
	var out []string
	for item := range strings.SplitSeq(c.Text(key), ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// Has says that a list holds an item, without regard to case.
func (c Config) Has(key, item string) bool {
	return slices.ContainsFunc(c.List(key), func(s string) bool { return strings.EqualFold(s, item) })
}

// Number is the whole number that a value begins with ("300 sec", "1"); yes and no count as 1 and 0. ok is false without one.
func (c Config) Number(key string) (n int64, ok bool) {
	text := c.Text(key)
	switch strings.ToLower(text) {
	case "yes", "true":
		return 1, true
	case "no", "false":
		return 0, true
	}
	word, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(word, 10, 64)
	return n, err == nil
}

// Config asks the controller how it is configured: over REST where it can (26.05), else by scontrol.
func (c *Client) Config(ctx context.Context) (Config, error) {
	q := call{op: "get conf", method: "GET", path: "/conf/", timeout: c.opts.Timeouts.One}
	a, err := c.send(ctx, c.end(), Versions[0], q) // older versions do not have it, whatever the release
	if err == nil {
		conf, ok := readConfig(a.rest["slurm_conf"])
		if !ok {
			return Config{}, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: 200, Msg: "no slurm_conf"}
		}
		r := &record{}
		conf.set("SLURM_CONF", r.text("", dig(a.rest["slurm_conf_meta"], "SLURM_CONF")))
		conf.set("SLURM_VERSION", r.text("", dig(a.rest["slurm_conf_meta"], "SLURM_VERSION")))
		return conf, nil
	}
	if !isMissingPath(err) {
		return Config{}, err
	}
	out, err := c.opts.Scontrol.output(ctx, "show config", "show", "config")
	if err != nil {
		return Config{}, err
	}
	return ParseConfig("scontrol show config", out), nil
}

// readConfig reads the object of 26.05: numbers, booleans, strings, lists of these, and {set,infinite,number}.
func readConfig(f raw) (Config, bool) {
	var members map[string]raw
	if json.Unmarshal(f, &members) != nil || len(members) == 0 {
		return Config{}, false
	}
	c := Config{Source: "GET /slurm/" + Versions[0] + "/conf", values: map[string]string{}}
	for key, value := range members {
		c.set(key, configText(value))
	}
	return c, true
}

func configText(value raw) string {
	value = bytes.TrimSpace(value)
	if absent(value) {
		return ""
	}
	switch value[0] {
	case '"':
		var s string
		_ = json.Unmarshal(value, &s)
		return s
	case '[':
		var items []raw
		_ = json.Unmarshal(value, &items)
		var out []string
		for _, item := range items[:min(len(items), maxItems)] {
			out = append(out, configText(item))
		}
		return strings.Join(out, ",")
	case '{':
		n, ok := readNumber(value)
		switch {
		case ok && n.infinite:
			return "INFINITE"
		case ok && (n.set || n.n != 0):
			return strconv.FormatInt(n.n, 10)
		}
		return ""
	case 't':
		return "1"
	case 'f':
		return "0"
	}
	return string(value)
}

// ParseConfig reads "Key = value" lines, as scontrol prints them and as the file has them. A line that is none is passed over.
func ParseConfig(source, text string) Config {
	c := Config{Source: source, values: map[string]string{}}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, " \t#") {
			continue
		}
		c.set(key, value)
	}
	return c
}

const maxConfigBytes = 1 << 20

// output runs a reading command and returns what it printed on stdout.
func (s Scontrol) output(ctx context.Context, op string, args ...string) (string, error) {
	if len(s.Argv) == 0 {
		return "", &Error{Kind: ErrNeedsScontrol, Op: op}
	}
	setDefault(&s.Timeout, 30*time.Second)
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Argv[0], append(append([]string{}, s.Argv[1:]...), args...)...)
	cmd.Env = s.environment()
	cmd.WaitDelay = time.Second
	out, said := bounded{limit: maxConfigBytes}, bounded{limit: maxOutput}
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch text := string(said.b); {
	case err == nil:
		return string(out.b), nil
	case errors.Is(err, exec.ErrNotFound), text == "":
		return "", &Error{Kind: ErrUnavailable, Op: op, Msg: oneLine(err.Error()), Err: err}
	default:
		return "", &Error{Kind: ErrUnavailable, Op: op, Code: codeOfText(text), Msg: oneLine(text), Err: fmt.Errorf("scontrol: %w", err)}
	}
}
