#!/usr/bin/env bash
# scripts/tutorial/run_cluster.sh on one server, and what it refuses. Two servers: tests/mpi/tutorial_hosts.sh.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=$DTRAIN_SOURCE/scripts/tutorial/run_cluster.sh
export DTRAIN_BIN
unset DTRAIN_TOKEN MASTER_PORT
# tutorial ARGS...: in a folder of its own, $tmp/here
tutorial() {
    mkdir -p "$tmp/here"
    bounded bash -c 'cd "$1" && shift && exec "$@"' - "$tmp/here" bash "$run" "$@"
}
# denies CODE TEXT ARGS...: with one message, and nothing is made
denies() {
    local want=$1 text=$2
    shift 2
    touch "$tmp/started"
    tutorial "$@"
    judge "$want" "run_cluster.sh $*" "$text"
    must test -z "$(ls "$tmp/here")"
}
quick=("${tiny[@]:2}") # without --data
"$DTRAIN_BIN" ranktable --hosts "$(hostname):2" >"$tmp/one.json"
"$DTRAIN_BIN" ranktable --hosts a:2,b:4 >"$tmp/two.json"

denies 64 "usage: run_cluster.sh"
denies 64 "usage: run_cluster.sh" synthetic:64 "$tmp/one.json" 2
for size in "" x -2 2.0; do
    denies 64 "usage: run_cluster.sh" synthetic:64 "$tmp/one.json" "$size" 0
    denies 64 "usage: run_cluster.sh" synthetic:64 "$tmp/one.json" 2 "$size"
done
denies 64 "has 2 ranks" synthetic:64 "$tmp/one.json" 4 0
denies 64 "begin at 0" synthetic:64 "$tmp/one.json" 2 1
denies 64 "begin at 0 2" synthetic:64 "$tmp/two.json" 6 4
denies 64 "begin at 0 2" synthetic:64 "$tmp/two.json" 6 02
denies 64 "--token-file" synthetic:64 "$tmp/two.json" 6 2
denies 66 "$tmp/none.json" synthetic:64 "$tmp/none.json" 2 0
echo '{}' >"$tmp/bad.json"
denies 78 "$tmp/bad.json: " synthetic:64 "$tmp/bad.json" 2 0
denies 66 "$tmp/no-token" synthetic:64 "$tmp/two.json" 6 2 --token-file="$tmp/no-token"

accepts "${tiny[@]}" --out "$tmp/alone"
DTRAIN_TOKEN="nobody is asked for it" tutorial synthetic:64 "$tmp/one.json" 2 0 "${quick[@]}"
must test "$code" = 0
must test "$(tail -n 1 "$tmp/stdout")" = "training success"
must test "$(grep -c '^start training for device [01]$' "$tmp/stdout")" = 2
equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/here/device0/run")"
must grep -qE "^epoch: 1 step: 1, loss is " "$tmp/here/device0/train.log"
for i in 0 1; do
    for value in "RANK_ID=$i" "DEVICE_ID=$i" "RANK_SIZE=2" "RANK_TABLE_FILE=$tmp/one.json"; do
        must grep -qx "$value" "$tmp/here/device$i/env.log"
    done
    must test -e "$tmp/here/device$i/train.log"
    must test -z "$(grep TOKEN "$tmp/here/device$i/env.log")"
done

# what is there stays
: >"$tmp/here/device1/mine"
tutorial synthetic:64 "$tmp/one.json" 2 0 "${quick[@]}"
must test "$code" = 73
must grep -q "device0 is there already" "$tmp/stderr"
must test -e "$tmp/here/device1/mine"
rm -r "$tmp/here"

# a failure is one, with its code
tutorial "$tmp/no-data" "$tmp/one.json" 2 0 "${quick[@]}"
must test "$code" = 66
must grep -qx "training failed" "$tmp/stdout"
must grep -q "$tmp/no-data" "$tmp/stdout"
finish
