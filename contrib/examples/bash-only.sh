#!/bin/bash
# A preemptible job of nothing but bash. `unisched-node run` takes the place of the batch shell, passes the signal on to
# the work, and exits with 99 (the site's RequeueExit code) once the work has saved its state.
#
#   sbatch bash-only.sh          STEPS and STEP_SECONDS set its length, STATE where it keeps its state
#
#SBATCH --job-name=bash-only
#SBATCH --gpus-per-node=1
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=bash-only-%j.out
#SBATCH --comment=unisched:class=besteffort,ckpt=B:USR1+99,stop=iters:60
set -u
STATE=${STATE:-bash-only-${SLURM_JOB_ID:-local}.state}

if [[ ${1-} != work ]]; then
	exec unisched-node run --signal USR1 --exit 99 --checkpoint-file "$STATE" -- "$BASH" "$0" work
fi

# From here on this is the work: count to STEPS, with the count as the state. The trap saves and leaves by itself: a flag
# that the loop looks at could be raised just after it looked, and be seen a whole step later.
save() {
	trap '' USR1
	[[ -z ${!-} ]] || kill "$!" 2>/dev/null # the sleep, if one was started
	echo "$i" >"$STATE.tmp" && sync "$STATE.tmp" && mv "$STATE.tmp" "$STATE" || exit 1
	unisched-node report checkpoint iter="$i"
	echo "checkpoint iter=$i"
	exit 0
}
i=0
[[ -s $STATE ]] && read -r i <"$STATE"
trap save USR1
unisched-node report ready iter="$i"
echo "start iter=$i"
while ((i < ${STEPS:-60})); do
	# A trap runs when the foreground command ends; `wait` ends at once.
	sleep "${STEP_SECONDS:-1}" &
	wait "$!"
	i=$((i + 1))
	unisched-node report iter="$i" half_life="$((i / 2))"
done
unisched-node report done=iters iter="$i"
echo "end iter=$i"
