// Package siteconfig reads the site's configuration: strict TOML in, one [Site] out, with every fault at once, each with its file, line
// and key. An unknown key is a fault: a misspelt limit that is silently ignored would be worse than a daemon that does not start.
//
// It refuses to act on what it reads: it opens no socket, resolves no host, and reads no file but the configuration itself. It knows what
// the other packages want to be told, not what they do. The daemon and the command line call it.
package siteconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/notify"
	"unisched/bridge/replay"
)

// DefaultPath is where the packages put the file. Files of conf.d beside it are merged over it, in the order of their names.
const DefaultPath = "/etc/unisched/unisched.toml"

// Site is the whole configuration. The zero value is not usable; start from [Defaults].
type Site struct {
	Bridge  bridge.Config
	Slurm   Slurm
	Daemon  Daemon
	Planner Planner
	Web     Web
	Replay  replay.Thresholds
	// TopologyFile describes the network of a cluster whose nodes do not, in the syntax of topology.conf. Empty: none.
	TopologyFile string
	Metrics      Metrics
	Notify       notify.Config
}

// Web is the read-only page for people on TCP. It is on the control socket in any case.
type Web struct {
	// Listen is a TCP address of the loopback, for the site's own proxy: whoever can reach it can read. Empty: none.
	Listen string
	// Hosts are the names under which the proxy asks for the page, besides localhost.
	Hosts []string
}

// Metrics says where Prometheus may ask besides the control socket.
type Metrics struct {
	// Listen is a TCP address, best of this machine alone. Empty: none.
	Listen string
}

// Slurm says how the cluster is reached.
type Slurm struct {
	// URL of slurmrestd: http(s)://host:port or unix:/path.
	URL string
	// URLs are further addresses of the same cluster, tried in this order when one fails.
	URLs []string
	// TokenFile holds the JWT and is read again for every request, so that a timer may replace it. Empty: no token (unix socket).
	TokenFile string
	// User is sent as X-SLURM-USER-NAME.
	User string
	// Scontrol is the argument list that starts scontrol, for what REST cannot do. Empty: never.
	Scontrol []string
	// Timeout bounds small requests and writes, ListTimeout the reading of whole lists.
	Timeout, ListTimeout time.Duration
}

// Daemon says where the daemon lives and who may talk to it.
type Daemon struct {
	StateDir      string
	ControlSocket string
	// SocketMode and SocketGroup decide who may connect to read. Empty group: the daemon's own.
	SocketMode  fs.FileMode
	SocketGroup string
	// Operators may give orders (user names or uids); root always may.
	Operators []string
	// Listen is the TCP address for reports of the node watchers. Empty: none.
	Listen string
	// NodeKeyFile holds the key that signs these reports.
	NodeKeyFile string
	// TLSCertFile and TLSKeyFile switch the node listener to TLS. Both or none.
	TLSCertFile, TLSKeyFile string
	// LogLevel is debug, info, warn or error.
	LogLevel string
}

// Planner bounds the policy.
type Planner struct {
	SolverLimit time.Duration
	// RewardRatio is what a strict deadline met is worth, in best-effort jobs.
	RewardRatio float64
}

// Defaults are the values of a site that sets nothing.
func Defaults() Site {
	return Site{
		Bridge: bridge.Defaults(),
		Slurm: Slurm{
			URL: "http://127.0.0.1:6820", URLs: []string{}, TokenFile: "/run/unisched-auth/token", User: "unisched",
			Scontrol: []string{"scontrol"}, Timeout: 30 * time.Second, ListTimeout: 90 * time.Second,
		},
		Daemon: Daemon{
			StateDir: "/var/lib/unisched/state", ControlSocket: "/run/unisched/control.sock", SocketMode: 0o666,
			Listen: "", NodeKeyFile: "/etc/unisched/node.key", LogLevel: "info",
		},
		Planner: Planner{SolverLimit: 2 * time.Second, RewardRatio: 30},
		Web:     Web{Hosts: []string{}},
		Replay:  replay.DefaultThresholds(),
		Notify: notify.Config{
			Command: []string{}, On: []string{"deadline-at-risk", "deadline-missed", "checkpoint-unconfirmed", "put-back", "stalled", "preemption-stopped"},
			Timeout: 20 * time.Second, Repeat: time.Hour, PerHour: 200,
		},
	}
}

// maxPatience bounds every wait for one job.
const maxPatience = 24 * time.Hour

// maxSocketPath is what a sockaddr_un holds on Linux, less the final zero and the suffix under which the socket is made.
const maxSocketPath = 107 - 8

// Validate says what is wrong with the values together, every fault at once.
func (s Site) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(validURL(s.Slurm.URL), "slurm.url %q is neither http(s)://host:port nor unix:/path", s.Slurm.URL)
	for _, url := range s.Slurm.URLs {
		bad(validURL(url), "slurm.urls: %q is neither http(s)://host:port nor unix:/path", url)
	}
	bad(len(s.Slurm.URLs) <= 16, "slurm.urls has more than 16 addresses")
	bad(s.Slurm.TokenFile == "" || filepath.IsAbs(s.Slurm.TokenFile), "slurm.token_file %q is not absolute", s.Slurm.TokenFile)
	bad(s.Slurm.Timeout >= time.Second && s.Slurm.Timeout <= time.Minute, "slurm.timeout %v is not within 1s..1m", s.Slurm.Timeout)
	bad(s.Slurm.ListTimeout >= s.Slurm.Timeout && s.Slurm.ListTimeout <= 10*time.Minute,
		"slurm.list_timeout %v is not within timeout..10m", s.Slurm.ListTimeout)
	bad(len(s.Slurm.Scontrol) == 0 || s.Slurm.Scontrol[0] != "", "slurm.scontrol begins with an empty word")
	bad(!strings.ContainsAny(s.Slurm.User, "\r\n:"), "slurm.user %q is no user name", s.Slurm.User)

	d := s.Daemon
	bad(filepath.IsAbs(d.StateDir), "daemon.state_dir %q is not absolute", d.StateDir)
	bad(filepath.IsAbs(d.ControlSocket), "daemon.control_socket %q is not absolute", d.ControlSocket)
	bad(len(d.ControlSocket) <= maxSocketPath, "daemon.control_socket is longer than %d bytes", maxSocketPath)
	bad(d.SocketMode&^0o777 == 0 && d.SocketMode&0o600 == 0o600, "daemon.socket_mode %#o lacks 0600 or has more than 0777", uint32(d.SocketMode))
	for _, o := range d.Operators {
		bad(o != "" && !strings.ContainsAny(o, ": \t\n"), "daemon.operators: %q is no user name or uid", o)
	}
	if d.Listen != "" {
		bad(validListen(d.Listen), "daemon.listen %q is not address:port", d.Listen)
		bad(d.NodeKeyFile != "", "daemon.listen needs daemon.node_key_file: reports are signed")
	}
	bad(s.Web.Listen == "" || validListen(s.Web.Listen) && loopback(s.Web.Listen),
		"web.listen %q is not an address of the loopback such as 127.0.0.1:8321: the page has no passwords, put a proxy before it", s.Web.Listen)
	for _, h := range s.Web.Hosts {
		bad(h != "" && !strings.ContainsAny(h, "/: \t\n"), "web.hosts: %q is no host name", h)
	}
	bad((d.TLSCertFile == "") == (d.TLSKeyFile == ""), "daemon.tls_cert_file and tls_key_file go together")
	bad(slices.Contains([]string{"debug", "info", "warn", "error"}, d.LogLevel), "daemon.log_level %q is none of debug, info, warn, error", d.LogLevel)

	bad(s.TopologyFile == "" || filepath.IsAbs(s.TopologyFile), "topology.file %q is not absolute", s.TopologyFile)
	p := s.Planner
	bad(p.SolverLimit >= 10*time.Millisecond && p.SolverLimit <= s.Bridge.Unit, "planner.solver_limit %v is not within 10ms..bridge.unit", p.SolverLimit)
	bad(p.RewardRatio >= 1 && p.RewardRatio <= 1e6, "planner.reward_ratio %v is not within 1..1e6", p.RewardRatio)
	errs = append(errs, s.Replay.Validate()...)
	// Nobody shall wait without end, neither for a daemon that is dead (the delay) nor for another job. The simulator may.
	b := s.Bridge
	bad(b.Delay <= max(time.Hour, 3*b.Poll), "bridge.delay %v is above 1h: without the daemon its jobs would wait that long", b.Delay)
	bad(max(b.ProfileTime, b.CheckpointTimeout, b.StartTimeout) <= maxPatience,
		"bridge.profile_time %v, checkpoint_timeout %v or start_timeout %v is above %v", b.ProfileTime, b.CheckpointTimeout, b.StartTimeout, maxPatience)
	bad(s.Metrics.Listen == "" || validListen(s.Metrics.Listen), "metrics.listen %q is not address:port", s.Metrics.Listen)
	errs = append(errs, validNotify(s.Notify)...)
	if err := s.Bridge.Validate(); err != nil {
		for _, e := range split(err) {
			errs = append(errs, fmt.Errorf("bridge.%w", e))
		}
	}
	return errors.Join(errs...)
}

// split undoes errors.Join.
func split(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func validURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	switch u.Scheme {
	case "unix":
		return u.Host == "" && filepath.IsAbs(u.Path)
	case "http", "https":
		return u.Hostname() != "" && (u.Path == "" || u.Path == "/")
	}
	return false
}

// loopback says that nobody on another machine can connect there.
func loopback(s string) bool {
	host, _, err := net.SplitHostPort(s)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func validListen(s string) bool {
	_, port, err := net.SplitHostPort(s)
	n, err2 := strconv.Atoi(port)
	return err == nil && err2 == nil && n >= 0 && n <= 65535
}

// OperatorUIDs resolves the operators; lookup turns a user name into a uid. Unknown names are left out of the set, so that a deleted
// account never stops the daemon, and named in the error.
func (d Daemon) OperatorUIDs(lookup func(name string) (uint32, error)) (map[uint32]bool, error) {
	set := map[uint32]bool{0: true}
	var errs []error
	for _, o := range d.Operators {
		if n, err := strconv.ParseUint(o, 10, 32); err == nil {
			set[uint32(n)] = true
			continue
		}
		uid, err := lookup(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("operator %q: %w", o, err))
			continue
		}
		set[uid] = true
	}
	return set, errors.Join(errs...)
}

// validNotify names every fault of the notices' table.
func validNotify(n notify.Config) (errs []error) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(n.Command) == 0 || filepath.IsAbs(n.Command[0]), "notify.command does not begin with an absolute path")
	u, err := url.Parse(n.Webhook)
	bad(n.Webhook == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "", "notify.webhook is not http(s)://...")
	bad(n.TokenFile == "" || filepath.IsAbs(n.TokenFile), "notify.webhook_token_file %q is not absolute", n.TokenFile)
	for _, k := range n.On {
		bad(slices.Contains(notify.Kinds, notify.Kind(k)), "notify.on: %q is none of %v", k, notify.Kinds)
	}
	bad(n.Timeout >= time.Second && n.Timeout <= 5*time.Minute, "notify.timeout %v is not within 1s..5m", n.Timeout)
	bad(n.Repeat >= 0 && n.Repeat <= 7*24*time.Hour, "notify.repeat %v is not within 0s..168h", n.Repeat)
	bad(n.PerHour >= 1 && n.PerHour <= 10000, "notify.per_hour %d is not within 1..10000", n.PerHour)
	return errs
}

// Secret reports whether the value of a key may hold a secret: it is left out of what is handed on to others, such as a debug bundle.
func Secret(key string) bool { return key == "notify.webhook" || key == "notify.command" }
