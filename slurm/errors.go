package slurm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The kinds of failure that callers branch on with errors.Is. An Error has one
// kind; the narrower refusals are refusals too.
var (
	// ErrUnauthorised: the token is missing, expired or not accepted.
	ErrUnauthorised = errors.New("unauthorised")
	// ErrRateLimited: the server asks for patience; nothing was done.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable: nobody answered for the controller. A write with this
	// kind alone was not sent.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused: Slurm said no, with a code of its own. An update may have
	// changed some of its fields before that.
	ErrRefused = errors.New("refused")
	// ErrNotFound, ErrNotPending, ErrFinished and ErrDenied are refusals.
	ErrNotFound   = errors.New("no such job")
	ErrNotPending = errors.New("job is no longer pending")
	ErrFinished   = errors.New("job has finished")
	ErrDenied     = errors.New("permission denied")
	// ErrUnknownOutcome: a write was sent and nobody knows what became of it.
	// Reads never have this kind.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrBadAnswer: the answer could not be understood, or holds errors where
	// it should hold a list.
	ErrBadAnswer = errors.New("bad answer")
	// ErrInvalid: the call makes no sense and was not sent.
	ErrInvalid = errors.New("invalid call")
	// ErrNeedsScontrol: REST cannot do it on this Slurm and no scontrol is
	// configured. Nothing was sent.
	ErrNeedsScontrol = errors.New("needs scontrol")
)

// Error is a call that failed.
type Error struct {
	Kind error  // one of the kinds above
	Op   string // "get jobs", "update job", ...
	HTTP int    // status, 0 when there was no answer
	Code int    // Slurm's error number, 0 when there was none
	Msg  string // what the server or the system said, cut short
	Err  error  // the cause, if any
	// After is how long the server asked to be left alone, 0 when it did not.
	After time.Duration
	// lost says that the connection failed, not the call.
	lost bool
}

// Error is one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "slurm: %s: %v", e.Op, e.Kind)
	if e.HTTP != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.HTTP)
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, " (Slurm %d)", e.Code)
	}
	if e.Msg != "" {
		fmt.Fprintf(&b, ": %s", e.Msg)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the kind and, for the narrow refusals, ErrRefused.
func (e *Error) Is(target error) bool {
	if target == e.Kind {
		return true
	}
	switch e.Kind {
	case ErrNotFound, ErrNotPending, ErrFinished, ErrDenied:
		return target == ErrRefused
	case ErrUnknownOutcome:
		// The caller still wants to know that the controller is away.
		return target == ErrUnavailable && (e.lost || communication(e.Code))
	}
	return false
}

// Slurm's error numbers that mean something of their own here.
const (
	codeAuth           = 1007
	codeNoController   = 1800
	codeUserID         = 2010
	codeAccessDenied   = 2002
	codeInvalidJob     = 2017
	codeHeld           = 2042
	codeNotPending     = 2073
	codeAlreadyDone    = 2021
	codeAlreadyDoneNew = 2084
)

// communication says that the number is about the way to the controller, not
// about the request.
func communication(code int) bool {
	return code >= 1000 && code < 1100 && code != codeAuth || code >= 1800 && code < 1900
}

// refusal is the kind of one of Slurm's own error numbers, nil for a number
// that decides nothing.
func refusal(code int) error {
	switch {
	case code == codeAuth:
		return ErrUnauthorised
	case code == codeInvalidJob:
		return ErrNotFound
	case code == codeNotPending:
		return ErrNotPending
	case code == codeAlreadyDone, code == codeAlreadyDoneNew:
		return ErrFinished
	case code == codeAccessDenied, code == codeUserID:
		return ErrDenied
	case code >= 2000 && code < 10000:
		return ErrRefused
	}
	return nil
}

// judge turns an answer with the given status and errors into a kind, nil when
// the call succeeded.
func judge(write bool, status int, problems []apiError, text string) (code int, kind error) {
	for _, p := range problems {
		if kind := refusal(p.Code); kind != nil {
			return p.Code, kind
		}
	}
	for _, p := range problems {
		if code = p.Code; code != 0 {
			break
		}
	}
	for _, p := range problems {
		text += " " + p.Description + " " + p.Text
	}
	limited := strings.Contains(strings.ToLower(text), "rate limit")
	switch {
	case status == 401 || status == 511 || status == 403 && code == 0:
		return code, ErrUnauthorised
	case status == 429 || status == 503 || limited && status >= 400:
		return code, ErrRateLimited
	case code == codeNoController:
		return code, ErrUnavailable
	case status >= 200 && status < 300 && len(problems) == 0:
		return 0, nil
	case status >= 400 && status < 500 && write && code == 0:
		return code, ErrRefused
	case write:
		// Among these is HTTP 403 with the system's error 1, which is how
		// 26.05 answers a signal while the controller is away.
		return code, ErrUnknownOutcome
	case status >= 500 || communication(code) || status == 403:
		return code, ErrUnavailable
	}
	return code, ErrBadAnswer
}

func summary(problems []apiError, text string) string {
	var parts []string
	for _, p := range problems {
		parts = append(parts, strings.TrimSpace(p.Description+": "+p.Text+" ("+strconv.Itoa(p.Code)+")"))
	}
	if len(parts) == 0 {
		parts = append(parts, text)
	}
	return oneLine(strings.Join(parts, "; "))
}

// oneLine makes a server's words fit for an error: printable and short.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == ' ' }), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}
