#!/bin/bash
# A job that claims to handle USR1 and ignores it: no checkpoint comes, however long one waits. For tests.
#SBATCH --job-name=ignores-signal
#SBATCH --gpus-per-node=1
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --output=ignores-signal-%j.out
#SBATCH --comment=unisched:class=besteffort,ckpt=USR1+99,stop=iters:1000
trap '' USR1 # its children ignore it too
[[ -z ${UNISCHED_PROGRESS-} ]] || printf '{"ready":true}\n' >>"$UNISCHED_PROGRESS"
echo ready
exec sleep "${JOB_SECONDS:-600}"
