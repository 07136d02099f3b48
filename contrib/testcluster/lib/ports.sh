# shellcheck shell=bash
# Ports for clusters side by side: each takes a block of its own, below the range that the kernel hands out.

readonly BLOCK=128 FIRST_PORT=20480 LAST_PORT=32640
readonly CLAIMS=/run/unisched-testcluster # one file per taken block, holding the folder of its cluster

# free_block NODES DIR prints the first port of a block in which no port is in use, and claims it for DIR. Claims of
# folders that are gone are void. Two callers at once get different blocks.
free_block() {
	local nodes=$1 dir=$2 port claim
	((nodes <= BLOCK - 8)) || die "--nodes: at most $((BLOCK - 8))"
	mkdir -p "$CLAIMS"
	(
		flock 9
		for ((port = FIRST_PORT; port + BLOCK <= LAST_PORT; port += BLOCK)); do
			claim=$CLAIMS/$port
			[[ -e $claim && -d $(<"$claim") ]] && continue
			ports_free "$port" $((port + 7 + nodes)) || continue
			printf '%s\n' "$dir" >"$claim"
			printf '%d\n' "$port"
			exit 0
		done
		die "no free block of ports between $FIRST_PORT and $LAST_PORT: see $CLAIMS"
	) 9>"$CLAIMS/lock"
}

# claim_block PORT NODES DIR claims the block that the user asked for.
claim_block() {
	local port=$1 nodes=$2 dir=$3
	mkdir -p "$CLAIMS"
	ports_free "$port" $((port + 7 + nodes)) || die "--port-base $port: a port between $port and $((port + 7 + nodes)) is in use"
	(
		flock 9
		printf '%s\n' "$dir" >"$CLAIMS/$port"
	) 9>"$CLAIMS/lock"
}

# free_claims DIR gives back the ports of a folder.
free_claims() {
	local claim
	for claim in "$CLAIMS"/[0-9]*; do
		[[ ! -e $claim || $(<"$claim") != "$1" ]] || rm -f "$claim"
	done
}

# ports_free FIRST LAST says whether nothing listens on any of these TCP ports, on any address.
ports_free() {
	local hex port
	while read -r hex; do
		port=$((16#$hex))
		((port < $1 || port > $2)) || return 1
	done < <(awk 'FNR > 1 && $4 == "0A" { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
}
