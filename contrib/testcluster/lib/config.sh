# shellcheck shell=bash
# Slurm's configuration, from the settings DIR, ROOT, CLUSTER, NODES, GPUS and PORT_BASE of an instance.
# Ports: base + 0 slurmctld, + 1 slurmdbd, + 2 slurmrestd, + 7 + i slurmd of node i.

# node_range prints the nodes as a Slurm host list: n1, or n[1-3].
node_range() { ((NODES == 1)) && echo n1 || echo "n[1-$NODES]"; }

write_slurm_conf() {
	local etc=$ROOT/etc/slurm ports=$((PORT_BASE + 8))
	((NODES == 1)) || ports+=-$((PORT_BASE + 7 + NODES))
	cat >"$etc/slurm.conf" <<-END
		ClusterName=$CLUSTER
		SlurmctldHost=localhost(127.0.0.1)
		SlurmctldPort=$PORT_BASE
		SlurmUser=slurm
		StateSaveLocation=/var/lib/slurm/slurmctld
		SlurmctldPidFile=/run/slurm/slurmctld.pid
		SlurmdPidFile=/run/slurm/slurmd.%n.pid
		SlurmdSpoolDir=/var/spool/slurmd.%n
		SlurmdLogFile=/var/log/slurm/slurmd.%n.log
		SlurmdParameters=config_overrides
		AuthType=auth/munge
		AuthAltTypes=auth/jwt
		AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
		# No cgroups: the host's are not ours to change, and several clusters share it.
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		MpiDefault=none
		MailProg=/bin/true
		# Scheduling. Passes come every few seconds, so that tests need not wait for the defaults of 30 and 60 s.
		SchedulerType=sched/backfill
		SchedulerParameters=sched_interval=5,bf_interval=5,bf_continue
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core_Memory
		DefMemPerCPU=1000
		PriorityType=priority/multifactor
		PriorityWeightPartition=10000
		PriorityWeightAge=1000
		JobRequeue=1
		RequeueExit=99
		KillWait=10
		MinJobAge=300
		ReturnToService=2
		SlurmdTimeout=20
		AccountingStorageType=accounting_storage/slurmdbd
		AccountingStorageHost=localhost
		AccountingStoragePort=$((PORT_BASE + 1))
		AccountingStorageTRES=gres/gpu
		AccountingStorageEnforce=associations,limits,qos
		GresTypes=gpu
		NodeName=$(node_range) NodeHostname=localhost NodeAddr=127.0.0.1 Port=$ports CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 Gres=gpu:v100:$GPUS State=UNKNOWN
		PartitionName=gpu Nodes=ALL Default=YES OverSubscribe=NO DefaultTime=01:00:00 MaxTime=7-00:00:00 State=UP
		$([[ $CLUSTER == template ]] || echo "PartitionName=profile Nodes=ALL OverSubscribe=NO DefaultTime=00:10:00 MaxTime=01:00:00 MaxNodes=2 QOS=profile State=UP")
	END
	write_gres_conf >"$etc/gres.conf"
	printf 'CgroupPlugin=disabled\n' >"$etc/cgroup.conf"
	chmod 0644 "$etc"/{slurm,gres,cgroup}.conf
}

# write_gres_conf shares the GPUs between the two sockets; an odd number, or one, belongs to no socket.
write_gres_conf() {
	local half=$((GPUS / 2))
	echo 'AutoDetect=off'
	if ((GPUS % 2 == 1)); then
		echo "NodeName=$(node_range) Name=gpu Type=v100 File=$(gpu_files 0 $((GPUS - 1)))"
	elif ((GPUS > 0)); then
		echo "NodeName=$(node_range) Name=gpu Type=v100 File=$(gpu_files 0 $((half - 1))) Cores=0-7"
		echo "NodeName=$(node_range) Name=gpu Type=v100 File=$(gpu_files "$half" $((GPUS - 1))) Cores=8-15"
	fi
}

gpu_files() { (($1 == $2)) && echo "/dev/nvidia$1" || echo "/dev/nvidia[$1-$2]"; }

# make_gpus makes the fake GPUs: clones of /dev/null in the root's own /dev.
make_gpus() {
	local i
	for ((i = 0; i < GPUS; i++)); do
		mknod -m 0666 "$ROOT/dev/nvidia$i" c 1 3
	done
}

# install_hooks puts this repository's Slurm hooks in place, those that exist; a cluster works without any. Hooks fail
# open: a broken one must never drain a node or hold a job.
install_hooks() {
	local hook
	if [[ -e $REPO/hooks/job_submit.lua ]]; then
		install -m 0644 "$REPO/hooks/job_submit.lua" "$ROOT/etc/slurm/job_submit.lua"
		echo 'JobSubmitPlugins=lua' >>"$ROOT/etc/slurm/slurm.conf"
	fi
	if [[ -d $REPO/hooks/python ]]; then
		(cd "$REPO/hooks/python" && find . -name '*.py' -not -name '*test*' -exec cp --parents -t "$ROOT/usr/lib/python3/dist-packages" {} +)
	fi
	[[ -x $REPO/bin/unisched-node ]] || return 0
	install -m 0755 "$REPO/bin/unisched-node" "$ROOT/usr/sbin/unisched-node"
	ln -sf /usr/sbin/unisched-node "$ROOT/usr/local/bin/unisched-node"
	install -d -m 0755 "$ROOT$BASE" "$ROOT/etc/unisched"
	for hook in prolog epilog taskprolog; do
		printf '#!/bin/sh\nUNISCHED_BASE=%s /usr/sbin/unisched-node %s || exit 0\n' "$BASE" "$hook" >"$ROOT/etc/slurm/unisched-$hook"
		chmod 0755 "$ROOT/etc/slurm/unisched-$hook"
	done
	cat >>"$ROOT/etc/slurm/slurm.conf" <<-END
		Prolog=/etc/slurm/unisched-prolog
		Epilog=/etc/slurm/unisched-epilog
		TaskProlog=/etc/slurm/unisched-taskprolog
		PrologFlags=Alloc
	END
}
