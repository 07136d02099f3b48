package progress

import "encoding/json"

// plainObject is flatObject for the lines that nearly all jobs write: names and strings of printable ASCII without escapes, numbers, true, false and
// null. ok is false for every other line, right or wrong: the JSON decoder, about ten times slower, then says what it is. What plainObject accepts it reads as the
// decoder does; FuzzPlain holds it to that.
func plainObject(b []byte) (out []member, ok bool) {
	s := scanner{b: b}
	if !s.eat('{') {
		return nil, false
	}
	if s.eat('}') {
		return nil, s.end()
	}
	out = make([]member, 0, 4)
	for {
		name, ok := s.text()
		if !ok || twice(out, name) || !s.eat(':') {
			return nil, false
		}
		v, ok := s.value()
		if !ok {
			return nil, false
		}
		out = append(out, member{name: name, value: v})
		switch {
		case s.eat(','):
		case s.eat('}'):
			return out, s.end()
		default:
			return nil, false
		}
	}
}

// twice reports whether there is a member of the name already: a line has few.
func twice(members []member, name string) bool {
	for i := range members {
		if members[i].name == name {
			return true
		}
	}
	return false
}

// scanner stands at b[at].
type scanner struct {
	b  []byte
	at int
}

func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

// space passes over white space.
func (s *scanner) space() {
	for c := s.peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = s.peek() {
		s.at++
	}
}

// eat takes one byte, with white space before it, when it is the next.
func (s *scanner) eat(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// end reports whether nothing but white space is left.
func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.b)
}

// text takes a string in quotes.
func (s *scanner) text() (string, bool) {
	if !s.eat('"') {
		return "", false
	}
	from := s.at
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return string(s.b[from : s.at-1]), true
		case c < ' ' || c > '~' || c == '\\':
			return "", false
		}
	}
	return "", false
}

// value takes a scalar.
func (s *scanner) value() (any, bool) {
	s.space()
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == 't':
		return true, s.word("true")
	case c == 'f':
		return false, s.word("false")
	case c == 'n':
		return nil, s.word("null")
	}
	return s.number()
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.at < len(w) || string(s.b[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// number takes a number as JSON writes it, and keeps its text.
func (s *scanner) number() (any, bool) {
	from := s.at
	if s.peek() == '-' {
		s.at++
	}
	first := s.peek()
	if n := s.digits(); n == 0 || n > 1 && first == '0' {
		return nil, false
	}
	if s.peek() == '.' {
		s.at++
		if s.digits() == 0 {
			return nil, false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if s.digits() == 0 {
			return nil, false
		}
	}
	return json.Number(s.b[from:s.at]), true
}

// digits takes digits, and says how many.
func (s *scanner) digits() int {
	from := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at - from
}
