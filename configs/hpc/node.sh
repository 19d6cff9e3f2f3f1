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

# The job's script asks for draining in a file. That is there from the start: NFS may hide a new file for a minute, but
# opening a known one asks the server for its present contents. The launcher takes over this process with its signals.
(
    while kill -0 "$$" 2>/dev/null; do
        if [ "$(<"$3/order")" = drain ]; then
            kill -TERM "$$"
            break
        fi
        sleep 1
    done
) &
exec python -m workers up --config "$2" --logs "$3/logs/$(hostname)"
