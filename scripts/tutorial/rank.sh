#!/usr/bin/env bash
# One rank of run.sh and run_cluster.sh, in its folder: what mpirun starts.   usage: rank.sh PROGRAM [OPTION...]
export RANK_ID=$OMPI_COMM_WORLD_RANK DEVICE_ID=$OMPI_COMM_WORLD_LOCAL_RANK
cd "device$RANK_ID" && env >env.log && exec "$@" >train.log 2>&1
