#!/usr/bin/env bash
# A disk that fails at any one call of a save, for a moment or for good: what was saved
# before stays, what is loaded is whole, and the next good save leaves nothing behind.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
driver=$fault/save_driver
cases=0

# The driver as a process that answers one line for each folder.
coproc LOADER { exec "$driver" --load 2>/dev/null; }

# ask FOLDER: sets $word, $step, $hash and $torn
ask() {
    echo "$1" >&"${LOADER[1]}"
    read -r word step hash torn <&"${LOADER[0]}"
}

mkdir "$tmp/base"
"$driver" "$tmp/base" 1 2 >"$tmp/base.saved" || complain "the good saves: $?"

# judge WHAT CODE: after saves 3 and 4 with a fault, of which those in $tmp/saved were made
judge() {
    local what=$1 code=$2 made newest
    cases=$((cases + 1))
    made=$(wc -l <"$tmp/saved")
    newest=$(cat "$tmp/base.saved" "$tmp/saved" | tail -n 1)
    case $code in
    0) [ "$made" = 2 ] || complain "$what: success, but $made saves" ;;
    73 | 74) [ -s "$tmp/stderr" ] || complain "$what: exit code $code and no word" ;;
    *) complain "$what: exit code $code: $(cat "$tmp/stderr")" ;;
    esac
    ask "$tmp/run"
    [ "$word $torn" = "loaded " ] || complain "$what: $word $step $hash $torn"
    # the newest that was acknowledged, or the one whose save failed after its rename
    if [ "saved $step $hash" != "$newest" ] && ! grep -qx "saved $step $hash" "$tmp/good.saved"; then
        complain "$what: want $newest, loaded $step $hash"
    fi
    [ "$step" -ge "$(cut -d' ' -f2 <<<"$newest")" ] || complain "$what: $step is loaded"
    "$driver" "$tmp/run" 5 1 >"$tmp/saved" 2>"$tmp/stderr" ||
        complain "$what: the next save: $? $(cat "$tmp/stderr")"
    ask "$tmp/run"
    [ "saved $step $hash $torn" = "$(cat "$tmp/saved") " ] ||
        complain "$what: after the next save: $word $step $hash $torn"
    [ "$(find "$tmp/run" -name '.tmp-*' -o -name '.trash-*' | wc -l)" = 0 ] ||
        complain "$what: left behind: $(ls -A "$tmp/run/checkpoints")"
    [ "$(ls -A "$tmp/run/checkpoints" | wc -l)" = 2 ] ||
        complain "$what: not two checkpoints: $(ls -A "$tmp/run/checkpoints")"
}

# sweep CALL ERROR CLEAN [STICKY]: every n-th CALL until none is left. CLEAN=yes: a failed
# save itself leaves no temporary
sweep() {
    local call=$1 error=$2 clean=$3 n code what refused=0
    for ((n = 1; n < 2000; n += step_of_n)); do
        rm -rf "$tmp/run"
        cp -r "$tmp/base" "$tmp/run"
        what="$call number $n: $error${4:+ and all that follow}"
        failing "$tmp/run" "$call:$n:$error${4:++}" "$driver" "$tmp/run" 3 2 >"$tmp/saved" 2>"$tmp/stderr"
        code=$?
        [ "$code" = 0 ] || refused=$((refused + 1))
        [ -s "$tmp/fired" ] || break
        if [ "$clean" = yes ] && [ "$code" != 0 ] &&
            [ -n "$(find "$tmp/run" -name '.tmp-*')" ]; then
            complain "$what: the failed save leaves $(ls -A "$tmp/run/checkpoints")"
        fi
        judge "$what" "$code"
    done
    [ "$n" -gt 1 ] || complain "$call: never called"
    case $error in
    EINTR | SHORT | EINVAL) [ "$refused" = 0 ] ;;
    *) [ "$refused" -gt 0 ] ;;
    esac || complain "$call $error: $refused saves were refused"
    echo "$call $error${4:+ sticky}: $(((n - 1) / step_of_n)) cases, $refused refused"
}

cp -r "$tmp/base" "$tmp/good"
"$driver" "$tmp/good" 3 2 >"$tmp/good.saved" || complain "the good saves: $?"

# Long rows of writes are all alike; DISK_ERRORS=all takes every one.
step_of_n=11
[ "${DISK_ERRORS:-}" != all ] || step_of_n=1
sweep write ENOSPC yes
sweep write EIO yes sticky
sweep write SHORT yes
sweep write EINTR yes
step_of_n=1
sweep fsync EIO yes
sweep fsync EIO yes sticky
sweep fsync EINTR yes
sweep create ENOSPC yes
sweep create EROFS yes sticky
sweep rename EIO yes
sweep rename EROFS yes sticky
sweep mkdir EDQUOT yes
sweep close EIO yes
sweep unlink EIO no
sweep unlink EROFS no sticky
sweep rmdir EIO no

# the first save makes the folder of checkpoints: the next one is as if nothing had been
for call in mkdir fsync create rename; do
    for ((n = 1; n < 100; n++)); do
        rm -rf "$tmp/run"
        mkdir "$tmp/run"
        failing "$tmp/run" "$call:$n:EIO" "$driver" "$tmp/run" 1 1 >/dev/null 2>&1
        [ -s "$tmp/fired" ] || break
        cases=$((cases + 1))
        "$driver" "$tmp/run" 1 1 >"$tmp/saved" 2>"$tmp/stderr" || complain "after a first save without $call $n: $?"
        ask "$tmp/run"
        [ "saved $step $hash$torn" = "$(cat "$tmp/saved")" ] || complain "after a first save without $call $n: $word $torn"
    done
    [ "$n" -gt 1 ] || complain "$call: never called"
done
# what cannot be read may be whole: an older one is not taken for the newest
for ((n = 1; n < 100; n++)); do
    failing "$tmp/base" "open:$n:EIO" "$driver" --load "$tmp/base" >"$tmp/saved" 2>"$tmp/stderr"
    code=$?
    [ -s "$tmp/fired" ] || break
    cases=$((cases + 1))
    [[ $code = 66 || $code = 74 ]] || complain "open number $n of a load: exit code $code, $(cat "$tmp/saved")"
done
[ "$n" -gt 7 ] || complain "a load opens only $n files"
if [ "${DISK_ERRORS:-}" = all ]; then
    for error in EIO ENOSPC EDQUOT EROFS; do
        for call in write fsync create open rename mkdir close; do
            sweep "$call" "$error" yes
            clean=yes
            [ "$call" != open ] || clean=no # what cannot be opened cannot be emptied
            sweep "$call" "$error" $clean sticky
        done
    done
    sweep create EMFILE yes
    sweep open EMFILE yes
fi
echo "$cases cases"
exit "$bad"
