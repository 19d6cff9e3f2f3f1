#!/bin/bash
# mcqueue as a Slurm job: a run from questions to results.csv. From mcqueue's folder:
#
#     sbatch configs/hpc/slurm.sh
#     QUESTIONS=mine.jsonl RUN_CONFIG=configs/runs/letter.yaml DEPLOY=mine.yaml sbatch configs/hpc/slurm.sh
#
# job.sh, next to this file, lists the variables. Submitted again after its time limit, the job continues the same run.
#SBATCH --job-name=mcqueue
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --time=08:00:00
# Two minutes before the end, to this script alone: time to drain, which takes at most drain_timeout_s, and to export.
#SBATCH --signal=B:TERM@120
#SBATCH --output=mcqueue-%j.log
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"

# One task per node, with the node's GPUs. Each ends in its own time and way, whatever the site's defaults are: else the
# first node that has drained, or has no worker left, could end the others.
on_every_node() {
    exec srun --ntasks-per-node=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --wait=0 --kill-on-bad-exit=0 "$@"
}

source configs/hpc/job.sh
