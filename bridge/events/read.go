package events

import "time"

// Read gives the events of the files in dir from one instant to another that pick wants, in their order, the newest most of them. It needs no daemon and
// changes nothing; a folder that does not exist is an error that wraps fs.ErrNotExist.
func Read(dir string, from, until time.Time, most int, pick func(Event) bool) ([]Event, error) {
	files := filesOf(dir)
	names, err := files.Names()
	if err != nil {
		return nil, err
	}
	var out []Event
	for _, name := range names {
		err := scan(files, name, nil, func(e Event) {
			if e.At.Before(from) || e.At.After(until) || !pick(e) {
				return
			}
			if out = append(out, e); len(out) >= 2*most {
				out = append(out[:0], out[len(out)-most:]...)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out[max(len(out)-most, 0):], nil
}
