#!/bin/bash
# mcqueue as a PBS Pro or OpenPBS job: a run from questions to results.csv. From mcqueue's folder:
#
#     qsub configs/hpc/pbs.sh
#     qsub -v QUESTIONS=mine.jsonl,RUN_CONFIG=configs/runs/letter.yaml,DEPLOY=mine.yaml configs/hpc/pbs.sh
#
# job.sh, next to this file, lists the variables. Submitted again after its time limit, the job continues the same run.
#PBS -N mcqueue
#PBS -S /bin/bash
#PBS -l select=2:ncpus=16:ngpus=4:mpiprocs=1
#PBS -l place=scatter:excl
#PBS -l walltime=08:00:00
#PBS -j oe
set -euo pipefail
cd "$PBS_O_WORKDIR"

on_every_node() { # one task per chunk, which place=scatter puts on its own node
    exec pbsdsh -- "$@"
}

# PBS gives no warning early enough. This sends one, two minutes before the walltime set above.
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
