# Sourced (bash): exports what cgo needs to link HiGHS, building it first where it is missing; see ensure.sh.
# The prefix stands in CGO_CFLAGS on purpose: Go's build cache sees that variable but not PKG_CONFIG_PATH, and
# would otherwise keep objects of the HiGHS used before.
_highs=$("$(dirname "${BASH_SOURCE[0]}")/ensure.sh") || { echo "highs: see the message above" >&2; return 1; }
export CGO_ENABLED=1
if [ "$_highs" = system ]; then
	# Debian's highs.pc lacks the folder that the Go binding includes from.
	export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -I/usr/include/highs"
else
	export PKG_CONFIG_PATH="$_highs/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
	export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -I$_highs/include/highs"
fi
export CGO_LDFLAGS="${CGO_LDFLAGS:--O2 -g}"
unset _highs
# The binding of NVML names functions that newer drivers deprecate.
export CGO_CFLAGS="$CGO_CFLAGS -Wno-deprecated-declarations"
