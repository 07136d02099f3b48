# shellcheck shell=bash disable=SC2034
# One cluster: a folder DIR with the root (an overlay over the base root), its logs, process ids and description.
#
#   DIR/unisched-testcluster  marks the folder as ours: nothing without it is ever removed
#   DIR/root                  the root that everything runs in; DIR/upper and DIR/work belong to its overlay
#   DIR/env, cluster.json     what a caller needs to know, for a shell and for programs
#   DIR/token                 the scheduler's token; DIR/log, DIR/pids, DIR/watch

readonly MARK=unisched-testcluster
readonly BASE=/var/lib/unisched/jobs # progress files, inside the root

# up SETTINGS... creates and starts a cluster. Whatever fails or interrupts it, nothing is left but its logs.
up() {
	local started=${EPOCHREALTIME//[.,]/}
	bootstrap "$SLURM"
	need_root
	claim_dir
	trap 'undo_up' EXIT
	trap 'exit 1' INT TERM HUP
	if [[ -n $PORT_BASE ]]; then
		claim_block "$PORT_BASE" "$NODES" "$DIR"
	else
		PORT_BASE=$(free_block "$NODES" "$DIR")
	fi
	make_root "$(base_dir "$SLURM")/root"
	mount_kernel "$ROOT"
	make_gpus
	configure
	write_env
	start_all
	write_token unisched 2592000 "$DIR/token"
	write_json
	trap - EXIT INT TERM HUP
	say "Slurm $(<"$DIR/version") with $NODES x $GPUS GPUs is up in $DIR ($(((${EPOCHREALTIME//[.,]/} - started) / 1000)) ms)"
}

# claim_dir makes DIR, or takes an empty one; a folder with anything in it is refused.
claim_dir() {
	[[ ! -e $DIR/$MARK ]] || die "$DIR has a cluster already: 'cluster down --dir $DIR' first"
	mkdir -p "$DIR"
	[[ -z $(ls -A "$DIR") ]] || die "$DIR is not empty and no cluster's folder"
	chmod 0755 "$DIR"
	touch "$DIR/$MARK"
	mkdir "$DIR/root" "$DIR/log" "$DIR/pids"
	((${#ROOT} + ${#REST_SOCKET} <= 107)) || die "--dir $DIR is too long: the path of the REST socket in it would pass 107 bytes"
}

# undo_up is the end of an `up` that failed: it keeps the logs beside DIR, and takes the rest away.
undo_up() {
	trap - EXIT INT TERM HUP
	local kept=$DIR.failed
	rm -rf "$kept"
	mkdir -p "$kept"
	cp -r "$DIR/log/." "$kept/" 2>/dev/null || true
	cp -r "$ROOT/var/log/slurm/." "$kept/" 2>/dev/null || true
	say "up failed; its logs are in $kept"
	remove_dir || true
	exit 1
}

# make_root BASE lays the instance's root over the base root, or copies it where overlays are not possible.
make_root() {
	local base=$1 option
	cp "${base%/root}/version" "$DIR/version"
	mkdir "$DIR/upper" "$DIR/work"
	for option in ,volatile ''; do # volatile: no syncs to disk, which a cluster that does not outlive a crash can miss
		mount -t overlay overlay -o "lowerdir=$base,upperdir=$DIR/upper,workdir=$DIR/work$option" "$ROOT" 2>>"$DIR/log/mount.log" && return 0
	done
	say "no overlay possible here (see $DIR/log/mount.log): copying the root"
	rm -rf "$DIR/upper" "$DIR/work"
	cp -a --reflink=auto "$base/." "$ROOT/"
}

configure() {
	# Multi-node jobs find each other by the names of the nodes.
	printf '127.0.0.1 localhost %s %s\n' "$(cat /proc/sys/kernel/hostname)" "$(seq -s ' ' -f 'n%g' "$NODES")" >"$ROOT/etc/hosts"
	make_state_dirs "$ROOT"
	seq -f "$ROOT/var/spool/slurmd.n%g" "$NODES" | xargs mkdir -p
	write_keys "$ROOT"
	write_slurm_conf
	write_dbd_conf "$ROOT" $((PORT_BASE + 1))
	install_hooks
	[[ -n $DAEMON_URL ]] || return 0
	if [[ -x $ROOT/usr/sbin/unisched-node ]]; then
		install -D -m 0600 "$NODE_KEY" "$ROOT/etc/unisched/node.key"
		printf '%s\n' "$DAEMON_URL" >"$DIR/watch"
	else
		say "warning: no bin/unisched-node in $REPO, so no watcher reports to $DAEMON_URL"
	fi
}

start_all() {
	local name
	start_service munged
	start_service mariadbd
	start_service slurmdbd
	add_cluster
	# A first slurmctld that ends in good order writes all its state files. Without, one that crashes in its first five
	# minutes could not be started again: Slurm 26.05 insists on a file that is written no earlier.
	start_service slurmctld
	stop_service slurmctld
	for name in $(all_services); do
		start_service "$name"
	done
	eventually 60 "all $NODES nodes to be idle (log: $ROOT/var/log/slurm)" nodes_idle
}

# nodes_idle says whether Slurm has every node, and has it ready for jobs.
nodes_idle() { [[ $(in_root "$ROOT" sinfo -h -N -p gpu -t idle -o '%N %T' | grep -cx 'n[0-9]* idle') == "$NODES" ]]; }

# down ends a cluster. Safe to repeat, also on what an interrupted `up` or `down` left.
down() {
	if [[ ! -e $DIR/$MARK ]]; then
		say "no cluster in $DIR"
		return 0
	fi
	need_root
	remove_dir || die "cannot take down $DIR: see what it still has mounted (grep $DIR /proc/mounts) and running"
	say "$DIR is gone"
}

# remove_dir ends processes, then mounts, then files: never files while something is mounted in them. The mark goes
# last, so that a `down` that was cut short can be repeated.
remove_dir() {
	kill_recorded
	kill_below "$DIR" && unmount_below "$DIR" || return 1
	find "$DIR" -xdev -mindepth 1 -maxdepth 1 -not -name "$MARK" -exec rm -rf --one-file-system {} + || return 1
	rm -f "$DIR/$MARK"
	rmdir "$DIR"
	free_claims "$DIR"
}

# kill_recorded ends daemons that were launched and have not yet entered the root, which kill_below cannot see.
kill_recorded() {
	local file pid
	for file in "$DIR"/pids/*; do
		[[ -e $file ]] || continue
		pid=$(<"$file")
		[[ $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null) != *" $ROOT "* ]] || kill -KILL "$pid" 2>/dev/null || true
	done
}

# status prints one line per daemon, and Slurm's own view. Fails when a daemon is down.
status() {
	local name pid down=0
	while read -r name; do
		if pid=$(service_pid "$name"); then
			printf '%-18s %s\n' "$name" "$pid"
		else
			printf '%-18s down\n' "$name"
			down=1
		fi
	done < <(all_services)
	in_root "$ROOT" timeout 10 sinfo || down=1
	return $down
}

# exec_in USER CMD... replaces this program by a command of a user in the root, in the user's home.
exec_in() {
	local user=$1 home
	shift
	home=$(awk -F: -v u="$user" '$1 == u { print $6 }' "$ROOT/etc/passwd")
	[[ -n $home ]] || die "no user $user in this cluster (have: root ${USERS[*]%:*})"
	# shellcheck disable=SC2016
	exec chroot --userspec="$user" "$ROOT" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash LC_ALL=C.UTF-8 ${TERM:+TERM="$TERM"} \
		/bin/sh -c 'cd && exec "$@"' sh "$@"
}

# mint USER SECONDS prints a token.
mint() {
	local out
	out=$(in_root "$ROOT" scontrol token username="$1" lifespan="$2") || die "slurmctld gives no token: see $DIR/log/slurmctld.log"
	printf '%s\n' "${out#SLURM_JWT=}"
}

# write_token USER SECONDS FILE puts a token in a file that only root may read; a reader sees the old one or the new.
write_token() {
	local user=$1 seconds=$2 file=$3 token new
	token=$(mint "$user" "$seconds")
	new=$(mktemp "$file.XXXXXX") # mode 0600
	printf '%s\n' "$token" >"$new"
	mv -f "$new" "$file"
}
