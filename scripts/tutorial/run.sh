#!/usr/bin/env bash
# The Ascend tutorial's run.sh: its arguments, its folders, its last words.
#   usage: scripts/tutorial/run.sh DATA_PATH RANK_SIZE [DTRAIN OPTION...]
# Trains on RANK_SIZE ranks (1, 2, 4 or 8) of this host. Each has a folder device0, device1, ... here, with
# train.log (what it prints), env.log, and in device0 the run. RANK_TABLE_FILE, RANK_SIZE, RANK_ID and
# DEVICE_ID are set as there. Unlike there, nothing that exists is deleted, and every rank's end
# counts: 73 where a folder exists, else the run's own exit code behind "training failed".
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../setup.sh"

[ $# -ge 2 ] && [[ $2 =~ ^[1248]$ ]] || {
    echo "usage: run.sh DATA_PATH RANK_SIZE [DTRAIN OPTION...], RANK_SIZE 1, 2, 4 or 8" >&2
    exit 64
}
data=$1 RANK_SIZE=$2
shift 2
[ ! -e "$data" ] || data=$(realpath "$data")
program=$(command -v "${DTRAIN_BIN:-$here/../../dtrain}") || {
    echo "training failed: no program ${DTRAIN_BIN:-$here/../../dtrain}; build it with ./quickstart" >&2
    exit 66
}
program=$(realpath "$program")
for ((i = 0; i < RANK_SIZE; i++)); do
    [ ! -e "device$i" ] && [ ! -L "device$i" ] || {
        echo "training failed: $PWD/device$i is there already: move it away, or start in another folder" >&2
        exit 73
    }
done
for ((i = 0; i < RANK_SIZE; i++)); do
    mkdir "device$i" || exit 73
done
RANK_TABLE_FILE=$PWD/device0/rank_table_${RANK_SIZE}pcs.json
"$program" ranktable --hosts "$(hostname)" --nproc-per-node "$RANK_SIZE" >"$RANK_TABLE_FILE" || exit
export RANK_SIZE RANK_TABLE_FILE DTRAIN_TUTORIAL_PROGRAM=$program

for ((i = 0; i < RANK_SIZE; i++)); do
    echo "start training for device $i"
done
# shellcheck disable=SC2016 # for the ranks' shells
mpirun --bind-to none -np "$RANK_SIZE" bash -c '
    export RANK_ID=$OMPI_COMM_WORLD_RANK DEVICE_ID=$OMPI_COMM_WORLD_LOCAL_RANK
    program=$DTRAIN_TUTORIAL_PROGRAM
    unset DTRAIN_TUTORIAL_PROGRAM
    cd "device$RANK_ID" && env >env.log && exec "$program" "$@" >train.log 2>&1' - \
    --data "$data" --log-style mindspore --out run "$@"
code=$?
if [ "$code" = 0 ]; then
    echo "training success"
else
    echo "training failed"
    tail -n 3 device0/train.log
fi
exit "$code"
