#!/usr/bin/env bash
# scripts/tutorial/run.sh, and run_cluster.sh on one server: the Ascend tutorial's arguments, folders and
# last words, and what is refused. Two servers: tests/mpi/tutorial_hosts.sh.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

export DTRAIN_BIN
unset DTRAIN_TOKEN MASTER_PORT
quick=("${tiny[@]:2}") # without --data
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" "$(hostname):2" >"$tmp/one.json"
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" a:2,b:4 >"$tmp/two.json"
accepts "${tiny[@]}" --out "$tmp/alone"

# tutorial SCRIPT ARGS...: in a folder of its own, $tmp/here
tutorial() {
    mkdir -p "$tmp/here"
    bounded bash -c 'cd "$1" && shift && exec "$@"' - "$tmp/here" bash "$DTRAIN_SOURCE/scripts/tutorial/$1" "${@:2}"
}
# denies CODE TEXT SCRIPT ARGS...: with one message, and nothing is made
denies() {
    rm -rf "$tmp/here"
    tutorial "${@:3}"
    judge "$1" "${*:3}" "$2"
    must test -z "$(ls "$tmp/here")"
}
# trains TABLE SCRIPT ARGS...: two ranks here, with the hashes of one alone
trains() {
    local table=$1 i value
    shift
    rm -rf "$tmp/here"
    tutorial "$@" "${quick[@]}"
    must test "$code" = 0
    must test "$(tail -n 1 "$tmp/stdout")" = "training success"
    must test "$(grep -c '^start training for device [01]$' "$tmp/stdout")" = 2
    equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/here/device0/run")"
    must grep -qE "^epoch: 1 step: 1, loss is " "$tmp/here/device0/train.log"
    for i in 0 1; do
        for value in "RANK_ID=$i" "DEVICE_ID=$i" "RANK_SIZE=2" "RANK_TABLE_FILE=$table.*"; do
            must grep -qx "$value" "$tmp/here/device$i/env.log"
        done
        must test -e "$tmp/here/device$i/train.log"
        must test -z "$(grep TOKEN "$tmp/here/device$i/env.log")"
        must test "$(grep -cE '^epoch: 1 step: 1, loss is [0-9.]+$' "$tmp/here/device$i/train.log")" = 1
    done
    # each device the mean over its shards, which are as many: together they have the step's
    must python3 - "$tmp/here"/device0/run/metrics.jsonl "$tmp/here"/device?/train.log <<'P'
import json, re, sys
step = next(j for j in map(json.loads, open(sys.argv[1])) if j["kind"] == "step")
own = [float(re.search(r"loss is ([0-9.]+)", open(log).read()).group(1)) for log in sys.argv[2:]]
assert len(set(own)) == len(own) == 2 and abs(sum(own) / 2 - step["loss"]) < 1e-6, (own, step)
P
    accepts ranktable "$(sed -n 's/^RANK_TABLE_FILE=//p' "$tmp/here/device1/env.log")"
    # what is there stays
    : >"$tmp/here/device1/mine"
    tutorial "$@" "${quick[@]}"
    must test "$code" = 73
    must grep -q "device0 is there already" "$tmp/stderr"
    must test -e "$tmp/here/device1/mine"
    # a failure is one, with its code
    rm -r "$tmp/here"
    tutorial "$1" "$tmp/no-data" "${@:3}" "${quick[@]}"
    must test "$code" = 66
    must grep -qx "training failed" "$tmp/stdout"
    must grep -q "$tmp/no-data" "$tmp/stdout"
}
trains "" run.sh synthetic:64 2
# a shard for each device: the first one's is in the records, too
quick=("${quick[@]}" --shards 2)
rm -rf "$tmp/here"
accepts "${tiny[@]}" --shards 2 --out "$tmp/alone-2"
tutorial run.sh synthetic:64 2 "${quick[@]}"
must test "$code" = 0
equal "$(hashes "$tmp/alone-2")" "$(hashes "$tmp/here/device0/run")"
equal "$(sed -nE '0,/"loss_shard0"/s/.*"loss_shard0":([0-9.]+),.*/\1/p' "$tmp/here/device0/run/metrics.jsonl" | xargs printf '%.5f')" \
    "$(sed -nE 's/^epoch: 1 step: 1, loss is //p' "$tmp/here/device0/train.log" | xargs printf '%.5f')"
quick=("${tiny[@]:2}")
# where several ranks share an output, rank 0 has the loss of the step, as one rank has
for np in 1 2; do
    launch $np "${tiny[@]}" --log-style mindspore --out "$tmp/shared$np"
    must test "$(grep -c ' loss is ' "$tmp/stdout")" = 1
done
equal "$(grep ' loss is ' "$tmp/stdout")" "$("$DTRAIN_BIN" "${tiny[@]}" --log-style mindspore --out "$tmp/piped" 2>/dev/null | grep ' loss is ')"
DTRAIN_TOKEN="not needed for one server" trains "$tmp/one.json" run_cluster.sh synthetic:64 "$tmp/one.json" 2 0

# docs/coming-from.md: a table with the guide's addresses, then with this host's
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" '10.*.*.*:2' >"$tmp/table.json"
ranks=1 refuses 78 "server_list[0]: server_id '10.*.*.*' is a placeholder" -- ranktable "$tmp/table.json"
must sed -i 's/10[.][*][.][*][.][*]/10.0.0.1/' "$tmp/table.json"
accepts ranktable "$tmp/table.json"
must grep -q "2 ranks on 1 host: 10.0.0.1:2" "$tmp/stdout"

# paths of options are read where the script is started
rm -r "$tmp/here" && mkdir "$tmp/here"
printf 'max_steps: 1\n' >"$tmp/here/own.yaml"
tutorial run.sh synthetic:64 2 "${quick[@]}" --config own.yaml --init device.st
must test "$code" = 66
must grep -q "device.st" "$tmp/stdout"
rm -r "$tmp/here"/device?
cp "$tmp/alone/model.safetensors" "$tmp/here/device.st"
tutorial run.sh synthetic:64 2 "${quick[@]}" --config own.yaml --init device.st
must test "$code" = 0

for size in "" 0 3 16 x; do
    denies 64 "" run.sh synthetic:64 "$size"
done
denies 64 "usage: run_cluster.sh" run_cluster.sh
denies 64 "usage: run_cluster.sh" run_cluster.sh synthetic:64 "$tmp/one.json" 2
for size in "" x -2 2.0; do
    denies 64 "usage: run_cluster.sh" run_cluster.sh synthetic:64 "$tmp/one.json" "$size" 0
    denies 64 "usage: run_cluster.sh" run_cluster.sh synthetic:64 "$tmp/one.json" 2 "$size"
done
echo '{}' >"$tmp/bad.json"
while IFS='|' read -r want text table size start more; do
    # shellcheck disable=SC2086
    denies "$want" "$text" run_cluster.sh synthetic:64 "$tmp/$table.json" "$size" "$start" $more
done <<END
64|has 2 ranks|one|4|0|
64|begin at 0|one|2|1|
64|begin at 0 2|two|6|4|
64|begin at 0 2|two|6|02|
64|--token-file|two|6|2|
66|$tmp/none.json|none|2|0|
78|$tmp/bad.json: |bad|2|0|
66|$tmp/no-token|two|6|2|--token-file=$tmp/no-token
END
finish
