# shellcheck shell=bash
# Mounts and processes of a root: made together, and ended in the only safe order (processes, mounts, files).

# mount_kernel ROOT gives a root its /proc, /sys and a /dev of its own. The host's /dev is never shared: fake GPUs are
# made in here.
mount_kernel() {
	local root=$1
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --make-rslave "$root/sys" # so that unmounting in here never reaches the host's /sys
	mount -t tmpfs -o mode=0755,size=256m dev "$root/dev"
	mknod -m 0666 "$root/dev/null" c 1 3
	mknod -m 0666 "$root/dev/zero" c 1 5
	mknod -m 0666 "$root/dev/full" c 1 7
	mknod -m 0666 "$root/dev/random" c 1 8
	mknod -m 0666 "$root/dev/urandom" c 1 9
	mknod -m 0666 "$root/dev/tty" c 5 0
	ln -s /proc/self/fd "$root/dev/fd"
	ln -s /proc/self/fd/0 "$root/dev/stdin"
	ln -s /proc/self/fd/1 "$root/dev/stdout"
	ln -s /proc/self/fd/2 "$root/dev/stderr"
	mkdir "$root/dev/pts"
	mkdir -m 1777 "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
	ln -s pts/ptmx "$root/dev/ptmx"
}

# mounts_below DIR prints the mount points at or below a folder, deepest (latest) first.
mounts_below() {
	local dir=$1
	awk -v dir="$dir" '{ gsub(/\\040/, " ", $5); if ($5 == dir || index($5, dir "/") == 1) print $5 }' /proc/self/mountinfo | tac
}

# unmount_below DIR unmounts everything at or below a folder. A mount that stays busy is detached, so that no file of
# the host can be reached through it when the folder is removed. Fails when something is left.
unmount_below() {
	local dir=$1 try point
	for try in 1 2 3 4 5 6 7 8; do
		while read -r point; do
			umount "$point" 2>/dev/null || ((try < 6)) || umount --lazy "$point" 2>/dev/null || true
		done < <(mounts_below "$dir")
		[[ -z $(mounts_below "$dir") ]] && return 0
		sleep 0.1
	done
	return 1
}

# pids_below DIR prints the processes whose root folder lies in DIR: all daemons, job steps and `exec`s of an instance.
pids_below() {
	local dir=$1 link root
	for link in /proc/[0-9]*/root; do
		root=$(readlink "$link" 2>/dev/null) || continue
		if [[ $root == "$dir" || $root == "$dir"/* ]]; then
			link=${link#/proc/}
			printf '%s\n' "${link%/root}"
		fi
	done
}

# kill_below DIR ends the processes of a root: politely, then not. Fails when one survives.
kill_below() {
	local dir=$1 try pids
	for try in {1..60}; do
		mapfile -t pids < <(pids_below "$dir")
		((${#pids[@]} == 0)) && return 0
		if ((try == 1)); then
			kill -TERM "${pids[@]}" 2>/dev/null || true
		elif ((try > 5)); then
			kill -KILL "${pids[@]}" 2>/dev/null || true
		fi
		sleep 0.1
	done
	return 1
}
