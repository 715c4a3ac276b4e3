#!/bin/sh
# A part of a run for each of SHARDS processes, JOBS at a time on each of NODES (`:` is this machine):
# export AGENTEVAL_STORE=postgresql://agenteval@db.example.org/runs
# NODES=node1,node2 ./parallel.sh --model my-model --base-url http://llm.example.org:8000/v1 --trials 20
set -eu
: "${AGENTEVAL_STORE:?is not set: the address of a database that each node reaches}"
AGENTEVAL_JOB="${AGENTEVAL_JOB:-$(date +%Y%m%d-%H%M%S)}"
SHARDS="${SHARDS:-8}"
export AGENTEVAL_JOB
echo "AGENTEVAL_JOB=$AGENTEVAL_JOB goes on with this run" >&2
seq "$SHARDS" | parallel --sshlogin "${NODES:-:}" --jobs "${JOBS:-4}" --env AGENTEVAL_STORE --env AGENTEVAL_JOB --tag --quote \
    agenteval run --shard "{}/$SHARDS" "$@"
