// Package notify tells people outside what they want to know at once: a deadline in danger or missed, a job preempted, a checkpoint that was not
// confirmed, preemption that had to stop. Each notice goes to a command, to a webhook, or to both.
//
// It never keeps the loop waiting: [Sender.Offer] puts a notice into a bounded queue or drops it, and one goroutine ([Sender.Run]) delivers with a time
// limit. What users wrote is hostile: the command is started without a shell and gets it on its standard input and in its environment, never among its
// arguments. It refuses to decide what is worth a notice: that is the site's list and the daemon's news.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"unisched/bridge"
	"unisched/bridge/news"
	"unisched/slurm"
)

// Kind says what a notice is about. The set is closed.
type Kind string

// The kinds.
const (
	DeadlineAtRisk        Kind = "deadline-at-risk"
	DeadlineMissed        Kind = "deadline-missed"
	Preempted             Kind = "preempted"
	CheckpointUnconfirmed Kind = "checkpoint-unconfirmed"
	PutBack               Kind = "put-back" // it ended through our doing, and its user may want to change something
	Stalled               Kind = "stalled"
	PreemptionStopped     Kind = "preemption-stopped"
)

// Kinds are all kinds.
var Kinds = []Kind{DeadlineAtRisk, DeadlineMissed, Preempted, CheckpointUnconfirmed, PutBack, Stalled, PreemptionStopped}

// Notice is one message, as the command's standard input and the webhook's body have it (JSON).
type Notice struct {
	Schema  int       `json:"schema_version"`
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"`
	// Job is 0 and the fields down to Finish are empty for a notice about the daemon itself.
	Job      slurm.JobID `json:"job_id,omitempty"`
	Ref      string      `json:"job,omitempty"` // as Slurm prints it
	Run      int         `json:"run,omitempty"`
	Name     string      `json:"name,omitempty"`
	User     string      `json:"user,omitempty"`
	Account  string      `json:"account,omitempty"`
	Class    string      `json:"class,omitempty"`
	Deadline time.Time   `json:"deadline,omitzero"` // the last one
	Finish   time.Time   `json:"expected_finish,omitzero"`
	Text     string      `json:"text"` // one line for people
}

// Config is where notices go. Empty Command and Webhook: nowhere.
type Config struct {
	// Command is an argument list; the first word is an absolute path.
	Command []string
	// Webhook is an http(s) URL that is POSTed to. TokenFile, when set, holds a bearer token for it and is read for each notice.
	Webhook, TokenFile string
	// On lists the kinds wanted.
	On []string
	// Timeout bounds one try at one delivery.
	Timeout time.Duration
	// Repeat is how long the same kind of notice about the same job is held back, PerHour how many go out in an hour at most.
	Repeat  time.Duration
	PerHour int
}

// Results are what may become of a notice.
const (
	Sent    = "sent"
	Failed  = "failed"  // no try succeeded
	Dropped = "dropped" // the queue was full
	Limited = "limited" // held back by Repeat or PerHour
)

const maxQueue = 256

// Sender delivers notices. Offer is for one goroutine, Run for another.
type Sender struct {
	cfg   Config
	queue chan Notice
	told  func(result string, err error)
	tries []time.Duration // pauses before each further try

	mu   sync.Mutex
	last map[about]time.Time
	hour []time.Time // when the last PerHour notices were let through
}

type about struct {
	kind Kind
	job  slurm.JobID
	text string // for notices without a job
}

// New makes a sender. told hears what became of each notice, and why it failed; it is called from both goroutines.
func New(cfg Config, told func(result string, err error)) *Sender {
	return &Sender{cfg: cfg, queue: make(chan Notice, maxQueue), told: told, last: map[about]time.Time{}, tries: []time.Duration{2 * time.Second, 10 * time.Second}}
}

// Wanted reports whether the site wants notices at all.
func (s *Sender) Wanted() bool { return len(s.cfg.Command) > 0 || s.cfg.Webhook != "" }

// Offer queues a notice if its kind is wanted and its turn has come. It never waits.
func (s *Sender) Offer(n Notice) {
	if !s.Wanted() || !slices.Contains(s.cfg.On, string(n.Kind)) {
		return
	}
	n.Schema = bridge.ViewSchema
	if !s.turn(n) {
		s.told(Limited, nil)
		return
	}
	select {
	case s.queue <- n.clean():
	default:
		s.told(Dropped, nil)
	}
}

// maxRemembered bounds the notices whose repetition is held back; the oldest are forgotten first.
const maxRemembered = 20000

// turn applies the limits.
func (s *Sender) turn(n Notice) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := about{kind: n.Kind, job: n.Job}
	if n.Job == 0 {
		key.text = n.Text
	}
	if at, ok := s.last[key]; ok && n.At.Sub(at) < s.cfg.Repeat {
		return false
	}
	for len(s.hour) > 0 && n.At.Sub(s.hour[0]) >= time.Hour {
		s.hour = s.hour[1:]
	}
	if len(s.hour) >= s.cfg.PerHour {
		return false
	}
	if len(s.last) >= maxRemembered {
		for k, t := range s.last { // what may be repeated by now; else everything
			if n.At.Sub(t) >= s.cfg.Repeat {
				delete(s.last, k)
			}
		}
		if len(s.last) >= maxRemembered {
			clear(s.last)
		}
	}
	s.last[key] = n.At
	s.hour = append(s.hour, n.At)
	return true
}

// Run delivers until ctx ends; what is queued then is dropped.
func (s *Sender) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-s.queue:
			s.deliver(ctx, n)
		}
	}
}

// deliver tries each way until it succeeds or the tries are used up.
func (s *Sender) deliver(ctx context.Context, n Notice) {
	body, err := json.Marshal(n)
	if err != nil {
		s.told(Failed, fmt.Errorf("notice: %w", err))
		return
	}
	ways := []func(context.Context, Notice, []byte) error{}
	if len(s.cfg.Command) > 0 {
		ways = append(ways, s.run)
	}
	if s.cfg.Webhook != "" {
		ways = append(ways, s.post)
	}
	for _, way := range ways {
		err := way(ctx, n, body)
		for _, pause := range s.tries {
			if err == nil || ctx.Err() != nil || !again(err) {
				break
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
				err = way(ctx, n, body)
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if err != nil {
			s.told(Failed, err)
			continue
		}
		s.told(Sent, nil)
	}
}

// Bounds of the texts of strangers.
const maxField = 256

// clean cuts what users wrote to size and takes control characters out: a notice ends up in mails and chats.
func (n Notice) clean() Notice {
	for _, f := range []*string{&n.Cluster, &n.Ref, &n.Name, &n.User, &n.Account, &n.Class, &n.Text} {
		*f = oneLine(*f)
	}
	return n
}

func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxField {
		return s
	}
	s = s[:maxField]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

// Of turns what is new of a job into notices.
func Of(v *bridge.View, c news.Change) []Notice {
	j := c.Job
	about := Notice{At: v.At, Cluster: v.Cluster, Job: j.ID, Ref: cmp.Or(j.Ref, j.ID.String()), Run: j.Restart, Name: j.Name, User: j.User, Account: j.Account,
		Class: string(j.Class), Deadline: j.LastDeadline(), Finish: j.Forecast}
	var out []Notice
	add := func(is bool, kind Kind, format string, args ...any) {
		if is {
			n := about
			n.Kind, n.Text = kind, fmt.Sprintf("job %s: ", about.Ref)+fmt.Sprintf(format, args...)
			out = append(out, n)
		}
	}
	risk, by := j.RiskKind()
	late := ""
	if by > 0 {
		late = fmt.Sprintf(", by about %v", by.Round(time.Second))
	}
	add(c.AtRisk, DeadlineAtRisk, "it is expected to miss its deadline%s (%s)", late, risk)
	add(c.Missed, DeadlineMissed, "it has missed its last deadline")
	add(c.Preempted > 0, Preempted, "it was preempted and is back in the queue; iteration %d is saved", j.SavedIter)
	add(c.Unconfirmed > 0, CheckpointUnconfirmed, "it was asked for a checkpoint and did not confirm one (%d of its signals so far)", j.Strikes)
	for _, e := range c.Events {
		add(e.What == "rerun", PutBack, "it ended and is put back into the queue: %s", e.Text)
		add(e.What == "stalled", Stalled, "%s", e.Text)
	}
	return out
}

// OfStandstill is the notice that preemption has stopped.
func OfStandstill(v *bridge.View, s bridge.Standstill) Notice {
	return Notice{Kind: PreemptionStopped, At: v.At, Cluster: v.Cluster, Text: s.Why}
}
