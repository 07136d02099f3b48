package siteconfig

// Key is one key that a configuration may hold, for whoever describes them.
type Key struct {
	Name    string // "bridge.unit", "accounts.NAME.max_gpus"
	Kind    string // "text", "list of text", "duration", "integer", "number", "file mode", "time zone"
	Default string // as TOML; "" for keys of tables whose names are the site's own: they are not set
}

// Keys lists all keys in the order in which the file and `config show` have them.
func Keys() []Key {
	site := Defaults()
	out := make([]Key, 0, len(fields)+len(grants))
	for _, f := range fields {
		out = append(out, Key{f.key, f.kind, f.get(&site)})
	}
	for _, g := range grants {
		kind := "number"
		if g.leaf == "max_gpus" {
			kind = "integer"
		}
		out = append(out, Key{g.section + ".NAME." + g.leaf, kind, ""})
	}
	return out
}
