#!/usr/bin/env bash
# Makes sure that HiGHS 1.10.0 can be linked, and prints where it is on stdout: a prefix, or the word "system".
#
# In this order: the cached static build; the system's own package when it is exactly this version (Debian 13);
# a static build from Debian's source package, made once and kept in the cache. Progress goes to stderr.
#
# Environment:
#   UNISCHED_CACHE          cache folder (default ${XDG_CACHE_HOME:-~/.cache}/unisched)
#   UNISCHED_HIGHS_STATIC   non-empty: never the system's package, which has no archive to link statically
#   UNISCHED_HIGHS_SOURCE   a local highs_1.10.0+ds.orig.tar.xz, for machines that reach no mirror
#   UNISCHED_DEBIAN_MIRROR  a Debian mirror, where the host's own apt uses none (Ubuntu, say)
set -euo pipefail

version=1.10.0
source_version=1.10.0+ds-1
tarball=highs_1.10.0+ds.orig.tar.xz
sha256=5964fc1ca4f0b23dd45987bbed1838f2e570e96aa624635ac63d277152b6c94a
suite=trixie

cache=${UNISCHED_CACHE:-${XDG_CACHE_HOME:-${HOME:?is not set; set UNISCHED_CACHE to a cache folder}/.cache}/unisched}
prefix=$cache/highs-$version

say() { printf 'highs: %s\n' "$*" >&2; }
die() { printf 'highs: error: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '       %s\n' "$@" >&2; exit 1; }

# The prefix appears by one rename when it is whole, so its presence is the whole test.
if [ -d "$prefix" ]; then
	echo "$prefix"
	exit 0
fi
if [ -z "${UNISCHED_HIGHS_STATIC:-}" ] && command -v pkg-config >/dev/null &&
	[ "$(pkg-config --modversion highs 2>/dev/null)" = "$version" ]; then
	echo system
	exit 0
fi

# retry COMMAND...: package lists and locks are shared with whatever else runs apt on the host.
retry() {
	local n
	for n in 1 2 3 4 5 6; do
		"$@" && return 0
		[ "$n" = 6 ] || sleep $((n * 3))
	done
	return 1
}

apt_install() {
	apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" ||
		{ apt-get update && apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"; }
}

# need_tools installs what the build lacks, or says exactly what to install.
need_tools() {
	local missing=() pair
	for pair in cmake:cmake ninja:ninja-build g++:g++ make:make pkg-config:pkg-config xz:xz-utils; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	[ ${#missing[@]} -eq 0 ] && return
	command -v apt-get >/dev/null ||
		die "these tools are missing: ${missing[*]} (Debian's package names)" \
			"Install them, then run this again."
	[ "$(id -u)" = 0 ] ||
		die "these packages are missing and only root may install them. Run:" \
			"apt-get install --no-install-recommends ${missing[*]}"
	say "installing ${missing[*]}"
	DEBIAN_FRONTEND=noninteractive retry apt_install "${missing[@]}" >&2 </dev/null ||
		die "apt-get could not install: ${missing[*]}"
}

# mirror prints the Debian mirror that the host's own apt uses. apt parses its own sources, whatever their format.
mirror() {
	if [ -n "${UNISCHED_DEBIAN_MIRROR:-}" ]; then
		printf '%s\n' "${UNISCHED_DEBIAN_MIRROR%/}"
		return
	fi
	apt-get update --print-uris 2>/dev/null |
		sed -nE "s#^'([^']*)/dists/(stretch|buster|bullseye|bookworm|trixie|forky|sid|(old)?stable|testing|unstable)/InRelease'.*#\\1#p" |
		awk '!url { url = $0 } END { print url }'
}

# fetch DIR puts the tarball into DIR. Its apt lives in DIR alone: own sources, lists and cache, so the host's are
# neither read nor changed. trusted=yes because the checksum below vouches for the file, not a keyring which may
# be older than the suite.
fetch() {
	local dir=$1 url
	if [ -n "${UNISCHED_HIGHS_SOURCE:-}" ]; then
		cp -- "$UNISCHED_HIGHS_SOURCE" "$dir/$tarball"
		return
	fi
	command -v apt-get >/dev/null ||
		die "HiGHS $version is not installed and this machine has no apt to fetch its source with." \
			"Put $tarball (Debian's source package highs $source_version) somewhere and set UNISCHED_HIGHS_SOURCE to it."
	url=$(mirror) || true
	[ -n "$url" ] ||
		die "the host's apt names no Debian mirror to fetch the source of HiGHS $version from." \
			"Set UNISCHED_DEBIAN_MIRROR to one, or UNISCHED_HIGHS_SOURCE to a local $tarball."
	mkdir -p "$dir"/apt/{lists/partial,cache/archives/partial,state}
	: >"$dir/apt/status"
	echo "deb-src [trusted=yes] $url $suite main" >"$dir/apt/sources.list"
	local opts=(
		-o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=-
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=-
		-o "Dir::State=$dir/apt/state" -o "Dir::State::lists=$dir/apt/lists" -o "Dir::State::status=$dir/apt/status"
		-o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3
		-o APT::Update::Post-Invoke-Success= -o APT::Get::List-Cleanup=false
	)
	say "fetching the source package highs $source_version"
	(
		cd "$dir"
		retry apt-get "${opts[@]}" -q update >&2 || die "apt-get could not read the package lists of $url"
		# Mirrors which lack the .dsc still serve the tarball: only the file and its checksum count.
		# Its complaints about the others are shown only when the tarball did not come.
		apt-get "${opts[@]}" -q source --download-only "highs=$source_version" >"$dir/apt/log" 2>&1 || true
	)
	[ -s "$dir/$tarball" ] || cat "$dir/apt/log" >&2
	[ -s "$dir/$tarball" ] ||
		die "$tarball could not be fetched from the mirror that apt uses." \
			"Set UNISCHED_HIGHS_SOURCE to a local copy (Debian's source package highs $source_version)."
}

# build DIR compiles in DIR and leaves the finished tree in DIR/root, laid out for $prefix.
build() {
	local dir=$1 log=$1/build.log
	mkdir "$dir/src"
	tar -xJf "$dir/$tarball" -C "$dir/src" --strip-components=1
	say "building (about five CPU-minutes, once)"
	{
		cmake -S "$dir/src" -B "$dir/obj" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
			-DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
			-DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DBUILD_EXAMPLES=OFF -DZLIB=OFF &&
			nice cmake --build "$dir/obj" &&
			DESTDIR=$dir/root cmake --install "$dir/obj"
	} >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "the build failed"; }
	# The archive is C++: whoever links it from C or Go needs these as well.
	sed -i 's/^Libs:.*-lhighs.*/Libs: -L${libdir} -lhighs -lstdc++ -lm -lpthread/' "$dir/root$prefix/lib/pkgconfig/highs.pc"
	grep -q -- '-lstdc++' "$dir/root$prefix/lib/pkgconfig/highs.pc" || die "highs.pc has another form than expected"
	[ -s "$dir/root$prefix/lib/libhighs.a" ] || die "the build left no libhighs.a"
}

mkdir -p "$cache" || die "the cache folder $cache cannot be made; set UNISCHED_CACHE"
cache=$(cd "$cache" && pwd)
prefix=$cache/highs-$version

exec 9>"$cache/highs-$version.lock"
if ! flock -n 9; then
	say "another build is running, waiting for it"
	flock 9
fi
if [ ! -d "$prefix" ]; then
	need_tools
	work=$(mktemp -d "$cache/highs-build.XXXXXX")
	trap 'rm -rf -- "$work"' EXIT
	chmod 755 "$work"
	fetch "$work"
	echo "$sha256  $work/$tarball" | sha256sum --check --quiet >&2 ||
		die "$tarball has a wrong checksum; expected sha256 $sha256"
	# Children must not inherit the lock: a stray daemon of a tool would hold it for ever.
	build "$work" 9>&-
	mv -T "$work/root$prefix" "$prefix"
	say "ready in $prefix"
fi
echo "$prefix"
