#!/usr/bin/env bash
# Signals, each at several moments: a run that is stopped finishes its step, checkpoints, says how to
# resume with code 75, and resumes to the same bits; SIGHUP checkpoints without stopping; a second
# SIGINT ends at once.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset GOMP_SPINCOUNT # as users start it: it starts itself once more

# Steps and tests long enough to be met in the middle; two steps an epoch.
sizes=(--image-size 64 --width-divisor 8)
[ -z "${ASAN_OPTIONS:-}" ] || sizes=(--image-size 48) # slow as they are
run=("${tiny[@]}" --epochs 1000 --max-steps 6 --save-every 0 "${sizes[@]}" --global-batch 64 --subset 128
    --data synthetic:4000)
said() { must grep -qE -- "$1" "$tmp/stderr"; }

accepts "${run[@]}" --out "$tmp/calm"
accepts "${run[@]}" --bn sync --out "$tmp/calm-sync"

# resumes FOLDER ARGS...: on one rank, to the undisturbed end
resumes() {
    local folder=$1 calm=$tmp/calm
    shift
    [[ " $* " != *" --bn sync "* ]] || calm=$tmp/calm-sync
    accepts "${run[@]}" "$@" --out "$folder" --resume auto
    said "resumed from $folder/checkpoints/step-"
    equal "$(hashes "$calm")" "$(hashes "$folder")"
    must test "$(records "$folder" step) $(records "$folder" epoch)" = "6 3"
}

# target WHO: sets $pid to whom the signal goes
target() {
    job_ranks
    case $1 in
    launcher) pid=$job ;; # without mpirun the process itself
    first) pid=${pids[0]} ;;
    last) pid=${pids[-1]} ;;
    esac
}

# The moment is met while the ranks are held. Held behind its last look at the signal, a rank still makes
# one step more.
in_step() { # SIGNAL NP WHO ARGS...
    local what="SIG$1 in a step to the $3 of $2" signal=$1 folder=$tmp/step held
    rm -rf "$folder"
    start "$2" "${run[@]}" --out "$folder" "${@:4}"
    must soon has_records "$folder" step 1
    hold
    held=$(records "$folder" step)
    target "$3"
    kill "-$signal" "$pid"
    sleep 0.1
    release
    job_ends "$([ "$2" = 1 ] && echo 75 || echo "$asked")" "$what"
    must test "$(records "$folder" step)" -le $((held + 2))
    must test "$(grep -c "stopped by SIG$signal after step $(records "$folder" step) of 6" "$tmp/stderr")" = 1
    said "start it again with --out $folder --resume auto"
    must grep -q "step $(records "$folder" step) of 6" <("$DTRAIN_BIN" status "$folder")
    resumes "$folder" "${@:4}"
}

# The test behind the first epoch is given up, and is what comes next.
in_test() { # SIGNAL NP WHO
    local what="SIG$1 in a test to the $3 of $2" signal=$1 folder=$tmp/test try
    for try in 1 2 3 4 5; do
        rm -rf "$folder"
        start "$2" "${run[@]}" --out "$folder"
        must soon has_records "$folder" step 2
        hold
        [ "$(records "$folder" epoch)" != 0 ] || break
        job_kill
    done
    target "$3"
    kill "-$signal" "$pid"
    sleep 0.1
    release
    job_ends "$([ "$2" = 1 ] && echo 75 || echo "$asked")" "$what"
    said "stopped by SIG$signal after step 2 of 6"
    must test "$(records "$folder" step) $(records "$folder" epoch)" = "2 0"
    resumes "$folder"
}

# ready PID: it handles INT, USR1 and TERM; SIGHUP is UCX's from the start (Open MPI 5).
ready() { catches "$1" 2 && catches "$1" 10 && catches "$1" 15; }
# While the run is set up: at once, with one line, and nothing was written. A signal to one rank may come
# while MPI starts, when it waits until the run begins: leaving then made mpirun wait for ever, sometimes.
in_setup() { # SIGNAL NP WHO
    local what="SIG$1 in the setup to the $3 of $2" signal=$1 folder=$tmp/early
    start "$2" "${run[@]}" --data synthetic:50000 --out "$folder"
    [ "$2" = 1 ] || must soon eval '[ -n "$(ranks_of $job)" ]'
    [ "$3" != launcher ] || [ "$2" = 1 ] || must soon eval 'job_ranks && [ ${#pids[@]} = 2 ] && ready ${pids[0]}'
    target "$3"
    [ "$pid" = "$job" ] && pid=${pids[-1]}
    must soon ready "$pid"
    target "$3"
    kill "-$signal" "$pid"
    job_ends "$([ "$2" = 1 ] && echo 75 || echo "$asked")" "$what"
    if [ "$3" = launcher ]; then
        must test "$(grep -cx "dtrain: stopped by SIG$signal while the run was set up: nothing has changed; start it again" "$tmp/stderr")" = 1
        must test ! -e "$folder"
    else
        said "stopped by SIG$signal (while the run was set up|after step [01] of 6)"
        rm -rf "$folder"
    fi
}

while read -r moment arguments; do
    # shellcheck disable=SC2086
    "in_$moment" $arguments
done <<'END'
setup TERM 1 launcher
setup INT 1 launcher
setup USR1 1 launcher
setup USR1 2 launcher
setup USR1 2 first
setup USR1 2 last
setup XCPU 1 launcher
step TERM 1 launcher
step INT 1 launcher
step USR1 1 launcher
step USR1 2 launcher --exchange shared
step TERM 3 last --exchange tree
step USR1 3 last --bn sync
step USR2 1 launcher
step XCPU 2 last
test USR1 1 launcher
test TERM 3 last
END

# ---- A checkpoint on request ------------------------------------------------------------------

start 1 "${run[@]}" --out "$tmp/hup"
must soon has_records "$tmp/hup" step 1
kill -HUP "$job"
must soon has_checkpoint "$tmp/hup"
job_ends 0 "SIGHUP lets the run continue"
equal "$(hashes "$tmp/calm")" "$(hashes "$tmp/hup")"

start 1 "${run[@]}" --out "$tmp/lost" --on-save-error stop
must soon has_records "$tmp/lost" step 1
: >"$tmp/lost/checkpoints"
kill -HUP "$job"
job_ends 74 "a checkpoint that SIGHUP asked for cannot be written"
said "dtrain: .*lost/checkpoints"

# A limit of CPU time: the soft one, behind which the signal comes each second, and the hard one.
for limits in "-S -t 3" "-t 5"; do
    for np in 1 2; do
        rm -rf "$tmp/time"
        # shellcheck disable=SC2086
        (ulimit $limits && launch "$np" "${run[@]}" --max-steps 100000 --epochs 100000 --out "$tmp/time"; exit "$code")
        code=$?
        exits "$asked" "np $np, ulimit $limits"
        said "stopped by SIGXCPU after step [0-9]+ of"
        accepts verify "$tmp/time"
    done
done

# what asked for the end is named, whatever came after it
start 1 "${run[@]}" --out "$tmp/two"
must soon has_records "$tmp/two" step 1
hold
kill -INT "$job"
release
sleep 0.01
kill -HUP "$job"
job_ends 75 "SIGINT, then SIGHUP"
said "stopped by SIGINT after step"

# timeout(1) sends its signal twice at once, which asks once
taken() { ! grep -q '^ShdPnd:.*[2367abef]$' "/proc/$job/status"; }
for _ in 1 2 3 4 5; do
    rm -rf "$tmp/once"
    start 1 "${run[@]}" --out "$tmp/once"
    must soon has_records "$tmp/once" step 1
    kill -INT "$job"
    must soon taken
    kill -INT "$job"
    job_end
    [ "$code" = 130 ] || break # that one came a second later
done
exits 75 "SIGINT twice at once"
said "stopped by SIGINT after step"

# The first one asks, and only one that comes a second later ends the process, here while the checkpoint is
# held up; one that was written before it could be held is tried again.
writes() { compgen -G "$tmp/twice/checkpoints/.tmp-*" >/dev/null; }
held() { [ "$(cut -d ' ' -f 3 "/proc/$job/stat")" = T ]; }
for _ in 1 2 3 4 5; do
    rm -rf "$tmp/twice"
    start 1 "${run[@]}" --out "$tmp/twice" --width-divisor 1
    must soon has_records "$tmp/twice" step 1
    kill -INT "$job"
    soon writes && kill -STOP "$job"
    sleep 1.2
    ! held || break
    job_end
done
must held
kill -INT "$job"
kill -CONT "$job"
job_ends 130 "a second SIGINT ends at once"
must test ! -e "$tmp/twice/model.safetensors"
finish
