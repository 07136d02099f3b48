# shellcheck shell=bash
# The daemons of an instance: started in the foreground, each in a session of its own, with its output in DIR/log and
# its process id in DIR/pids.

# all_services prints the names of an instance's daemons, in the order in which they start.
all_services() {
	local i
	printf '%s\n' munged mariadbd slurmdbd slurmctld
	for ((i = 1; i <= NODES; i++)); do echo "slurmd:n$i"; done
	printf '%s\n' slurmrestd slurmrestd:local
	[[ ! -e $DIR/watch ]] || echo watch
}

# is_service NAME says whether an instance has such a daemon. (No `| grep -q`: it ends early, which with pipefail fails.)
is_service() { [[ $'\n'$(all_services)$'\n' == *$'\n'"$1"$'\n'* ]]; }

# launch NAME CMD... starts a command in the root that outlives this script. It holds none of the caller's files (a
# caller that waits for the end of our output would hang) nor our locks, no signal for the caller's process group
# reaches it, and signals that a background shell ignores are back at their defaults, since jobs inherit them.
launch() {
	local name=$1 fd
	shift
	(
		for fd in /proc/"$BASHPID"/fd/*; do
			fd=${fd##*/}
			((fd <= 2 || fd == 255)) || eval "exec $fd>&-"
		done
		cd /
		exec setsid chroot "${AS[@]}" "$ROOT" /usr/bin/env -i --default-signal \
			PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
	) </dev/null >>"$DIR/log/$name.log" 2>&1 &
	printf '%d\n' $! >"$DIR/pids/$name"
	disown $!
	AWAITED=$! eventually 60 "$name (log: $DIR/log/$name.log)" service_pid "$name"
}

# start_service NAME starts one daemon and waits until it answers.
start_service() {
	local name=$1 AS=()
	service_pid "$name" >/dev/null && return 0
	case $name in
	munged)
		AS=(--userspec=munge)
		launch munged munged --foreground
		await munged munge_answers
		;;
	mariadbd)
		launch mariadbd mariadbd --user=mysql
		await mariadbd in_root "$ROOT" mariadb-admin --silent ping
		;;
	slurmdbd)
		launch slurmdbd slurmdbd -D
		await slurmdbd port_answers $((PORT_BASE + 1))
		;;
	slurmctld)
		launch slurmctld slurmctld -D
		await slurmctld ctld_answers
		;;
	slurmd:n*)
		is_service "$name" || die "no such node: ${name#slurmd:}"
		launch "$name" slurmd -D -N "${name#slurmd:}"
		;;
	slurmrestd)
		AS=(--userspec=slurmrest)
		launch slurmrestd SLURM_JWT=daemon SLURMRESTD_JSON=compact slurmrestd -a rest_auth/jwt "127.0.0.1:$((PORT_BASE + 2))"
		await slurmrestd port_answers $((PORT_BASE + 2))
		;;
	slurmrestd:local)
		rm -f "$ROOT/run/unisched/restd.sock"
		AS=(--userspec=unisched)
		launch slurmrestd:local SLURMRESTD_JSON=compact slurmrestd -a rest_auth/local unix:/run/unisched/restd.sock
		await slurmrestd:local test -S "$ROOT/run/unisched/restd.sock"
		;;
	watch)
		launch watch unisched-node watch --base "$BASE" --url "$(cat "$DIR/watch")" --key /etc/unisched/node.key
		;;
	*) die "no such service: $name (have: $(all_services | tr '\n' ' '))" ;;
	esac
}

# stop_service NAME [SIGNAL] ends one daemon and waits for its end; jobs that it started go on.
stop_service() {
	local name=$1 signal=${2:-TERM} pid
	is_service "$name" || die "no such service: $name (have: $(all_services | tr '\n' ' '))"
	pid=$(service_pid "$name") || return 0
	kill -"$signal" "$pid" 2>/dev/null || true
	if ! eventually 15 '' gone "$pid"; then
		kill -KILL "$pid" 2>/dev/null || true
		eventually 5 "end of $name" gone "$pid"
	fi
	rm -f "$DIR/pids/$name"
}

# service_pid NAME prints the process id of a daemon that runs; ids of other programs that came to use it don't count.
service_pid() {
	local pid
	[[ -e $DIR/pids/$1 ]] || return 1
	pid=$(<"$DIR/pids/$1")
	# Just after the launch it is still this program, with the host's root.
	[[ $(readlink "/proc/$pid/root" 2>/dev/null) == "$ROOT" ]] && ! gone "$pid" || return 1
	printf '%s\n' "$pid"
}

# gone PID says whether a process has ended; one that waits for its parent to notice has.
gone() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	[[ ${stat##*) } == Z* ]]
}

munge_answers() { in_root "$ROOT" munge --no-input --output=/dev/null 2>/dev/null; }
ctld_answers() { [[ $(in_root "$ROOT" scontrol ping 2>/dev/null) == *'is UP'* ]]; }
port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# await NAME CMD... waits until a daemon that was just launched answers; its early end is an error at once.
await() {
	local name=$1 pid
	shift
	pid=$(<"$DIR/pids/$name")
	AWAITED=$pid eventually 60 "$name (log: $DIR/log/$name.log)" "$@"
}

# eventually SECONDS WHAT CMD... repeats a command until it succeeds. Past the limit, or when the process AWAITED ends,
# it fails, and says for what it waited.
eventually() {
	local limit=$1 what=$2 until
	shift 2
	until=$((${EPOCHREALTIME//[.,]/} + limit * 1000000))
	while ! "$@" >/dev/null 2>&1; do
		if [[ -n ${AWAITED:-} ]] && gone "$AWAITED"; then
			say "ended at once: $what"
			return 1
		fi
		if ((${EPOCHREALTIME//[.,]/} > until)); then
			[[ -z $what ]] || say "waited $limit s in vain for $what"
			return 1
		fi
		sleep 0.05
	done
}
