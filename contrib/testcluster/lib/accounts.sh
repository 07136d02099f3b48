# shellcheck shell=bash
# Accounting: what is done once, in the base root, so that `up` has little left to do. Nothing here depends on an
# instance but its cluster name.

# write_dbd_conf ROOT PORT writes slurmdbd.conf. slurmdbd logs in to MariaDB through its socket as the Unix user slurm,
# so there is no password anywhere.
write_dbd_conf() {
	local root=$1 port=$2
	cat >"$root/etc/slurm/slurmdbd.conf" <<-END
		AuthType=auth/munge
		AuthAltTypes=auth/jwt
		AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
		DbdHost=localhost
		DbdPort=$port
		SlurmUser=slurm
		DebugLevel=info
		PidFile=/run/slurm/slurmdbd.pid
		StorageType=accounting_storage/mysql
		StorageHost=localhost
		StorageUser=slurm
		StorageLoc=slurm_acct_db
	END
	chroot "$root" chown slurm:slurm /etc/slurm/slurmdbd.conf
	chmod 0600 "$root/etc/slurm/slurmdbd.conf"
}

# write_keys ROOT makes fresh munge and JWT keys, so that clusters side by side do not accept each other's users.
write_keys() {
	local root=$1
	(
		umask 077
		head -c 1024 /dev/urandom >"$root/etc/munge/munge.key"
		head -c 32 /dev/urandom >"$root/etc/slurm/jwt_hs256.key"
	)
	chroot "$root" chown munge:munge /etc/munge/munge.key
	chroot "$root" chown slurm:slurm /etc/slurm/jwt_hs256.key
	chmod 0600 "$root/etc/munge/munge.key" "$root/etc/slurm/jwt_hs256.key"
}

# make_state_dirs ROOT makes the folders that systemd would have made for the daemons. Where MariaDB's socket belongs
# differs between releases, so its own configuration is asked.
make_state_dirs() {
	# shellcheck disable=SC2016
	chroot "$1" /bin/sh -ec '
		socket=$(my_print_defaults --mariadbd | sed -n "s/^--socket=//p" | tail -n 1)
		install -d -m 0755 -o mysql -g mysql "$(dirname "${socket:-/run/mysqld/mysqld.sock}")"
		install -d -m 0755 -o munge -g munge /run/munge
		install -d -m 0700 -o munge -g munge /var/lib/munge /var/log/munge
		install -d -m 0755 -o slurm -g slurm /run/slurm /var/lib/slurm /var/lib/slurm/slurmctld /var/log/slurm
		install -d -m 0755 -o unisched -g unisched /run/unisched
	'
}

# build_accounts ROOT fills the database of the base root: slurmdbd's tables, the resource gres/gpu, and the QOS
# `profile` that caps a job at 2 GPUs. The resource is registered by the first slurmctld that has it in
# AccountingStorageTRES, and only then can a QOS name it; that is why a slurmctld has to run here.
build_accounts() {
	local root=$1 dir=${1%/root}
	mkdir -p "$dir/log" "$dir/pids"
	DIR=$dir ROOT=$root CLUSTER=template NODES=1 GPUS=1 PORT_BASE=$(free_block 1 "$dir")
	make_state_dirs "$root"
	write_keys "$root"
	write_slurm_conf
	write_dbd_conf "$root" "$((PORT_BASE + 1))"
	touch "$root/dev/nvidia0"
	start_service munged
	start_service mariadbd
	in_root "$root" mariadb -e "
		CREATE DATABASE slurm_acct_db;
		CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;
		GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
	start_service slurmdbd
	in_root "$root" sacctmgr -i add cluster template
	start_service slurmctld
	eventually 20 "slurmctld registers gres/gpu" gpu_is_tracked
	stop_service slurmctld
	in_root "$root" sacctmgr -i add qos profile set MaxTRESPerJob=gres/gpu=2
	in_root "$root" sacctmgr -i delete cluster template
	stop_service slurmdbd
	stop_service mariadbd
	stop_service munged
	rm -rf "$root"/var/lib/slurm/slurmctld/* "$root"/run/{munge,mysqld,mariadb,slurm} "$dir/log" "$dir/pids"
	rm -f "$root"/etc/slurm/{slurm,slurmdbd,gres,cgroup}.conf "$root/etc/slurm/jwt_hs256.key" "$root/etc/munge/munge.key"
}

gpu_is_tracked() { in_root "$ROOT" sacctmgr -nP show tres type=gres | grep -q gpu; }

# add_cluster registers the instance's own cluster and who may use it. All in one connection.
add_cluster() {
	in_root "$ROOT" sacctmgr -i >>"$DIR/log/accounts.log" 2>&1 <<-END
		add cluster $CLUSTER
		add account lab cluster=$CLUSTER description=lab organization=lab
		add user alice,bob,carol account=lab cluster=$CLUSTER
		add user unisched account=lab cluster=$CLUSTER adminlevel=operator
		modify account lab set qos=normal,profile defaultqos=normal
	END
}
