#!/usr/bin/env bash
# The Ascend tutorial's run.sh: its arguments, its folders, its last words.
#   usage: scripts/tutorial/run.sh DATA_PATH RANK_SIZE [DTRAIN OPTION...]
# Trains on RANK_SIZE ranks (1, 2, 4 or 8) of this host. Each has a folder device0, device1, ... here, with
# train.log (what it prints), env.log, and in device0 the run. RANK_TABLE_FILE, RANK_SIZE, RANK_ID and
# DEVICE_ID are set as there. Unlike there, nothing that exists is deleted, and every rank's end
# counts: 73 where a folder exists, else the run's own exit code behind "training failed".
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/ranks.sh"

[ $# -ge 2 ] && [[ $2 =~ ^[1248]$ ]] || {
    echo "usage: run.sh DATA_PATH RANK_SIZE [DTRAIN OPTION...], RANK_SIZE 1, 2, 4 or 8" >&2
    exit 64
}
data=$1 RANK_SIZE=$2
shift 2
[ ! -e "$data" ] || data=$(realpath "$data")
tutorial_program
tutorial_folders 0 "$RANK_SIZE"
RANK_TABLE_FILE=$PWD/device0/rank_table_${RANK_SIZE}pcs.json
"$here/ranktable" "$(uname -n):$RANK_SIZE" >"$RANK_TABLE_FILE" || exit
export RANK_SIZE RANK_TABLE_FILE RANK_STARTS=0

mpirun --bind-to none -np "$RANK_SIZE" "$here/rank.sh" "$program" --data "$data" --log-style mindspore --out device0/run "$@"
tutorial_end $?
