# shellcheck shell=bash
# The base root: a Debian with Slurm in it, built once per Slurm version and shared, read-only, by all clusters on this
# host. It lives outside the repository and is named by a hash of what goes into it, so that a change makes a new one.

# What goes into every base root. numpy and scikit-learn (with its digits data) are for the example jobs.
# UNISCHED_CLUSTER_EXTRA names more Debian packages (python3-torch for the PyTorch example): another base root.
read -ra EXTRA <<<"${UNISCHED_CLUSTER_EXTRA:-}"
for package in "${EXTRA[@]}"; do
	[[ $package =~ ^[a-z0-9][a-z0-9.+-]*$ ]] || die "UNISCHED_CLUSTER_EXTRA holds '$package', which is no package name"
done
readonly PACKAGES=(
	slurmctld slurmd slurmrestd slurm-client munge slurm-wlm-basic-plugins slurm-wlm-jwt-plugin
	slurmdbd slurm-wlm-mysql-plugin mariadb-server
	iproute2 procps python3 python3-numpy python3-sklearn "${EXTRA[@]}"
)

# Login names and their fixed ids. `slurmrest` runs slurmrestd, which refuses root and SlurmUser; `unisched` is the
# scheduler's own identity; the others submit jobs.
readonly USERS=(slurmrest:2001 unisched:2002 alice:2003 bob:2004 carol:2005)

cache_dir() { printf '%s/testcluster' "${UNISCHED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/unisched}"; }

# suite_of VERSION prints the Debian suite that carries this Slurm.
suite_of() {
	case $1 in
	24.11) echo trixie ;;
	26.05) echo sid ;;
	*) die "--slurm must be 24.11 or 26.05, not '$1'" ;;
	esac
}

# base_dir VERSION prints the folder that holds (or will hold) the base root.
base_dir() {
	local hash
	hash=$({
		printf '%s\n' "$(suite_of "$1")" "${PACKAGES[@]}" "${USERS[@]}"
		cat "$LIB/bootstrap.sh" "$LIB/accounts.sh"
	} | sha256sum | cut -c1-12)
	printf '%s/%s-%s' "$(cache_dir)" "$1" "$hash"
}

# bootstrap VERSION makes sure that the base root exists. Two at once are safe: the second waits for the first.
bootstrap() {
	local version=$1 base lock
	base=$(base_dir "$version")
	[[ -e $base/complete ]] && return 0
	need_root
	mkdir -p "$(cache_dir)"
	# What the build runs keeps the lock too: should this program be killed, the next one waits for the end of that.
	exec {lock}>"$base.lock"
	if ! flock --nonblock "$lock"; then
		say "another bootstrap of Slurm $version is at work; waiting for it"
		flock "$lock"
	fi
	if [[ ! -e $base/complete ]]; then
		clear_partial "$base"
		build_base "$version" "$base"
	fi
	exec {lock}>&-
}

# build_base VERSION BASE builds in a folder beside BASE, and moves it there when it is complete. Whatever fails or
# interrupts it ends this program. Not to be called in a condition: there, bash goes on after a step that failed.
build_base() {
	local version=$1 base=$2 suite mirror tmp started=$SECONDS
	STEP=''
	suite=$(suite_of "$version")
	: >"$base.log"
	find_debootstrap "$base.log"
	mirror=$(choose_mirror "$suite")
	export_apt_proxy
	tmp=$(mktemp -d "$base.tmp.XXXXXX")
	chmod 0755 "$tmp"
	# shellcheck disable=SC2064
	trap "build_failed '$base'" EXIT
	trap 'exit 1' INT TERM HUP

	step "Debian $suite" debootstrap --variant=minbase --force-check-gpg --include=ca-certificates "$suite" "$tmp/root" "$mirror"
	prepare_root "$tmp/root"
	mount_kernel "$tmp/root"
	step "package lists" in_root "$tmp/root" apt-get update
	step "Slurm, MariaDB, Python" in_root "$tmp/root" apt-get install -y --no-install-recommends "${PACKAGES[@]}"
	step "users" add_users "$tmp/root"
	check_root "$tmp/root" "$version"
	step "accounting template" build_accounts "$tmp/root"
	in_root "$tmp/root" apt-get clean >>"$base.log" 2>&1
	rm -rf "$tmp/root/var/lib/apt/lists" "$tmp/root/var/cache/apt"
	unmount_below "$tmp/root"
	touch "$tmp/complete"
	mv -T "$tmp" "$base"
	trap - EXIT INT TERM HUP
	say "Slurm $version is ready in $base ($((SECONDS - started)) s, $(du -sm "$base" | cut -f1) MB)"
}

# build_failed BASE says where to look, and removes what was half built.
build_failed() {
	trap - EXIT
	trap '' INT TERM HUP
	[[ -z $STEP ]] || printf ' failed\n' >&2
	if [[ -n $STEP ]] && kill -TERM -- "-$STEP" 2>/dev/null; then
		wait "$STEP" || true
	fi
	tail -n 40 "$1".tmp.*/log/*.log >>"$1.log" 2>/dev/null || true
	tail -n 5 "$1.log" | sed 's/^/  /' >&2
	clear_partial "$1"
	! grep -qE 'unknown key|NO_PUBKEY' "$1.log" ||
		die "this host's debian-archive-keyring is too old for that suite: install a newer one (log: $1.log)"
	die "bootstrap failed: see $1.log"
}

# step NAME CMD... runs a command with its output in the log, and shows its name and time. The command has a process
# group of its own (STEP), so that an interrupt reaches us at once, and we can end all of it.
step() {
	local name=$1 started=$SECONDS
	shift
	printf 'cluster: %s ...' "$name" >&2
	printf '== %s\n' "$name" >>"$base.log"
	set -m
	{
		set +m
		"$@"
	} >>"$base.log" 2>&1 </dev/null &
	set +m
	STEP=$!
	wait "$STEP"
	STEP=''
	printf ' %d s\n' $((SECONDS - started)) >&2
}

# find_debootstrap installs debootstrap and Debian's archive keys on this host when they are missing.
find_debootstrap() {
	local log=$1
	if ! command -v debootstrap >/dev/null || ! compgen -G '/usr/share/keyrings/debian-archive-keyring.*' >/dev/null; then
		command -v apt-get >/dev/null || die "needs debootstrap, and this host has no apt-get to install it with"
		say "installing debootstrap on this host"
		{ apt-get update && apt-get install -y --no-install-recommends debootstrap debian-archive-keyring; } >>"$log" 2>&1 ||
			die "cannot install debootstrap: see $log"
	fi
}

# choose_mirror SUITE prints the first of the host's Debian mirrors. A mirror that lacks the suite fails at debootstrap.
choose_mirror() {
	local suite=$1 mirror
	[[ -e /usr/share/debootstrap/scripts/$suite ]] || die "this host's debootstrap does not know Debian $suite: install a newer one"
	mirror=$(debian_mirrors | head -n 1)
	[[ -n $mirror ]] || die "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d: add one that carries $suite"
	printf '%s' "$mirror"
}

# prepare_root writes what a minimal Debian lacks before packages can be installed and daemons can run in it.
prepare_root() {
	local root=$1
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # no package may start a daemon
	chmod 0755 "$root/usr/sbin/policy-rc.d"
	# Without this file every Slurm client hangs for 10 s when it looks up "localhost".
	printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
	printf 'localhost\n' >"$root/etc/hostname"
	cat >"$root/etc/dpkg/dpkg.cfg.d/testcluster" <<-'END'
		force-unsafe-io
		path-exclude=/usr/share/doc/*
		path-exclude=/usr/share/man/*
		path-exclude=/usr/share/locale/*
	END
	# A mirror that is behind, or a clock that is ahead, makes a suite's list expire; its signature is still checked.
	printf 'Acquire::Check-Valid-Until "false";\n' >"$root/etc/apt/apt.conf.d/99testcluster"
	# Small log files: each cluster copies them once, at its first write. Written before the package comes, since its
	# installation makes the database. The file that sorts last wins.
	mkdir -p "$root/etc/mysql/mariadb.conf.d"
	cat >"$root/etc/mysql/mariadb.conf.d/99-testcluster.cnf" <<-'END'
		[mariadbd]
		skip-networking
		innodb_log_file_size = 8M
		innodb_buffer_pool_size = 32M
		innodb_flush_log_at_trx_commit = 0
		innodb_doublewrite = 0
		innodb_lock_wait_timeout = 900
		loose_innodb_snapshot_isolation = OFF
	END
}

add_users() {
	local root=$1 entry
	for entry in "${USERS[@]}"; do
		in_root "$root" useradd --uid "${entry#*:}" --create-home --shell /bin/bash "${entry%:*}"
	done
	mkdir -p "$root/shared"
	chmod 1777 "$root/shared"
}

# check_root refuses a root in which something that the examples or the tests count on is missing.
check_root() {
	local root=$1 version=$2 found
	found=$(in_root "$root" slurmctld -V | awk '{ print $2 }')
	[[ -n $found ]] || die "slurmctld does not run in the new root: see $root"
	printf '%s\n' "$found" >"${root%/root}/version"
	[[ $found == "$version".* ]] ||
		say "warning: this mirror's $(suite_of "$version") carries Slurm $found, not $version; going on with it"
	in_root "$root" python3 -c 'from sklearn.datasets import load_digits; assert load_digits().data.shape == (1797, 64)' ||
		die "scikit-learn's digits data set does not load in the new root"
}

# in_root ROOT CMD... runs a command in a root with a clean environment (a proxy, if any, is kept for apt).
in_root() {
	local root=$1
	shift
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

# clear_partial BASE removes what an interrupted bootstrap of the same base left behind.
clear_partial() {
	local left
	for left in "$1".tmp.*; do
		[[ -d $left ]] || continue
		kill_below "$left"
		unmount_below "$left" || die "cannot unmount what is below $left: see /proc/mounts"
		rm -rf --one-file-system "$left"
	done
}

# prune removes cached bases that are neither current nor under a running cluster, and what interrupted builds left.
prune() {
	local version base keep=' '
	need_root
	for version in 24.11 26.05; do
		keep+="$(base_dir "$version") "
	done
	for base in "$(cache_dir)"/*/; do
		base=${base%/}
		[[ -d $base && $keep != *" $base "* && $base != *.tmp.* ]] || continue
		! grep -qF "lowerdir=$base/" /proc/mounts || continue
		say "removing $base"
		rm -rf --one-file-system "$base" "$base.log" "$base.lock"
	done
}
