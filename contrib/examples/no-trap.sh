#!/bin/bash
# A job that claims to handle USR1 and does not: the signal kills it, and Slurm calls it FAILED. For tests.
#SBATCH --job-name=no-trap
#SBATCH --gpus-per-node=1
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --output=no-trap-%j.out
#SBATCH --comment=unisched:class=besteffort,ckpt=USR1+99,stop=iters:1000
[[ -z ${UNISCHED_PROGRESS-} ]] || printf '{"ready":true}\n' >>"$UNISCHED_PROGRESS"
echo ready
exec sleep "${JOB_SECONDS:-600}"
