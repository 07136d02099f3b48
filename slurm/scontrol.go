package slurm

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// Scontrol is Slurm's own command, for what REST cannot do. It is run by an
// argument list, never through a shell, with an environment of its own: the
// token of the REST client would make it act as somebody else.
type Scontrol struct {
	// Argv is the command and its first arguments, "/usr/bin/scontrol" or a
	// wrapper that ends in it. Empty means that there is none.
	Argv []string
	// Env is added to the clean environment, "SLURM_CONF=..."; SLURM_JWT is
	// refused.
	Env []string
	// Timeout bounds one run; default 30 s.
	Timeout time.Duration
}

const maxOutput = 16 << 10

// run runs the command once.
func (s Scontrol) run(ctx context.Context, op string, args ...string) error {
	if len(s.Argv) == 0 {
		return &Error{Kind: ErrNeedsScontrol, Op: op}
	}
	setDefault(&s.Timeout, 30*time.Second)
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Argv[0], append(append([]string{}, s.Argv[1:]...), args...)...)
	cmd.Env = s.environment()
	cmd.WaitDelay = time.Second
	out := bounded{limit: maxOutput}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return &Error{Kind: ErrUnavailable, Op: op, Msg: oneLine(err.Error()), Err: err}
	}
	err := cmd.Wait()
	text := string(out.b)
	code := codeOfText(text)
	if err == nil && code == 0 {
		return nil
	}
	e := &Error{Kind: ErrUnknownOutcome, Op: op, Code: code, Msg: oneLine(text), Err: err}
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		e.Err = errors.Join(ctx.Err(), err)
		return e
	}
	if kind := refusal(code); kind != nil {
		e.Kind = kind
	} else if code == codeNoController {
		e.Kind = ErrUnavailable
	}
	return e
}

func (s Scontrol) environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/"}
	for _, kv := range s.Env {
		if !strings.HasPrefix(kv, "SLURM_JWT=") {
			env = append(env, kv)
		}
	}
	return env
}

// codeOfText finds the error number behind the words that scontrol prints, as
// it prints only words. 0 when none is known.
func codeOfText(text string) int {
	for _, m := range []struct {
		words string
		code  int
	}{
		{"Invalid job id specified", codeInvalidJob},
		{"Job/step already completing or completed", codeAlreadyDone},
		{"Access/permission denied", codeAccessDenied},
		{"Invalid user id", codeUserID},
		{"Job is no longer pending execution", codeNotPending},
		{"Job is in held state", codeHeld},
		{"Requested operation is presently disabled", 2037},
		{"Invalid node name specified", 2018},
		{"Invalid partition name specified", 2000},
		{"Protocol authentication error", codeAuth},
		{"Unable to contact slurm controller (connect failure)", codeNoController},
		{"Unexpected message received", 1000},
		{"Zero Bytes were transmitted or received", 1000},
	} {
		if strings.Contains(text, m.words) {
			return m.code
		}
	}
	return 0
}

// bounded keeps the first bytes of an output and swallows the rest.
type bounded struct {
	b     []byte
	limit int
}

func (w *bounded) Write(p []byte) (int, error) {
	if room := w.limit - len(w.b); room > 0 {
		w.b = append(w.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
