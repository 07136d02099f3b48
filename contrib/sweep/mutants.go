package main

// edit replaces one piece of a file, which must occur in it exactly once.
type edit struct{ file, old, new string }

// mutant is the product without one of its safeguards.
type mutant struct {
	safeguard string
	edits     []edit
	first     string // the world in which it shows soonest; "" in any
}

const (
	applyGo   = "bridge/apply.go"
	bridgeGo  = "bridge/bridge.go"
	journalGo = "bridge/journal/journal.go"
	persistGo = "bridge/persist.go"

	bridgeAction = "bridge/action.go"
)

// onCrashDisk puts the journal on the disk that loses power. Mutants are made on top of it.
var onCrashDisk = []edit{
	{journalGo, "\t\"os\"\n", "\tos \"unisched/contrib/sweep/crashdisk\"\n"},
	{journalGo, "syscall.Flock(int(lock.Fd()), ", "os.Flock(lock, "},
}

// mutants are the safeguards of docs/safety.md, each taken out.
var mutants = []mutant{
	{"fence: the job is read again before a write", []edit{
		// A signal is still sent on a new look alone: it follows its hold in the same cycle.
		{applyGo, "job := &read\n",
			"job := &read\n\tif shown, ok := c.job(rec); ok && a.Name() != \"signal\" {\n\t\tjob = shown\n\t}\n"},
	}, ""},
	{"fence: the run is compared", []edit{
		{applyGo, "if !rec.sameRun(job) {", "if false {"},
		{bridgeAction, "job.Restarts != r.Restart {", "false && job.Restarts != r.Restart {"},
	}, ""},
	{"fence: the state is compared", []edit{
		{applyGo, "if why := fits(a, job); why != \"\" {", "if why := \"\"; why != \"\" {"},
	}, ""},
	{"a requeue carries Incomplete", []edit{
		{"slurm/writes.go", ", \"flags\": []string{\"Incomplete\"}}", "}"},
	}, "saves and runs on"},
	{"a suspect snapshot permits nothing disruptive", []edit{
		{"bridge/judge.go", "b.suspect, b.trouble, b.seen = why, \"\", s", "b.suspect, b.trouble, b.seen = b.unsaved, \"\", s"},
	}, ""},
	{"the journal is synced before the call", []edit{
		{journalGo, "if err := j.file.Sync(); err != nil {", "if err := error(nil); err != nil {"},
	}, ""},
	{"the directory is synced after a compaction", []edit{
		{journalGo, "if err := syncDir(j.dir); err != nil {\n\t\tf.Close()", "if err := error(nil); err != nil {\n\t\tf.Close()"},
	}, "move"},
	{"a torn tail is cut off", []edit{
		{journalGo, "if err := f.Truncate(c.good); err != nil {", "if err := error(nil); err != nil {"},
	}, ""},
	{"one owner: the journal's lock", []edit{
		{journalGo, "syscall.LOCK_EX|syscall.LOCK_NB", "syscall.LOCK_SH|syscall.LOCK_NB"},
	}, ""},
	{"the intent is written before the call", []edit{
		{applyGo, "if b.unsaved == \"\" {\n\t\tif err := b.intend(", "if false {\n\t\tif err := b.intend("},
		{applyGo, "err := b.call(ctx, rec, a, job)\n", "err := b.call(ctx, rec, a, job)\n\tif e := b.intend(c.now, rec, a, id, was.Target.Plan); e != nil {\n\t\treturn Skipped, e\n\t}\n"},
	}, ""},
	{"the journal is read at a restart", []edit{
		{bridgeGo, "journalled, err := b.restore(from.Entries)", "journalled, err := b.restore(nil)"},
	}, ""},
	{"a call of the daemon before may still arrive", []edit{
		{bridgeGo, "if b.last.IsZero() {", "if false {"},
	}, ""},
	{"a late call is known again when it shows", []edit{
		{"bridge/follow.go", "	r.arrived(now, job)\n", ""},
	}, ""},
	{"a call of unknown outcome may still arrive", []edit{
		{applyGo, "rec.DoubtTill = c.now.Add(doubtFor)\n", ""},
	}, ""},
	{"what a call takes off is forgotten when a look shows it: hold", []edit{
		{applyGo, "case Unhold:\n\tcase Settle:", "case Unhold:\n\t\tch.Hold = false\n\tcase Settle:"},
	}, "does not answer"},
	{"what a call takes off is forgotten when a look shows it: shape", []edit{
		{applyGo, "case Unhold:\n\tcase Settle:\n", "case Unhold:\n\tcase Settle:\n\t\tch.Hold, ch.Nice, ch.Reshape = false, false, false\n"},
	}, "profile"},
	{"without a record nothing disruptive is done", []edit{
		{applyGo, "if b.unsaved != \"\" && disruptive(a) {\n\t\t*rec = *was\n", "if false {\n\t\t*rec = *was\n"},
		{applyGo, "id, was.Target.Plan); err != nil && disruptive(a) {", "id, was.Target.Plan); err != nil && false {"},
		{"bridge/judge.go", "\tcase b.unsaved != \"\":\n\t\twhy = b.unsaved\n", ""},
		{persistGo, "\tb.suspect = b.unsaved\n", ""},
	}, ""},
	{"nothing is signalled that is not held", []edit{
		{bridgeAction, "\t\tif !job.Held {\n\t\t\treturn \"our hold", "\t\tif false {\n\t\t\treturn \"our hold"},
	}, ""},
	{"a hold of somebody else is not ours", []edit{
		{bridgeAction, "if _, hold := a.(Hold); hold && job.Held {", "if false {"},
		{"bridge/follow.go", "if c.Hold && (!job.Held || job.Reason == \"JobHeldUser\") {", "if c.Hold && !job.Held {"},
	}, ""},
	{"a job is known by its user and its submission, not by its id", []edit{
		{"bridge/follow.go", "if rec != nil && !rec.same(job) {", "if false {"},
	}, ""},
	{"nodes are named only to a job that cannot start", []edit{
		{applyGo, "if rec.writesNodes(a, job) && !c.parked(job) {", "if false {"},
	}, "fewer nodes, and Slurm starts it meanwhile"},
	{"a call of unknown outcome is not repeated", []edit{
		{applyGo, "err := b.call(ctx, rec, a, job)\n", "err := b.call(ctx, rec, a, job)\n\tif outcomeOf(err) == Unknown {\n\t\terr = b.call(ctx, rec, a, job)\n\t}\n"},
	}, ""},
}
