#!/bin/bash
# The workers of one node: node.sh FOLDER DEPLOY STATE. Task launchers may start it in any folder and without an
# environment, so arguments pass all it needs. The URL of Redis has a password, so it comes from a file that only its
# owner can read.
set -euo pipefail
cd "$1"
if [ -d .venv ]; then PATH="$PWD/.venv/bin:$PATH"; fi
MCQUEUE_REDIS_URL=$(<"$3/url")
export MCQUEUE_REDIS_URL
# Where Slurm does not confine GPUs, it may only name them.
given=${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}
if [ -z "${CUDA_VISIBLE_DEVICES+set}" ] && [ -n "$given" ]; then export CUDA_VISIBLE_DEVICES="$given"; fi
exec python -m workers up --config "$2" --logs "$3/logs/$(hostname)"
