#!/bin/bash
# The workers of one node: node.sh FOLDER DEPLOY STATE. Task launchers may start it anywhere and without an environment,
# so it is told all it needs; the address of Redis, which has a password, comes from a file that only its owner reads.
set -euo pipefail
cd "$1"
if [ -d .venv ]; then PATH="$PWD/.venv/bin:$PATH"; fi
MCQUEUE_REDIS_URL=$(<"$3/url")
export MCQUEUE_REDIS_URL
# Where GPUs are not confined, Slurm may only name them.
given=${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}
if [ -z "${CUDA_VISIBLE_DEVICES+set}" ] && [ -n "$given" ]; then export CUDA_VISIBLE_DEVICES="$given"; fi
exec python -m workers up --config "$2" --logs "$3/logs/$(hostname)"
