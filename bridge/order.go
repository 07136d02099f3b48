package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"unisched/slurm"
)

// OrderKind is what an operator may ask of the running daemon.
type OrderKind string

// The orders.
const (
	// OrderPause gives every job back to plain Slurm and touches nothing until OrderResume.
	OrderPause OrderKind = "pause"
	// OrderResume takes jobs under management again.
	OrderResume OrderKind = "resume"
	// OrderRelease gives one job (Order.Job) back for good, or all (Job 0).
	OrderRelease OrderKind = "release"
	// OrderStage sets the stage of a partition (Order.Partition), or of all.
	OrderStage OrderKind = "stage"
)

// Order is carried out in the next cycle. Who gave it is kept for the audit.
type Order struct {
	Kind OrderKind   `json:"order"`
	Job  slurm.JobID `json:"job,omitempty"`
	By   string      `json:"by,omitempty"`
	// Stage and Partition are for OrderStage. Ready says that replay called the stage ready, Force that somebody wants it all the same.
	Stage     Stage  `json:"stage,omitempty"`
	Partition string `json:"partition,omitempty"`
	Ready     bool   `json:"ready,omitempty"`
	Force     bool   `json:"force,omitempty"`
}

// ErrNoSuchJob means that an order names a job that we do not know.
var ErrNoSuchJob = errors.New("no such job is known")

// ErrOrder means that an order is not understood.
var ErrOrder = errors.New("order is not understood")

type waitingOrder struct {
	Order
	answer chan orderAnswer
}

type orderAnswer struct {
	text string
	err  error
}

// maxOrders bounds the orders that wait for the next cycle.
const maxOrders = 1000

// Order hands an order to the loop and waits until a cycle has taken it, or ctx ends. It may be called from any goroutine.
func (b *Bridge) Order(ctx context.Context, o Order) (string, error) {
	w := waitingOrder{o, make(chan orderAnswer, 1)}
	b.mu.Lock()
	full := len(b.orders) >= maxOrders
	if !full {
		b.orders = append(b.orders, w)
	}
	b.mu.Unlock()
	if full {
		return "", fmt.Errorf("%d orders are waiting already", maxOrders)
	}
	select {
	case a := <-w.answer:
		return a.text, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("the order waits for the next cycle: %w", ctx.Err())
	}
}

// takeOrders carries the waiting orders out on the records; what they mean for Slurm follows in the same cycle.
func (b *Bridge) takeOrders(now time.Time) {
	b.mu.Lock()
	orders := b.orders
	b.orders = nil
	b.mu.Unlock()
	for _, w := range orders {
		text, err := b.obey(now, w.Order)
		b.log(now, "info", "order", w.Job, "%s by %s: %s", w.Kind, w.By, text)
		w.answer <- orderAnswer{text, err}
	}
}

func (b *Bridge) obey(now time.Time, o Order) (string, error) {
	switch o.Kind {
	case OrderPause, OrderResume:
		b.paused = o.Kind == OrderPause
		b.audit = append(b.audit, entry(now, kindPaused, "paused", b.paused))
		b.rouse("an order")
		if !b.paused {
			b.still = nil // whoever resumes has seen to it that jobs come back
			b.saveStill(now)
			b.rival = rival{}
		}
		if b.paused {
			return "paused: every job is given back to Slurm", nil
		}
		return "resumed", nil
	case OrderRelease:
		return b.obeyRelease(now, o)
	case OrderStage:
		return b.obeyStage(now, o)
	}
	return "", fmt.Errorf("%q: %w", o.Kind, ErrOrder)
}

func (b *Bridge) obeyRelease(now time.Time, o Order) (string, error) {
	n := 0
	for _, rec := range b.known() {
		if o.Job != 0 && rec.Job != o.Job || !rec.Phase.Ours() || rec.Releasing {
			continue
		}
		rec.Releasing = true
		rec.note(now, "order", "release by "+o.By)
		n++
	}
	if o.Job != 0 && n == 0 {
		if rec := b.records[o.Job]; rec != nil {
			return fmt.Sprintf("job %d is %s: nothing to release", o.Job, rec.Phase), nil
		}
		return "", fmt.Errorf("job %d: %w", o.Job, ErrNoSuchJob)
	}
	if n == 1 {
		return "1 job is given back to Slurm", nil
	}
	return fmt.Sprintf("%d jobs are given back to Slurm", n), nil
}

// finishReleases closes the records of released jobs on which nothing of ours is left.
func (b *Bridge) finishReleases(now time.Time) {
	for _, rec := range b.known() {
		if rec.Releasing && rec.Phase.Ours() && !rec.Changed.Any() && !slices.Contains([]Phase{Checkpointing, Requeueing, Profiling}, rec.Phase) {
			rec.enter(now, Released, "released by order")
			b.refund(now, rec)
		}
	}
}
