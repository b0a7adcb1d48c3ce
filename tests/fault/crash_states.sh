#!/usr/bin/env bash
# What a power cut may leave of a save is whole or is not loaded; and the harness that says
# so finds what is wrong with three other protocols, and with ours without any one fsync.
# The whole campaign is proofs/crash-states.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
imitate="$DTRAIN_SOURCE/tests/fault/imitate.py"

# counts STATES COMMANDS: the shell commands leave so many distinct states, counted by hand;
# the loader answers nothing that makes sense, and must not be trusted then
counts() {
    record count 1 1 sh -c "cd \"\$0\" && $2 && echo saved 1 x"
    replay count --limit 4096 -- cat
    [ "$(figure states) $(figure failed) $code" = "$1 $1 1" ] ||
        complain "$2: want $1 states: $figures"
    rm -rf "$tmp/count"
}
counts 1 ":"
counts 4 ": >a; : >b"
counts 3 "mkdir d; : >d/x"             # the folder, then what is in it
counts 2 "mkdir d; sync .; rmdir d; sync ."
counts 8 "printf ab >x"                # none, '', a, ab, 00, a0, garbage, half garbage
counts 15 "printf ab >x; mv x y"       # none, or one of 7 contents under one of 2 names
counts 9 "printf ab >x; sync x; sync .; mv x y"
counts 4 ": >x; sync .; mkdir d; mv x d/y" # d/y, and no x, only where d is

for protocol in done rename overwrite; do
    record "$protocol" 1 3 "$imitate" "$protocol"
    is_caught "$protocol" "$protocol" --limit 128 -- "$imitate" "$protocol"
done
record sound 1 3 "$imitate" sound
keeps_promise sound sound --limit 256 -- "$imitate" sound
each_sync_is_needed sound 1 1 --limit 256 -- "$imitate" sound

ours=$fault/save_driver
record ours 1 3 "$ours"
keeps_promise ours ours --limit 256 --stride 16 -- "$ours"
[ "$(figure states)" -ge 1000 ] || complain "ours: fewer than 1000 distinct states"
each_sync_is_needed "ours, first save" 0 1 --limit 64 --stride 16 -- "$ours"
each_sync_is_needed "ours, third save" 2 1 --limit 64 --stride 16 -- "$ours"
second_cut ours ours 60 --limit 64 --stride 16 -- "$ours"

# four ranks at once, whose calls are interleaved as they come
export RANKS=4
record ranks 1 3 "$ours"
keeps_promise "4 ranks" ranks --limit 16 --stride 256 -- "$ours"
[ "$(figure states)" -ge 500 ] || complain "4 ranks: fewer than 500 distinct states"
exit "$bad"
