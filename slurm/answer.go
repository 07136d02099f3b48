package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// apiError is one entry of an answer's errors or of its status list.
type apiError struct {
	Code        int
	Description string
	Text        string
}

// answer is what every answer has, besides the list that is handed out record
// by record.
type answer struct {
	problems []apiError
	// listed says that the asked-for list was there.
	listed bool
	// count is the number of records handed out.
	count      int
	lastUpdate count
	hasUpdate  bool
	release    string
	cluster    string
	// rest holds the other members, unread and small.
	rest map[string]raw
}

// maxProblems bounds what is kept of a list of errors.
const maxProblems = 64

// readAnswer streams an answer: the records of the member called list go to
// each, one at a time, so that memory does not grow with the cluster.
func readAnswer(body io.Reader, list string, each func(raw)) (answer, error) {
	a := answer{rest: map[string]raw{}}
	dec := json.NewDecoder(body)
	if tok, err := dec.Token(); err != nil {
		return a, err
	} else if tok != json.Delim('{') {
		return a, errors.New("not an object")
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return a, err
		}
		key, _ := tok.(string)
		if list != "" && key == list {
			if err := a.stream(dec, each); err != nil {
				return a, fmt.Errorf("%s: %w", list, err)
			}
			continue
		}
		var value raw
		if err := dec.Decode(&value); err != nil {
			return a, err
		}
		a.member(key, value)
	}
	_, err := dec.Token()
	return a, err
}

func (a *answer) stream(dec *json.Decoder, each func(raw)) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('[') {
		if tok == nil {
			return nil
		}
		return errors.New("not a list")
	}
	a.listed = true
	for dec.More() {
		var record raw
		if err := dec.Decode(&record); err != nil {
			return err
		}
		a.count++
		each(record)
	}
	_, err = dec.Token()
	return err
}

func (a *answer) member(key string, value raw) {
	switch key {
	case "errors":
		a.problems = append(a.problems, readProblems(value)...)
		a.problems = a.problems[:min(len(a.problems), maxProblems)] // the member may come twice
	case "last_update":
		a.lastUpdate, a.hasUpdate = readNumberOr(value), true
	case "meta":
		r := &record{}
		a.release = r.text("release", dig(value, "slurm", "release"))
		if a.release == "" {
			a.release = r.text("release", dig(value, "Slurm", "release"))
		}
		a.cluster = r.text("cluster", dig(value, "slurm", "cluster"))
	case "warnings":
	default:
		if len(a.rest) < 16 {
			a.rest[key] = value
		}
	}
}

func readNumberOr(f raw) count {
	c, _ := readNumber(f)
	return c
}

// readProblems reads a list of errors; an entry of an unknown shape still
// counts as an error.
func readProblems(f raw) []apiError {
	if absent(f) || emptyBox(f) {
		return nil
	}
	var items []raw
	if json.Unmarshal(f, &items) != nil {
		return []apiError{{Text: oneLine(string(f))}}
	}
	var out []apiError
	for _, item := range items[:min(len(items), maxProblems)] {
		r := &record{}
		var w struct {
			Number      raw `json:"error_number"`
			Code        raw `json:"error_code"`
			Description raw `json:"description"`
			Text        raw `json:"error"`
		}
		if json.Unmarshal(item, &w) != nil {
			out = append(out, apiError{Text: oneLine(string(item))})
			continue
		}
		if absent(w.Number) {
			w.Number = w.Code
		}
		out = append(out, apiError{Code: int(r.integer("", w.Number)),
			Description: r.text("", w.Description), Text: r.text("", w.Text)})
	}
	return out
}

// readStatus reads the status list of a signal or requeue, where the truth
// about each job stands; entries without an error are left out. An error of an
// unknown shape still counts as one: what a signal did must not be guessed.
func readStatus(f raw) []apiError {
	if absent(f) || emptyBox(f) {
		return nil
	}
	var items []raw
	if json.Unmarshal(f, &items) != nil {
		return []apiError{{Text: "status is not a list"}}
	}
	var out []apiError
	for _, item := range items[:min(len(items), maxProblems)] {
		r := &record{}
		e := dig(item, "error")
		switch {
		case absent(item) || item[0] != '{':
			out = append(out, apiError{Text: oneLine(string(item))})
			continue
		case absent(e) || emptyBox(e) || string(e) == `""`:
			continue
		case e[0] != '{':
			out = append(out, apiError{Text: oneLine(string(e))})
			continue
		}
		p := apiError{Code: int(r.integer("", dig(e, "code"))), Description: r.text("", dig(item, "step_id")),
			Text: r.text("", dig(e, "message"))}
		if p.Text == "" {
			p.Text = r.text("", dig(e, "string"))
		}
		if p.Code != 0 || len(r.odd) > 0 {
			out = append(out, p)
		}
	}
	return out
}
