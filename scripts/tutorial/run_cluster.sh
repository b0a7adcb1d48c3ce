#!/usr/bin/env bash
# The Ascend tutorial's run_cluster.sh, started on each server of a rank table; none needs ssh.
#   usage: scripts/tutorial/run_cluster.sh DATA_PATH RANK_TABLE_FILE RANK_SIZE RANK_START [DTRAIN OPTION...]
# RANK_SIZE is the table's number of ranks, RANK_START the first one of this server: 0 on the table's first
# server, where the others meet at port MASTER_PORT (29500). All of them hold one secret, DTRAIN_TOKEN or
# --token-file FILE. Folders, variables and exit codes are run.sh's, with those of this server's ranks here:
# what the first server says of the training holds, and its exit code is every server's.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/ranks.sh"

fail() {
    echo "training failed: $1" >&2
    exit 64
}
[ $# -ge 4 ] && [[ $3 =~ ^[0-9]+$ && $4 =~ ^[0-9]+$ ]] || {
    echo "usage: run_cluster.sh DATA_PATH RANK_TABLE_FILE RANK_SIZE RANK_START [DTRAIN OPTION...]" >&2
    exit 64
}
data=$1 RANK_TABLE_FILE=$2 RANK_SIZE=$3 start=$4
shift 4
[ ! -e "$data" ] || data=$(realpath "$data")
tutorial_program
table=$("$program" ranktable "$RANK_TABLE_FILE") || exit
RANK_TABLE_FILE=$(realpath "$RANK_TABLE_FILE")
IFS=, read -ra servers <<<"${table##*: }" # NAME:RANKS
size=0 starts="" node=""
for ((k = 0; k < ${#servers[@]}; k++)); do
    [ "$size" != "$start" ] || node=$k
    starts+=" $size"
    size=$((size + ${servers[k]##*:}))
done
[ "$RANK_SIZE" = "$size" ] || fail "RANK_SIZE is $RANK_SIZE, but $RANK_TABLE_FILE has $size ranks"
[ -n "$node" ] || fail "RANK_START is $start, but the servers of $RANK_TABLE_FILE begin at$starts"
[ ${#servers[@]} = 1 ] || [ -n "${DTRAIN_TOKEN:-}" ] || [[ " $*" == *" --token-file"* ]] ||
    fail "${#servers[@]} servers need a common secret: DTRAIN_TOKEN, or --token-file FILE"
own=${servers[node]##*:}
tutorial_folders "$start" "$own"
export RANK_SIZE RANK_TABLE_FILE RANK_STARTS=$starts

"$program" launch --nnodes ${#servers[@]} --node-rank "$node" --nproc-per-node "$own" \
    --master "${servers[0]%:*}:${MASTER_PORT:-29500}" --program "$here/rank.sh" \
    "$program" --data "$data" --log-style mindspore --out device0/run "$@"
tutorial_end $?
