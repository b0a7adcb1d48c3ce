#!/usr/bin/env bash
# A disk that has no locks, or no fsync, keeps no run from starting, and none from saving; a folder
# that is another run's does.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
run=("$DTRAIN_BUILD_DIR/dtrain" --data synthetic:64 --net mlp --width-divisor 64 --image-size 8
    --global-batch 32 --threads 1 --max-steps 4 --save-every 2 --out "$tmp/run")
mkdir "$tmp/run"
"${run[@]}" >"$tmp/good" 2>&1 || complain "a run: $(cat "$tmp/good")"

# lacks CALL ERROR CODE TEXT [OPTION...]: a run on such a disk, and how often it says TEXT
lacks() {
    local call=$1 error=$2 want=$3 text=$4 code times=0
    shift 4
    failing "$tmp/run" "$call:1:$error+" "${run[@]}" "$@" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
    code=$?
    [ -s "$tmp/fired" ] || complain "$call: never called"
    [ -z "$text" ] || times=$(grep -c "$text" "$tmp/stderr")
    [ "$code" = "$want" ] && { [ -z "$text" ] || [ "$times" = 1 ]; } ||
        complain "$call $error: code $code, not $want, or not once '$text': $(cat "$tmp/stderr")"
    [ "$want" != 0 ] || grep -qF "$(grep weights.hash "$tmp/good")" "$tmp/stdout" ||
        complain "$call $error: other weights, or none: $(cat "$tmp/stdout")"
}

for error in ENOSYS ENOLCK EOPNOTSUPP EINVAL; do
    rm -rf "$tmp/run"
    mkdir "$tmp/run"
    lacks flock "$error" 0 "warning: run folder .*/run: its disk has no locks .*give no two runs"
    lacks flock "$error" 0 "its disk has no locks" --resume auto
done
lacks flock EAGAIN 73 "is in use by another run" --resume auto
lacks flock EIO 73 "choose another --out" --resume auto
for error in ENOSYS EOPNOTSUPP EINVAL; do
    rm -rf "$tmp/run"
    mkdir "$tmp/run"
    lacks fsync "$error" 0 ""
    "$DTRAIN_BUILD_DIR/dtrain" verify "$tmp/run" >"$tmp/stdout" 2>&1 || complain "fsync $error: $(cat "$tmp/stdout")"
done

# status, which sees no lock then, looks at what the run writes
rm -rf "$tmp/run"
mkdir "$tmp/run"
failing "$tmp/run" flock:1:ENOSYS+ "${run[@]}" --max-steps -1 --epochs 1000000 --save-every 0 >"$tmp/stdout" 2>&1 </dev/null &
is() { "$DTRAIN_BUILD_DIR/dtrain" status "$tmp/run" 2>&1 | grep "^run $tmp/run is $1" >"$tmp/said"; }
within is "going on: step" || complain "a run without a lock does not go on: $(cat "$tmp/stdout")"
DTRAIN_BIN=$DTRAIN_BUILD_DIR/dtrain find_ranks "$tmp/run"
kill -9 "${rank[0]}"
within is killed || complain "a run without a lock was not killed"
exit "$bad"
