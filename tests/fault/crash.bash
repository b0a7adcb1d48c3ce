# crash.bash - helpers of tests/fault/crash_states.sh and proofs/crash-states: record what
# a program does while it saves, cut the power everywhere, and see what it loads.
# Needs DTRAIN_BUILD_DIR; the states live in memory where the machine has /dev/shm.
set -u
. "${BASH_SOURCE[0]%/*}/../support/runs.bash" || exit 1
: "${DTRAIN_BUILD_DIR:?the build folder}"
fault=$DTRAIN_BUILD_DIR
[ -e "$fault/fault_trace" ] || { # a build with sanitizers has none
    echo "SKIPPED: $fault has no fault_trace"
    exit 99
}
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

# prepare RUN COUNT PROGRAM...: saves 1 to COUNT into $tmp/RUN/folder, not recorded
prepare() {
    local run=$1 count=$2
    shift 2
    mkdir -p "$tmp/$run/folder"
    [ "$count" = 0 ] || "$@" "$tmp/$run/folder" 1 "$count" >"$tmp/$run/known" ||
        complain "$run: the program ended with $?"
}

# record RUN FIRST COUNT PROGRAM...: PROGRAM FOLDER FIRST COUNT, below $tmp/RUN/folder,
# which is made if it is not there; the environment DROP_FSYNC leaves one sync out
record() {
    local run=$1 first=$2 count=$3
    shift 3
    mkdir -p "$tmp/$run/folder"
    rm -rf "$tmp/$run/log" "$tmp/$run/before"
    cp -a "$tmp/$run/folder" "$tmp/$run/before"
    "$fault/fault_trace" record "$tmp/$run/folder" "$tmp/$run/log" \
        "$@" "$tmp/$run/folder" "$first" "$count" >"$tmp/$run/saved" 2>"$tmp/$run/stderr" || {
        complain "$run: the recorded program ended with $?"
        cat "$tmp/$run/stderr"
        return 1
    }
}

# failing FOLDER FAULT PROGRAM...: PROGRAM with a fault of trace.c below FOLDER, for a minute at most;
# $tmp/fired is there where the fault has happened
failing() {
    rm -f "$tmp/fired"
    timeout -k 2 1800 "$fault/fault_trace" fail "$1" "$2" "$tmp/fired" "${@:3}"
}

# replay RUN OPTIONS... -- LOADER...: sets $figures (the last line), $code
replay() {
    local run=$1 options=()
    shift
    [ ! -e "$tmp/$run/known" ] || options+=(--known "$tmp/$run/known")
    take_words options "$@" && shift "$taken"
    rm -rf "$tmp/$run/work"
    mkdir "$tmp/$run/work"
    python3 "${BASH_SOURCE[0]%/*}/replay.py" --before "$tmp/$run/before" --after "$tmp/$run/folder" \
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

# keeps_promise NAME RUN OPTIONS... -- PROGRAM...: no violation in any state
keeps_promise() {
    local name=$1
    shift
    replay "$@" --load
    echo "$name: $figures"
    [ "$code" = 0 ] || { complain "$name breaks its promise"; cat "$tmp/$1/report"; }
}

# is_caught NAME RUN OPTIONS... -- PROGRAM...: torn loads are found
is_caught() {
    local name=$1
    shift
    replay "$@" --load
    echo "$name: $figures"
    if [ "$code" != 1 ] || [ "$(figure torn)" = 0 ]; then
        complain "$name: the torn state is not found"
    fi
    sed '$d; s/^/    /' "$tmp/$1/report"
}

# each_sync_is_needed NAME PREPARED COUNT OPTIONS... -- PROGRAM...: without any one of the
# syncs of COUNT saves, after PREPARED others, a violation is found. $syncs: how many
each_sync_is_needed() {
    local name=$1 prepared=$2 count=$3 options=() n missed=0
    shift 3
    take_words options "$@" && shift "$taken"
    prepare drop "$prepared" "$@"
    record drop $((prepared + 1)) "$count" "$@" || return
    replay drop --limit 1 -- "$@" --load
    syncs=$(figure fsyncs)
    [ "${syncs:-0}" -gt 0 ] || complain "$name: no sync is recorded"
    for ((n = 1; n <= syncs; n++)); do
        rm -rf "$tmp/drop"
        prepare drop "$prepared" "$@"
        DROP_FSYNC=$n record drop $((prepared + 1)) "$count" "$@" || return
        replay drop "${options[@]}" --any -- "$@" --load
        if [ "$code" != 1 ] || [ "$(figure fsyncs)" != $((syncs - 1)) ]; then
            missed=$((missed + 1))
            complain "$name: without sync $n of $syncs nothing is found: $figures"
        fi
        sed -n "1s/^/    without sync $n: /p" "$tmp/drop/report"
    done
    echo "$name: $syncs syncs, a violation without each of $((syncs - missed))"
    rm -rf "$tmp/drop"
}

# second_cut NAME RUN EVERY OPTIONS... -- PROGRAM...: every EVERY-th state that a cut leaves
# is saved into again and cut again. $samples states, $second distinct ones after them
second_cut() {
    local name=$1 run=$2 every=$3 options=() folder word step hash
    shift 3
    take_words options "$@" && shift "$taken"
    mkdir "$tmp/samples"
    replay "$run" "${options[@]}" --sample "$every" "$tmp/samples" -- "$@" --load
    samples=0
    second=0
    for folder in "$tmp"/samples/*; do
        [ -d "$folder" ] || break
        mkdir "$tmp/again"
        cp -r "$folder" "$tmp/again/folder"
        read -r word step hash <<<"$("$@" --load "$folder" 2>/dev/null)"
        sed 's/^saved/known/' "$tmp/$run/saved" >"$tmp/again/known"
        [ "$word" = loaded ] && echo "saved $step $hash" >>"$tmp/again/known"
        if record again $((${step:-0} + 1)) 1 "$@"; then
            replay again "${options[@]}" -- "$@" --load
            [ "$code" = 0 ] || { complain "$name, cut twice"; cat "$tmp/again/report"; }
            samples=$((samples + 1))
            second=$((second + $(figure states)))
        fi
        rm -rf "$tmp/again"
    done
    rm -rf "$tmp/samples"
    echo "$name: cut twice: $samples states of the first cut, $second of the second"
    [ "$samples" -gt 0 ] || complain "$name: no state to go on from"
}
