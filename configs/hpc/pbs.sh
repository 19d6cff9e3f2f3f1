#!/bin/bash
# mcqueue as a job of PBS Pro or OpenPBS: a run from its questions to results.csv. From the folder of mcqueue:
#
#     qsub configs/hpc/pbs.sh
#     qsub -v QUESTIONS=mine.jsonl,RUN_CONFIG=configs/runs/letter.yaml,DEPLOY=mine.yaml configs/hpc/pbs.sh
#
# job.sh, beside this, says what can be set. Submitted again after its time was up, the job goes on with the same run.
#PBS -N mcqueue
#PBS -S /bin/bash
#PBS -l select=2:ncpus=16:ngpus=4:mpiprocs=1
#PBS -l place=scatter:excl
#PBS -l walltime=08:00:00
#PBS -j oe
set -euo pipefail
cd "$PBS_O_WORKDIR"

on_every_node() { # a task per chunk, which place=scatter puts on a node of its own; pbsdsh hands signals on
    exec pbsdsh -- "$@"
}

# PBS gives no warning that lasts for long: this is one, two minutes before the walltime that stands above.
walltime_s=${WALLTIME_S:-$((8 * 3600))}
batch=$$
(
    trap 'kill "$!"; exit' TERM
    sleep "$((walltime_s - 120))" &
    wait "$!"
    kill -TERM "$batch"
) &
alarm=$!

source configs/hpc/job.sh
