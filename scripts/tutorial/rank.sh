#!/usr/bin/env bash
# One rank of run.sh and run_cluster.sh, with its folder: what mpirun starts.   usage: rank.sh PROGRAM [OPTION...]
# RANK_STARTS: each server's first rank, in order; what launchers call the local rank differs
export RANK_ID=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
for start in $RANK_STARTS; do
    [ "$start" -gt "$RANK_ID" ] || export DEVICE_ID=$((RANK_ID - start))
done
unset RANK_STARTS DTRAIN_TOKEN # env.log is no place for a secret
env >"device$RANK_ID/env.log" && exec "$@" >"device$RANK_ID/train.log" 2>&1
