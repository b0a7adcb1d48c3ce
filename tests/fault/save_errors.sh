#!/usr/bin/env bash
# A run whose checkpoints cannot be written: it continues with a warning and ends with the same bits, or
# stops with code 74, as --on-save-error says. At the end a disk that really is full, where this user may
# mount one.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
args=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
    --precision fp32 --threads 1)
cases=0

# check COMMAND...: of the case $what
check() { "$@" || complain "$what: not so: $*; $(cat "$tmp/stderr")"; }
said() { check grep -qE -- "$1" "$tmp/stderr"; }

# whole FOLDER: every checkpoint is, and no temporary is left
whole() {
    local one
    for one in "$1"/checkpoints/step-*; do
        [ ! -d "$one" ] || check "$DTRAIN_BIN" verify "$one" >/dev/null
    done
    check test -z "$(find "$1" -name '*tmp*')"
}

"$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/calm" --save-every 0 >/dev/null 2>"$tmp/stderr"
want=$(hashes "$tmp/calm")
[ -n "$want" ] || complain "the undisturbed run: $(cat "$tmp/stderr")"

# each fault once with each mode; "+": so do all calls that follow
for fault_at in write:50:ENOSPC fsync:3:EIO create:5:EDQUOT rename:1:EIO mkdir:2:ENOSPC close:4:EIO \
    write:1:ENOSPC+ fsync:1:EIO+ create:8:EROFS+ rename:1:EROFS+ mkdir:1:EROFS+; do
    for mode in continue stop; do
        what="--on-save-error $mode, $fault_at"
        cases=$((cases + 1))
        rm -rf "$tmp/run"
        failing "$tmp/run/checkpoints" "$fault_at" "$DTRAIN_BIN" train "${args[@]}" --max-steps 6 \
            --out "$tmp/run" --save-every 2 --on-save-error $mode >"$tmp/stdout" 2>"$tmp/stderr"
        code=$?
        check test -s "$tmp/fired"
        said checkpoint
        whole "$tmp/run"
        if [ $mode = stop ]; then
            [[ $code = 73 || $code = 74 ]] || complain "$what: exit code $code"
            check test ! -e "$tmp/run/model.safetensors"
            continue
        fi
        check test $code = 0
        said "training goes on"
        check test "$(hashes "$tmp/run")" = "$want"
        check test -s "$tmp/run/model.safetensors"
        [[ $fault_at = *+ ]] || check has_checkpoint "$tmp/run" 6
    done
done

# A line of metrics.jsonl that does not get to the disk (the writes before it are the options'): said, and
# the run ends with the same bits; and with none after it: how many are lost is said at the end.
for fault_at in write:5:ENOSPC write:5:ENOSPC+; do
    what="a lost line of metrics.jsonl, $fault_at"
    cases=$((cases + 1))
    rm -rf "$tmp/run"
    failing "$tmp/run" $fault_at "$DTRAIN_BIN" train "${args[@]}" --max-steps 6 --out "$tmp/run" \
        --save-every 0 >"$tmp/stdout" 2>"$tmp/stderr"
    code=$?
    if [ $fault_at = write:5:ENOSPC ]; then
        check test $code = 0
        said "a line of metrics.jsonl is lost: .*training goes on"
        check test "$(hashes "$tmp/run")" = "$want"
    else
        said "metrics.jsonl lacks its last [1-9]"
    fi
done

# ---- A disk that fills up while a run saves ---------------------------------------------------------

warned() { grep -q "training goes on" "$tmp/stderr"; }
fill() { cat /dev/zero >>"$tmp/disk/filler" 2>/dev/null; }
# full MODE: a run on the disk, which is filled once there is a checkpoint
full() {
    what="a full disk, --on-save-error $1"
    cases=$((cases + 1))
    rm -rf "$tmp/disk/run" "$tmp/disk/filler"
    start 1 train "${args[@]}" --max-steps 400 --epochs 200 --save-every 2 --on-save-error "$1" --out "$tmp/disk/run"
    check soon has_checkpoint "$tmp/disk/run"
    fill
}
# ends CODE
ends() {
    job_end
    check test "$code" = "$1"
    whole "$tmp/disk/run"
    check has_checkpoint "$tmp/disk/run"
}

mkdir "$tmp/disk"
if mount -t tmpfs -o size=8m none "$tmp/disk" 2>/dev/null; then
    trap 'umount "$tmp/disk"; rm -rf "$tmp"' EXIT
    full stop
    ends 74

    full continue # and is emptied again
    check soon warned
    rm "$tmp/disk/filler"
    ends 0
    check has_checkpoint "$tmp/disk/run" 400

    full continue # to the end: there is no room for the model, and the last checkpoint stays
    until gone "$job"; do # what a failed save gives back, too
        fill
        sleep 0.02
    done
    ends 74
    check warned
    said "cannot write .*model.safetensors.*No space left"
else
    echo "SKIPPED: a full disk: no rights to mount one"
fi
echo "$cases cases"
exit "$bad"
