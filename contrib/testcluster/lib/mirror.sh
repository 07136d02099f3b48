# shellcheck shell=bash
# Which Debian mirror to bootstrap from: the one that this host's own apt uses. No mirror is ever assumed.

# debian_mirrors prints every URI of the host's apt sources that offers a plain Debian suite (not security updates, not
# another vendor's repository), one a line, in the order in which apt reads them.
debian_mirrors() {
	local suites codename=''
	# shellcheck disable=SC1091
	[[ -r /etc/os-release ]] && codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	suites=" $codename oldstable stable testing unstable sid bookworm trixie forky "
	{
		one_line_sources
		deb822_sources
	} | while read -r uri suite; do
		[[ $suites == *" $suite "* ]] || continue
		resolve_mirror "$uri"
	done | awk '!seen[$0]++'
}

# one_line_sources prints "URI SUITE" for each `deb` line.
one_line_sources() {
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[[ -r $file ]] || continue
		sed -E 's/#.*//; s/\[[^]]*\]//' "$file" | awk '$1 == "deb" { print $2, $3 }'
	done
}

# deb822_sources prints "URI SUITE" for each pair in the stanzas of *.sources files; disabled stanzas are left out.
deb822_sources() {
	local file
	for file in /etc/apt/sources.list.d/*.sources; do
		[[ -r $file ]] || continue
		awk '
			function flush(   i, j, u, s, nu, ns) {
				if (types ~ /(^| )deb( |$)/ && enabled !~ /^[Nn]o/) {
					nu = split(uris, u, " "); ns = split(suites, s, " ")
					for (i = 1; i <= nu; i++) for (j = 1; j <= ns; j++) print u[i], s[j]
				}
				types = uris = suites = enabled = field = ""
			}
			/^#/ { next }
			/^[ \t]*$/ { flush(); next }
			/^[ \t]/ { value = $0 }
			!/^[ \t]/ { field = tolower($0); sub(/:.*/, "", field); value = $0; sub(/^[^:]*:/, "", value) }
			field == "types" { types = types " " value }
			field == "uris" { uris = uris " " value }
			field == "suites" { suites = suites " " value }
			field == "enabled" { sub(/^[ \t]+/, "", value); enabled = value }
			END { flush() }
		' "$file"
	done
}

# resolve_mirror turns apt's "mirror+file:/list" indirection into the first URI of that list.
resolve_mirror() {
	local list
	case $1 in
	mirror+file:*)
		list=${1#mirror+file:}
		[[ -r $list ]] && awk '!/^#/ && NF { print $1; exit }' "$list"
		;;
	http://* | https://* | file:* | ftp://*) printf '%s\n' "${1%/}" ;;
	esac
}

# export_apt_proxy hands the proxy that apt is configured with to debootstrap and to apt inside the new root.
export_apt_proxy() {
	local proxy=''
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	[[ -z $proxy || $proxy == DIRECT ]] || export http_proxy=$proxy https_proxy=${https_proxy:-$proxy}
}
