# shellcheck shell=bash
# The common part of slurm.sh and pbs.sh, which source it on the job's first node, in mcqueue's folder. They define
# on_every_node COMMAND…, and may have started a process $alarm that sends this shell SIGTERM before the time limit.
#
# Environment variables, all optional:
#     QUESTIONS           question file
#     RUN_CONFIG          what is asked: a file of configs/runs/
#     DEPLOY              where and how fast: a file of configs/deploy/ whose drain_timeout_s is 60 or less
#     RESULTS             folder of the results
#     STATE               folder that all nodes see, for data, logs and addresses; each concurrent job needs its own
#     MCQUEUE_REDIS_URL   your own Redis; by default one is started on this node, with its data in STATE
#     REDIS_ADDRESS       address of this node that the others can reach; by default its first one
#
# Exit codes: 0 done, 3 done with failed questions, 75 time limit reached, submit the job again, 1 anything else.
QUESTIONS=${QUESTIONS:-demo/questions.jsonl}
RUN_CONFIG=${RUN_CONFIG:-configs/runs/likelihood.yaml}
DEPLOY=${DEPLOY:-configs/deploy/gpu.yaml}
RESULTS=${RESULTS:-results}
STATE=${STATE:-.mcqueue/job}
TIME_IS_UP=75

if [ -d .venv ]; then PATH="$PWD/.venv/bin:$PATH"; fi
mkdir -p "$STATE/logs"

# A file tells the nodes to drain: at a signal, srun kills its tasks, and pbsdsh ends without waiting for them.
drain() {
    echo drain >"$STATE/order"
    while kill -0 "$workers" 2>/dev/null; do wait "$workers" || true; done # a signal to this shell ends a wait
}

# shellcheck disable=SC2329  # the trap calls it
finish() { # workers drain before the server ends, each in its own time
    # bash loses a signal to a child that is forked but has not yet exec'ed: repeat until it is gone
    while kill -TERM "${watching:-}" 2>/dev/null; do sleep 0.2; done
    if [ -n "${workers:-}" ]; then drain; fi # before they are started, the file may be a running job's
    for process in "${alarm:-}" "${redis:-}"; do
        if kill -TERM "$process" 2>/dev/null; then wait "$process" || true; fi
    done
}
trap finish EXIT
trap 'time_is_up=yes' TERM

if [ -n "${MCQUEUE_REDIS_URL:-}" ]; then
    (umask 077 && printf %s "$MCQUEUE_REDIS_URL" >"$STATE/url")
else
    rm -f "$STATE/url.own" # STATE/url may belong to a running job; then this job ends instead of replacing it
    address=${REDIS_ADDRESS:-$(hostname -I | cut -d' ' -f1)}
    python -m demo.valkey --folder "$STATE/valkey" --host "$address" --url-file "$STATE/url.own" >/dev/null &
    redis=$!
    until [ -s "$STATE/url.own" ]; do
        kill -0 "$redis" || exit 1
        sleep 0.2
    done
    mv "$STATE/url.own" "$STATE/url"
    MCQUEUE_REDIS_URL=$(<"$STATE/url")
    export MCQUEUE_REDIS_URL
    echo "To follow the job elsewhere: export MCQUEUE_REDIS_URL=\$(cat $(cd "$STATE" && pwd)/url); python -m producer watch last"
fi

# Before any worker boots: what is wrong with the questions or a setting is said at once, and ends the job.
told=$(python -m producer --deploy "$DEPLOY" enqueue "$QUESTIONS" --config "$RUN_CONFIG" --json)
run=$(python -c 'import json, sys; print(json.load(sys.stdin)["run_id"])' <<<"$told")

echo work >"$STATE/order" # an earlier job may have left the opposite
on_every_node bash "$PWD/configs/hpc/node.sh" "$PWD" "$DEPLOY" "$STATE" &
workers=$!

python -m producer --deploy "$DEPLOY" watch "$run" --export --out "$RESULTS" &
watching=$!

going_on() { [ -z "${time_is_up:-}" ] && kill -0 "$watching" 2>/dev/null && kill -0 "$workers" 2>/dev/null; }
while sleep 1 && going_on; do :; done # not `wait -n`: some versions of bash never report what ended before the call
if [ -n "${time_is_up:-}" ]; then
    echo "The time is up: draining. Submit the job again to go on with $run." >&2
    kill -TERM "$watching" 2>/dev/null || true
    drain
    python -m producer --deploy "$DEPLOY" export "$run" --out "$RESULTS"
    exit "$TIME_IS_UP"
fi
if kill -0 "$watching" 2>/dev/null; then
    echo "The workers ended before the run did: see $STATE/logs." >&2
    exit 1
fi
wait "$watching"
