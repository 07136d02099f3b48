# shellcheck shell=bash disable=SC2153
# What a caller needs to know of a cluster: DIR/env for shells (and for the later verbs), DIR/cluster.json for programs.
# Paths and names in them are plain: `parse` lets no other characters in.

readonly REST_SOCKET=/run/unisched/restd.sock # inside the root

write_env() {
	cat >"$DIR/env" <<-END
		UNISCHED_CLUSTER_DIR=$DIR
		UNISCHED_CLUSTER_ROOT=$ROOT
		UNISCHED_CLUSTER_NAME=$CLUSTER
		UNISCHED_CLUSTER_SLURM=$SLURM
		UNISCHED_CLUSTER_NODES=$NODES
		UNISCHED_CLUSTER_GPUS_PER_NODE=$GPUS
		UNISCHED_CLUSTER_PORT_BASE=$PORT_BASE
		UNISCHED_CLUSTER_UNIT_SECONDS=$UNIT
		UNISCHED_CLUSTER_REST_URL=http://127.0.0.1:$((PORT_BASE + 2))
		UNISCHED_CLUSTER_REST_SOCKET=$ROOT$REST_SOCKET
		UNISCHED_CLUSTER_TOKEN_FILE=$DIR/token
		UNISCHED_CLUSTER_JOBS_DIR=$ROOT$BASE
	END
}

# read_env loads the settings of the cluster in DIR.
read_env() {
	[[ -e $DIR/env ]] || die "no cluster in $DIR (make one: cluster up --dir $DIR)"
	# shellcheck disable=SC1091
	source "$DIR/env"
	# shellcheck disable=SC2034
	ROOT=$UNISCHED_CLUSTER_ROOT CLUSTER=$UNISCHED_CLUSTER_NAME NODES=$UNISCHED_CLUSTER_NODES \
		GPUS=$UNISCHED_CLUSTER_GPUS_PER_NODE PORT_BASE=$UNISCHED_CLUSTER_PORT_BASE
}

# write_json comes last and at once: its presence means that the cluster is up.
write_json() {
	local i ports='' nodes='' users='' entry
	for ((i = 1; i <= NODES; i++)); do
		nodes+="${nodes:+, }\"n$i\""
		ports+=", \"slurmd:n$i\": $((PORT_BASE + 7 + i))"
	done
	for entry in "${USERS[@]}"; do
		[[ $entry == slurmrest:* ]] || users+="${users:+, }\"${entry%:*}\""
	done
	cat >"$DIR/cluster.json.new" <<-END
		{
		  "name": "$CLUSTER",
		  "slurm": "$(<"$DIR/version")",
		  "dir": "$DIR",
		  "root": "$ROOT",
		  "rest_url": "http://127.0.0.1:$((PORT_BASE + 2))",
		  "rest_socket": "$ROOT$REST_SOCKET",
		  "token_file": "$DIR/token",
		  "jobs_dir": "$ROOT$BASE",
		  "nodes": [$nodes],
		  "gpus_per_node": $GPUS,
		  "unit_seconds": $UNIT,
		  "users": [$users],
		  "ports": {"slurmctld": $PORT_BASE, "slurmdbd": $((PORT_BASE + 1)), "slurmrestd": $((PORT_BASE + 2))$ports},
		  "scontrol": ["chroot", "--userspec=unisched", "$ROOT", "/usr/bin/scontrol"]
		}
	END
	mv "$DIR/cluster.json.new" "$DIR/cluster.json"
}
