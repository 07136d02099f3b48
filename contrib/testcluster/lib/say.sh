# shellcheck shell=bash
# Messages, and the few checks that every verb makes before it touches the host. Everything goes to stderr, so that
# stdout stays free for what a verb prints (a token, the output of `exec`).

say() { printf 'cluster: %s\n' "$*" >&2; }

die() {
	printf 'cluster: error: %s\n' "$*" >&2
	exit 1
}

# need_root ends the program unless it may mount and chroot, which every verb that builds something needs.
need_root() {
	[[ $(id -u) == 0 ]] || die "must run as root: it mounts, makes device nodes and uses chroot (try sudo, or a privileged container)"
	local probe
	probe=$(mktemp -d)
	if ! mount -t tmpfs none "$probe" 2>/dev/null; then
		rmdir "$probe"
		die "may not mount: needs CAP_SYS_ADMIN (in a container: --privileged)"
	fi
	if ! mknod "$probe/null" c 1 3 2>/dev/null; then
		umount "$probe"
		rmdir "$probe"
		die "may not make device nodes: needs CAP_MKNOD (in a container: --privileged)"
	fi
	umount "$probe"
	rmdir "$probe"
}

# need_tools ends the program with the names of the commands that the host lacks.
need_tools() {
	local tool missing=()
	for tool in "$@"; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	((${#missing[@]} == 0)) || die "commands missing on this host: ${missing[*]}"
}
