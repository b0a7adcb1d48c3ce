# crash.bash - helpers of tests/fault/crash_states.sh and scripts/crash-states: record what
# a program does while it saves, cut the power everywhere, and see what it loads.
# Needs DTRAIN_BUILD_DIR; the states live in memory where the machine has /dev/shm.
set -u
: "${DTRAIN_BUILD_DIR:?the build folder}"
fault=$DTRAIN_BUILD_DIR
shm=/dev/shm
[ -w "$shm" ] || shm=${TMPDIR:-/tmp}
tmp=$(mktemp -d "$shm/dtrain-crash.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
bad=0

# complain WHAT...
complain() {
    bad=1
    echo "FAILED: $*"
}

# record RUN FIRST COUNT PROGRAM...: PROGRAM FOLDER FIRST COUNT, below $tmp/RUN/folder,
# which is made if it is not there; the environment DROP_FSYNC leaves one sync out
record() {
    local run=$1 first=$2 count=$3
    shift 3
    mkdir -p "$tmp/$run/folder"
    rm -rf "$tmp/$run/log" "$tmp/$run/before"
    cp -a "$tmp/$run/folder" "$tmp/$run/before"
    RECORD_ROOT=$tmp/$run/folder RECORD_LOG=$tmp/$run/log LD_PRELOAD=$fault/fault_recorder.so \
        "$@" "$tmp/$run/folder" "$first" "$count" >"$tmp/$run/saved" 2>"$tmp/$run/stderr" || {
        complain "$run: the recorded program ended with $?"
        cat "$tmp/$run/stderr"
        return 1
    }
}

# replay RUN OPTIONS... -- LOADER...: sets $figures (the last line), $code
replay() {
    local run=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    rm -rf "$tmp/$run/work"
    mkdir "$tmp/$run/work"
    "$fault/fault_replay" --before "$tmp/$run/before" --after "$tmp/$run/folder" \
        "${options[@]}" "$tmp/$run/log" "$tmp/$run/work" -- "$@" >"$tmp/$run/report"
    code=$?
    rm -rf "$tmp/$run/work"
    figures=$(tail -n 1 "$tmp/$run/report")
}

# figure NAME: of $figures
figure() {
    local words
    read -ra words <<<"$figures"
    for ((i = 0; i + 1 < ${#words[@]}; i += 2)); do
        [ "${words[i]}" = "$1" ] && echo "${words[i + 1]}"
    done
}

# keeps_promise NAME RUN LIMIT PROGRAM...: no violation in any state
keeps_promise() {
    local name=$1 run=$2 limit=$3
    shift 3
    replay "$run" --limit "$limit" --examples 2 -- "$@" --load
    echo "$name: $figures"
    [ "$code" = 0 ] || { complain "$name breaks its promise"; cat "$tmp/$run/report"; }
}

# is_caught NAME RUN LIMIT KIND PROGRAM...: violations are found, of the KIND torn or any
is_caught() {
    local name=$1 run=$2 limit=$3 kind=$4
    shift 4
    replay "$run" --limit "$limit" -- "$@" --load
    echo "$name: $figures"
    if [ "$code" != 1 ] || { [ "$kind" = torn ] && [ "$(figure torn)" = 0 ]; }; then
        complain "$name: the violation is not found"
    fi
    sed '$d; s/^/    /' "$tmp/$run/report"
}

# each_sync_is_needed NAME LIMIT COUNT PROGRAM...: without any one of the syncs of COUNT
# saves a violation is found; prints those without. $needless: how many
each_sync_is_needed() {
    local name=$1 limit=$2 count=$3 n syncs
    shift 3
    needless=0
    record drop 1 "$count" "$@" || return
    replay drop --limit 1 -- "$@" --load
    syncs=$(figure fsyncs)
    [ "${syncs:-0}" -gt 0 ] || complain "$name: no sync is recorded"
    for ((n = 1; n <= syncs; n++)); do
        rm -rf "$tmp/drop"
        DROP_FSYNC=$n record drop 1 "$count" "$@" || return
        replay drop --limit "$limit" --any -- "$@" --load
        if [ "$code" != 1 ] || [ "$(figure fsyncs)" != $((syncs - 1)) ]; then
            needless=$((needless + 1))
            complain "$name: without sync $n of $syncs nothing is found: $figures"
        fi
        sed -n "1s/^/    without sync $n: /p" "$tmp/drop/report"
    done
    echo "$name: each of $syncs syncs is needed, but for $needless"
    rm -rf "$tmp/drop"
}
