#!/usr/bin/env bash
# A run whose checkpoints cannot be written: it goes on with a warning and ends with the
# same bits, or stops with code 74, as --on-save-error says. At the end a disk that really
# is full, where this user may mount one.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
args=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --precision fp32 --threads 1)
cases=0

# whole FOLDER: every checkpoint is, and no temporary is left
whole() {
    local one
    for one in "$1"/checkpoints/step-*; do
        [ -d "$one" ] || continue
        "$DTRAIN_BIN" verify "$one" >/dev/null 2>"$tmp/verify" ||
            complain "$what: $one: $(cat "$tmp/verify")"
    done
    [ -z "$(find "$1/checkpoints" -name '.tmp-*' 2>/dev/null)" ] ||
        complain "$what: left behind: $(ls -A "$1/checkpoints")"
}

state_hash() { sed -n 's/^state hash *//p' "$1"; }

"$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/calm" --save-every 0 \
    >"$tmp/stdout" 2>/dev/null || complain "the undisturbed run: $?"
want=$(state_hash "$tmp/stdout")
[ -n "$want" ] || complain "no state hash"

# disturbed MODE CODE FAIL [STICKY]: CODE is a regular expression
disturbed() {
    local mode=$1 want_code=$2 fail=$3 code
    what="--on-save-error $mode, $fail${4:+ and all that follow}"
    cases=$((cases + 1))
    rm -rf "$tmp/run"
    failing "$tmp/run/checkpoints" "$fail${4:++}" "$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/run" --save-every 2 \
        --on-save-error "$mode" >"$tmp/stdout" 2>"$tmp/stderr"
    code=$?
    [ -s "$tmp/fired" ] || complain "$what: the fault did not fire"
    [[ $code =~ ^($want_code)$ ]] || complain "$what: exit code $code: $(cat "$tmp/stderr")"
    grep -q "checkpoint" "$tmp/stderr" || complain "$what: not a word of it"
    if [ "$mode" = continue ]; then
        grep -q "training goes on" "$tmp/stderr" || complain "$what: no warning"
        [ "$(state_hash "$tmp/stdout")" = "$want" ] || complain "$what: other bits"
        [ -s "$tmp/run/model.safetensors" ] || complain "$what: no model"
    else
        [ ! -e "$tmp/run/model.safetensors" ] || complain "$what: it went on"
    fi
    whole "$tmp/run"
    if [ -z "${4:-}" ] && [ "$mode" = continue ] &&
        ! ls "$tmp/run/checkpoints" | grep -q "step-0*6"; then
        complain "$what: the save after it is missing: $(ls -A "$tmp/run/checkpoints")"
    fi
}

for fault_at in write:50:ENOSPC fsync:3:EIO create:5:EDQUOT rename:1:EIO mkdir:2:ENOSPC \
    close:4:EIO fallocate:1:ENOSPC; do
    disturbed continue 0 "$fault_at"
    disturbed stop '73|74' "$fault_at"
done
for fault_at in write:1:ENOSPC fsync:1:EIO create:8:EROFS rename:1:EROFS mkdir:1:EROFS; do
    disturbed continue 0 "$fault_at" sticky
    disturbed stop '73|74' "$fault_at" sticky
done

# A line of metrics.jsonl that does not get to the disk (the writes before it are the lock's
# and the options'): said, and the run ends with the same bits.
what="a lost line of metrics.jsonl"
cases=$((cases + 1))
rm -rf "$tmp/run"
failing "$tmp/run" write:5:ENOSPC "$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/run" --save-every 0 >"$tmp/stdout" 2>"$tmp/stderr" ||
    complain "$what: $(cat "$tmp/stderr")"
grep -q "a line of metrics.jsonl is lost: .*training goes on" "$tmp/stderr" || complain "$what: $(cat "$tmp/stderr")"
grep -q "written again; it lacks 1 lines" "$tmp/stderr" || complain "$what: no word of its end"

# And with none after it: how many are lost is said at the end, which is not good either.
what="lines of metrics.jsonl that are lost to the end"
cases=$((cases + 1))
rm -rf "$tmp/run"
failing "$tmp/run" write:5:ENOSPC+ "$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/run" --save-every 0 \
    >"$tmp/stdout" 2>"$tmp/stderr"
grep -qE "metrics.jsonl lacks its last [1-9]" "$tmp/stderr" || complain "$what: $(cat "$tmp/stderr")"

# ---- A disk that fills up while a run saves, and is emptied again ----------------------

# soon COMMAND...: true before a minute is over, and while the run lives
soon() {
    for _ in $(seq 600); do
        "$@" && return 0
        kill -0 "$run" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
has_checkpoint() { ls "$tmp/disk/run/checkpoints" 2>/dev/null | grep -q '^step-'; }
has_warning() { grep -q "training goes on" "$tmp/stderr"; }

# full MODE: starts a run on the disk and fills it once there is a checkpoint; sets $run
full() {
    what="a full disk, --on-save-error $1"
    cases=$((cases + 1))
    rm -rf "$tmp/disk/run" "$tmp/disk/filler"
    "$DTRAIN_BIN" train "${args[@]}" --max-steps 400 --epochs 200 --save-every 2 \
        --on-save-error "$1" --out "$tmp/disk/run" >"$tmp/stdout" 2>"$tmp/stderr" &
    run=$!
    soon has_checkpoint || complain "$what: no checkpoint"
    cat /dev/zero >"$tmp/disk/filler" 2>/dev/null
}

mkdir "$tmp/disk"
if mount -t tmpfs -o size=8m none "$tmp/disk" 2>/dev/null; then
    trap 'umount "$tmp/disk"; rm -rf "$tmp"' EXIT
    full stop
    wait "$run"
    code=$?
    [ "$code" = 74 ] || complain "$what: exit code $code: $(cat "$tmp/stderr")"
    whole "$tmp/disk/run"
    has_checkpoint || complain "$what: the older checkpoint is gone"

    full continue
    soon has_warning || complain "$what: no warning"
    rm "$tmp/disk/filler"
    wait "$run"
    code=$?
    [ "$code" = 0 ] || complain "$what: exit code $code: $(cat "$tmp/stderr")"
    whole "$tmp/disk/run"
    ls "$tmp/disk/run/checkpoints" | grep -q "step-0*400" || complain "$what: no last save"

    full continue # to the end: there is no room for the model, and the last checkpoint stays
    what="a disk that stays full"
    while kill -0 "$run" 2>/dev/null; do # what a failed save gives back, too
        cat /dev/zero >>"$tmp/disk/filler" 2>/dev/null
        sleep 0.02
    done
    wait "$run"
    code=$?
    [ "$code" = 74 ] || complain "$what: exit code $code: $(cat "$tmp/stderr")"
    has_warning || complain "$what: no warning"
    grep -q "cannot write .*model.safetensors.*No space left" "$tmp/stderr" || complain "$what: no word of the model"
    has_checkpoint || complain "$what: the last checkpoint is gone"
    whole "$tmp/disk/run"
    [ -z "$(find "$tmp/disk" -name '*.tmp')" ] || complain "$what: left behind"
else
    echo "SKIPPED: a full disk: no rights to mount one"
fi
echo "$cases cases"
exit "$bad"
