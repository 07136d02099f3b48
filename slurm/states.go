package slurm

import "strings"

var jobStates = map[string]BaseState{}

func init() {
	for _, s := range []BaseState{StatePending, StateRunning, StateSuspended, StateCompleted, StateCancelled,
		StateFailed, StateTimeout, StateNodeFail, StatePreempted, StateBootFail, StateDeadline, StateOutOfMemory} {
		jobStates[string(s)] = s
	}
}

// The flags of Slurm 24.11 to 26.05.
var jobFlags = wordSet(`COMPLETING CONFIGURING EXPEDITING LAUNCH_FAILED POWER_UP_NODE RECONFIG_FAIL REQUEUED
	REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED UPDATE_DB`)

var nodeStates = map[string]NodeState{
	"UNKNOWN": NodeUnknown, "DOWN": NodeDown, "IDLE": NodeIdle, "ALLOCATED": NodeAllocated, "ALLOC": NodeAllocated,
	"ERROR": NodeError, "MIXED": NodeMixed, "MIX": NodeMixed, "FUTURE": NodeFuture,
}

// nodeFlags says of each flag whether Slurm starts jobs on a node that has it.
var nodeFlags = func() map[string]bool {
	flags := map[string]bool{}
	for w := range wordSet(`CLOUD COMPLETING DYNAMIC_NORM PLANNED REBOOT_REQUESTED REBOOT_CANCELED RESERVED RESUME
		UNDRAIN PERFCTRS`) {
		flags[w] = true
	}
	for w := range wordSet(`BLOCKED DRAIN DYNAMIC_FUTURE EXTERNAL FAIL INVALID INVALID_REG MAINTENANCE NOT_RESPONDING
		POWERED_DOWN POWERING_DOWN POWERING_UP POWER_DOWN POWER_DRAIN POWER_UP REBOOT_ISSUED`) {
		flags[w] = false
	}
	return flags
}()

// The short forms of Slurm's commands: whole words and the sign at the end.
var (
	nodeWords = map[string][]string{
		"DRAINED": {"IDLE", "DRAIN"}, "DRAINING": {"MIXED", "DRAIN"}, "DRNG": {"MIXED", "DRAIN"},
		"COMP": {"ALLOCATED", "COMPLETING"}, "MAINT": {"IDLE", "MAINTENANCE"}, "RESV": {"IDLE", "RESERVED"},
		"FAILING": {"ALLOCATED", "FAIL"}, "PLND": {"IDLE", "PLANNED"},
	}
	nodeSigns = map[byte]string{'*': "NOT_RESPONDING", '~': "POWERED_DOWN", '#': "POWERING_UP", '!': "POWER_DOWN",
		'%': "POWERING_DOWN", '$': "MAINTENANCE", '@': "REBOOT_ISSUED", '^': "REBOOT_ISSUED", '-': "PLANNED"}
)

func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// jobState reads the state words of a job: a base word and flags, in any order
// and in one string or a list. Anything else is noted as "job_state".
func (r *record) jobState(state, flags raw) (BaseState, []string) {
	base, seen := StateUnknown, []string(nil)
	for _, w := range stateWords(r.list("job_state", state), r.list("state_flags", flags)) {
		if i := strings.IndexByte(w, ' '); i >= 0 && strings.HasPrefix(w[i:], " BY ") {
			w = w[:i] // "CANCELLED by 1000"
		}
		switch b, isBase := jobStates[w]; {
		case isBase && (base == StateUnknown || base == b):
			base = b
		case isBase:
			r.note("job_state")
			return StateUnknown, sortedSet(seen)
		default:
			if !jobFlags[w] {
				r.note("job_state")
			}
			seen = append(seen, w)
		}
	}
	if base == StateUnknown {
		r.note("job_state")
	}
	return base, sortedSet(seen)
}

// nodeState reads the state words of a node; usable is false for every word
// that is not known to be harmless.
func (r *record) nodeState(state, flags raw) (base NodeState, seen []string, usable bool) {
	base, usable = NodeUnknown, true
	for _, w := range stateWords(r.list("state", state), r.list("state_flags", flags)) {
		for _, w := range nodeWord(&seen, w) {
			if b, ok := nodeStates[w]; ok {
				if base != NodeUnknown && base != b {
					r.note("state")
				}
				base = b
				continue
			}
			harmless, known := nodeFlags[w]
			if !known {
				r.note("state")
			}
			usable = usable && harmless
			seen = append(seen, w)
		}
	}
	seen = sortedSet(seen)
	for _, f := range seen {
		usable = usable && nodeFlags[f]
	}
	switch base {
	case NodeIdle, NodeMixed, NodeAllocated:
	case NodeUnknown:
		r.note("state")
		usable = false
	default:
		usable = false
	}
	return base, seen, usable
}

// nodeWord takes the sign off a word and writes its short form out.
func nodeWord(flags *[]string, w string) []string {
	for w != "" && nodeSigns[w[len(w)-1]] != "" {
		*flags = append(*flags, nodeSigns[w[len(w)-1]])
		w = w[:len(w)-1]
	}
	if long, ok := nodeWords[w]; ok {
		return long
	}
	if w == "" {
		return nil
	}
	return []string{w}
}

// stateWords upper-cases the words and cuts them at '+'.
func stateWords(lists ...[]string) []string {
	var out []string
	for _, list := range lists {
		for _, s := range list {
			for _, w := range strings.Split(s, "+") {
				if w = strings.ToUpper(strings.TrimSpace(w)); w != "" {
					out = append(out, w)
				}
			}
		}
	}
	return out
}
