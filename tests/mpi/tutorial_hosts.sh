#!/usr/bin/env bash
# scripts/tutorial/run_cluster.sh on two servers that are namespaces: each has its own ranks' folders, both
# say how it ended, with one exit code, and the hashes are those of a run alone.
set -u
. "$DTRAIN_SOURCE/tests/support/hosts.bash" || exit 1
hosts_enter "$0" "${1:-}"
hosts_make 2 3 || { echo "SKIPPED: no bridge between network namespaces"; exit 99; }
hosts_unsaid # no host reaches the other by itself

bad=0
quick=(--net vgg11 --width-divisor 16 --global-batch 32 --shards 8 --precision fp32 --threads 1 --max-steps 3)
complain() {
    bad=1
    echo "FAILED: $*"
    head -n 20 "$folder"/log? "$folder"/work/device?/train.log
}
"$DTRAIN_BIN" --data synthetic:64 "${quick[@]}" --out "$folder/alone" >"$folder/log0" 2>&1
want=$(hashes "$folder/alone")
[ -n "$want" ] || { cat "$folder/log0"; exit 1; }
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" 10.99.0.2:2,10.99.0.3:2 >"$folder/table.json"
(umask 077 && head -c 24 /dev/urandom | base64 >"$folder/token")

# both WANT DATA ARGS...: on both servers, which end with WANT; the first one is started last, as it may be
both() {
    local code want_code=$1 data=$2 k job=()
    shift 2
    rm -rf "$folder/work" && mkdir "$folder/work"
    for k in 1 0; do
        (cd "$folder/work" && DTRAIN_BIN=$DTRAIN_BIN exec ip netns exec "dt$((2 + k))" \
            unshare -u sh -c "hostname node$k; exec \"\$@\"" - timeout -k 2 1800 \
            bash "$DTRAIN_SOURCE/scripts/tutorial/run_cluster.sh" "$data" ../table.json 4 $((2 * k)) \
            --interface 10.99.0.0/24 "$@") >"$folder/log$k" 2>&1 </dev/null &
        job[k]=$!
    done
    for k in 0 1; do
        wait "${job[k]}"
        code=$?
        [ $code = "$want_code" ] || complain "server $k ends with $code, want $want_code"
    done
}
both 0 synthetic:64 --token-file "$folder/token" "${quick[@]}"
[ "$(hashes "$folder/work/device0/run")" = "$want" ] || complain "other hashes or none"
grep -q "4 ranks x 1 thread on 2 nodes" "$folder/work/device0/train.log" ||
    complain "not on two servers"
for k in 0 1; do
    [ "$(tail -n 1 "$folder/log$k")" = "training success" ] || complain "server $k does not say so"
    [ "$(grep -c "^start training for device $((2 * k))\$" "$folder/log$k")" = 1 ] || complain "server $k's ranks"
done
for i in 0 1 2 3; do
    for value in "RANK_ID=$i" "DEVICE_ID=$((i % 2))" "RANK_SIZE=4" "RANK_TABLE_FILE=$folder/table.json"; do
        grep -qx "$value" "$folder/work/device$i/env.log" || complain "device$i: no $value"
    done
done

# a failure is every server's; the secret as a variable, which no rank is told
secret=$(cat "$folder/token")
DTRAIN_TOKEN=$secret MASTER_PORT=29511 both 66 "$folder/no-data" "${quick[@]}"
for k in 0 1; do
    grep -qx "training failed" "$folder/log$k" || complain "server $k does not say that it failed"
done
grep -q "$folder/no-data" "$folder/log0" || complain "the reason is not told"
! grep -qF "$secret" "$folder"/log? "$folder"/work/device?/*.log || complain "the secret is told"
exit $bad
