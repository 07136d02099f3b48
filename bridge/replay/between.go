package replay

import (
	"path/filepath"
	"time"
)

// nameTime is how the name of a round begins.
const nameTime = "20060102T150405.000Z"

// Between are the rounds planned within [from, until]; their names tell. A file whose name tells no time is left out.
func (r Records) Between(from, until time.Time) Records {
	var out Records
	for _, f := range r.files {
		name := filepath.Base(f)
		if len(name) < len(nameTime) {
			continue
		}
		at, err := time.Parse(nameTime, name[:len(nameTime)])
		if err == nil && !at.Before(from) && !at.After(until) {
			out.files = append(out.files, f)
		}
	}
	return out
}
