// Package slurm reads a Slurm cluster and asks it for changes. It holds a
// tolerant reader of slurmrestd's answers, a strict writer of the few calls
// that UniSched needs, and the scontrol fallback for the two things that the
// REST interface cannot do. It knows nothing of plans, leases or policies,
// never retries a write, never logs, and reads no clock of its own except for
// the deadlines of its requests. The bridge calls it; tests and the commands
// use its parsers.
//
// Slurm 24.11 to 26.05 with REST v0.0.42 to v0.0.45 are supported.
package slurm
