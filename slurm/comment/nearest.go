package comment

import (
	"fmt"
	"strings"
	"unicode"
)

// nearest is the word that v most likely meant, "" when none is near.
func nearest(v string, words []string) string {
	if v == "" || len(v) > 32 {
		return ""
	}
	best, least := "", len(v)
	for _, word := range words {
		if d := distance(strings.ToLower(v), strings.ToLower(word)); d < least && d <= max(1, len(word)/3) {
			best, least = word, d
		}
	}
	return best
}

// Misspelt is the word of a comment without a part of ours ([ErrNone]) that probably was to begin one, "" when there is none.
func Misspelt(s string) string {
	for _, token := range strings.FieldsFunc(s, func(r rune) bool { return r == ';' || unicode.IsSpace(r) }) {
		word, _, colon := strings.Cut(token, ":")
		switch {
		case token == marker:
			return token
		case colon && word != marker && nearest(word, []string{marker}) != "":
			return word + ":"
		}
	}
	return ""
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// quote shows text of the comment in an error: escaped and short.
func quote(s string) string { return fmt.Sprintf("%q", cut(s)) }

// clip shows a key bare when it is a plain word, else quoted.
func clip(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < 'a' || s[i] > 'z' {
			return quote(s)
		}
	}
	return cut(s)
}

func cut(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
