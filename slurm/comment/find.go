package comment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	marker   = "unisched"
	maxDepth = 32 // nested JSON around our member
)

// field is one key with its value and where both stand in the comment.
type field struct {
	key, value     string
	keyAt, valueAt int
	// verbatim says that value is the comment's own bytes, so that a place in
	// the value is a place in the comment.
	verbatim bool
}

// problem is what is wrong with a value, at a byte of it.
type problem struct {
	at              int
	reason, suggest string
}

func (f field) wrong(p *problem) *Error {
	at := f.valueAt
	if f.verbatim {
		at += min(max(p.at, 0), len(f.value))
	}
	return &Error{Offset: at, Key: f.key, Reason: p.reason, Suggest: p.suggest}
}

// find returns the fields of the comment's only part and the part's offset.
func find(s string) ([]field, int, error) {
	// What Slurm's reader could not take for UTF-8 stands as U+FFFD, three bytes
	// for one: a comment that sbatch took is not too long for that.
	if n := len(s) - 2*strings.Count(s, "\ufffd"); n > MaxBytes {
		return nil, 0, &Error{Offset: MaxBytes, Reason: fmt.Sprintf("%d bytes, sbatch takes at most %d", n, MaxBytes)}
	}
	if !strings.Contains(s, marker) {
		return nil, 0, ErrNone // whatever it holds is no concern of ours
	}
	if at := badByte(s); at >= 0 {
		return nil, 0, &Error{Offset: at, Reason: fmt.Sprintf("byte 0x%02x is not UTF-8 text", s[at])}
	}
	fields, parts, rest, err := findJSON(s)
	if err != nil {
		return nil, 0, err
	}
	at := rest
	if parts > 0 {
		at = strings.IndexByte(s, '{')
	}
	for {
		start := nextToken(s, rest)
		if start < 0 {
			break
		}
		if parts++; parts > 1 {
			return nil, 0, &Error{Offset: start, Reason: "there is a second unisched part"}
		}
		end := tokenEnd(s, start)
		if fields, err = splitToken(s, start+len(marker)+1, end); err != nil {
			return nil, 0, err
		}
		at, rest = start, end
	}
	if parts == 0 {
		return nil, 0, ErrNone
	}
	return fields, at, nil
}

// badByte is the offset of the first NUL or byte that is not UTF-8, else -1.
func badByte(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// nextToken finds "unisched:" at a word boundary, else -1.
func nextToken(s string, from int) int {
	for {
		i := strings.Index(s[from:], marker+":")
		if i < 0 {
			return -1
		}
		at := from + i
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		if at == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) && !strings.ContainsRune("_-.", before) {
			return at
		}
		from = at + len(marker)
	}
}

func tokenEnd(s string, start int) int {
	end := strings.IndexFunc(s[start:], func(r rune) bool { return r == ';' || unicode.IsSpace(r) })
	if end < 0 {
		return len(s)
	}
	return start + end
}

// splitToken cuts the body of the token, s[start:end], into fields.
func splitToken(s string, start, end int) ([]field, error) {
	if start == end {
		return nil, &Error{Offset: start, Reason: "nothing after unisched:", Suggest: "unisched:class=besteffort"}
	}
	var fields []field
	for start <= end {
		stop := end
		if i := strings.IndexByte(s[start:end], ','); i >= 0 {
			stop = start + i
		}
		key, value, ok := strings.Cut(s[start:stop], "=")
		if !ok || key == "" {
			return nil, &Error{Offset: start, Key: key, Reason: "expected key=value", Suggest: nearest(key, keys)}
		}
		valueAt := start + len(key) + 1
		fields = append(fields, field{key: key, value: value, keyAt: start, valueAt: valueAt, verbatim: true})
		start = stop + 1
	}
	return fields, nil
}

// findJSON reads the JSON object that the comment may begin with. rest is
// where plain text begins again.
func findJSON(s string) (fields []field, parts, rest int, err error) {
	open := len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	if open == len(s) || s[open] != '{' {
		return nil, 0, 0, nil
	}
	r := jsonReader{s: s, base: open, dec: json.NewDecoder(strings.NewReader(s[open:]))}
	r.dec.UseNumber()
	end, err := r.object()
	var ours *Error
	switch {
	case errors.As(err, &ours):
		return nil, 0, 0, err
	case err != nil && (r.parts > 0 || strings.Contains(s, `"`+marker+`"`)):
		return nil, 0, 0, &Error{Offset: r.at(), Reason: "the JSON object is not well formed or nested too deeply"}
	case err != nil:
		return nil, 0, 0, nil // foreign text that begins with a brace
	}
	return r.fields, r.parts, end, nil
}

// jsonReader walks one object by tokens, since only they show doubled members.
type jsonReader struct {
	s      string
	base   int // offset of the object
	dec    *json.Decoder
	fields []field
	parts  int
}

// at is the offset behind the last token.
func (r *jsonReader) at() int { return min(r.base+int(r.dec.InputOffset()), len(r.s)) }

// next is the offset at which the next token begins.
func (r *jsonReader) next() int {
	at := r.at()
	for at < len(r.s) && strings.IndexByte(" \t\r\n,:", r.s[at]) >= 0 {
		at++
	}
	return at
}

// object reads the outer object and collects our member.
func (r *jsonReader) object() (end int, err error) {
	if _, err := r.dec.Token(); err != nil {
		return 0, err
	}
	for r.dec.More() {
		keyAt := r.next()
		key, err := r.dec.Token()
		if err != nil {
			return 0, err
		}
		if key != marker {
			if err := r.skip(); err != nil {
				return 0, err
			}
			continue
		}
		if r.parts++; r.parts > 1 {
			return 0, &Error{Offset: keyAt, Reason: "there is a second unisched part"}
		}
		if err := r.member(); err != nil {
			return 0, err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return 0, err
	}
	return r.at(), nil
}

// skip passes over one foreign value.
func (r *jsonReader) skip() error {
	for depth := 0; ; {
		tok, err := r.dec.Token()
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return errors.New("too deep")
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// member reads our member, an object of strings, numbers or lists of them.
func (r *jsonReader) member() error {
	at := r.next()
	tok, err := r.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return &Error{Offset: at, Reason: `the member "unisched" must be an object`}
	}
	for r.dec.More() {
		keyAt := r.next()
		tok, err := r.dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if err := r.value(key, keyAt); err != nil {
			return err
		}
	}
	if _, err = r.dec.Token(); err == nil && len(r.fields) == 0 {
		return &Error{Offset: at, Reason: `the member "unisched" is empty`, Suggest: `{"class":"besteffort"}`}
	}
	return err
}

func (r *jsonReader) value(key string, keyAt int) error {
	f := field{key: key, keyAt: keyAt, valueAt: r.next()}
	tok, err := r.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('[') {
		text, ok := scalar(tok)
		if !ok {
			return &Error{Offset: f.valueAt, Key: key, Reason: "must be a string, a number or a list of them"}
		}
		f.value = text
		if _, isText := tok.(string); isText {
			f.valueAt++ // behind the quote
		}
		f.verbatim = strings.HasPrefix(r.s[f.valueAt:], text)
		r.fields = append(r.fields, f)
		return nil
	}
	var items []string
	for r.dec.More() {
		at := r.next()
		tok, err := r.dec.Token()
		if err != nil {
			return err
		}
		text, ok := scalar(tok)
		if !ok {
			return &Error{Offset: at, Key: key, Reason: "a list holds strings or numbers"}
		}
		items = append(items, text)
	}
	f.value = strings.Join(items, "/")
	r.fields = append(r.fields, f)
	_, err = r.dec.Token()
	return err
}

func scalar(tok json.Token) (string, bool) {
	switch v := tok.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
