package slurm

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// unwire fills a struct of raw fields, which has json tags, from one record. It does what the general decoder does, at a fraction of its time: the
// decoder that cut the record out of the answer has checked it already, and a list of 10,000 jobs is most of what the daemon ever computes. Members
// that the struct does not name are passed over; of doubled ones the last counts. ok is false for anything but an object.
func unwire(data raw, w any) (ok bool) {
	v := reflect.ValueOf(w).Elem()
	index := wireIndex(v.Type())
	return members(data, func(key []byte, value raw) {
		if i, known := index[string(key)]; known {
			v.Field(i).SetBytes(value)
		}
	})
}

// wires are the known structs; it is filled when the program starts and only read later.
var wires = map[reflect.Type]map[string]int{}

func wireIndex(t reflect.Type) map[string]int {
	if index, ok := wires[t]; ok {
		return index
	}
	return newIndex(t)
}

func newIndex(t reflect.Type) map[string]int {
	index := map[string]int{}
	for i := range t.NumField() {
		if t.Field(i).Type == reflect.TypeFor[raw]() {
			index[t.Field(i).Tag.Get("json")] = i
		}
	}
	return index
}

func init() {
	for _, t := range []reflect.Type{reflect.TypeFor[jobWire](), reflect.TypeFor[nodeWire]()} {
		wires[t] = newIndex(t)
	}
}

// members hands out the members of one JSON object, values without the white space around them. Of text that is no JSON it hands out less or
// nothing, but what it hands out always has its closing quote or bracket.
func members(data []byte, each func(key []byte, value raw)) bool {
	data = bytes.TrimSpace(data)
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return false
	}
	rest := afterSpace(data[1 : len(data)-1])
	for len(rest) > 0 {
		n := valueEnd(rest)
		if n < 2 || rest[0] != '"' {
			return false
		}
		key := rest[1 : n-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			var s string
			if json.Unmarshal(rest[:n], &s) != nil {
				return false
			}
			key = []byte(s)
		}
		rest = afterSpace(rest[n:])
		if len(rest) == 0 || rest[0] != ':' {
			return false
		}
		rest = afterSpace(rest[1:])
		if n = valueEnd(rest); n <= 0 {
			return false
		}
		each(key, rest[:n:n])
		rest = afterSpace(rest[n:])
		switch {
		case len(rest) == 0:
			return true
		case rest[0] != ',':
			return false
		}
		if rest = afterSpace(rest[1:]); len(rest) == 0 {
			return false
		}
	}
	return true
}

// afterSpace is s without the white space that it begins with.
func afterSpace(s []byte) []byte {
	for i, c := range s {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return s[i:]
		}
	}
	return nil
}

// valueEnd is the length of the JSON value that s begins with, 0 for none or one without its end.
func valueEnd(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '"':
		return stringEnd(s)
	case '{', '[':
		return boxEnd(s)
	}
	for i, c := range s {
		switch c {
		case ',', ':', ']', '}', '{', '[', '"', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return len(s)
}

func stringEnd(s []byte) int {
	for i := 1; i < len(s); {
		n := bytes.IndexByte(s[i:], '"')
		if n < 0 {
			return 0
		}
		end := i + n
		slashes := 0
		for k := end - 1; k > 0 && s[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return 0
}

// boxEnd finds the bracket that closes the first one. The decoder bounds the depth of what it has checked; here depth is a number, not a stack.
func boxEnd(s []byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			n := stringEnd(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}
