#!/usr/bin/env bash
# What a power cut may leave of a save is whole or is not loaded; and the harness that says
# so finds what is wrong with three other protocols, and with ours without any one fsync.
# The whole campaign is scripts/crash-states.
. "$DTRAIN_SOURCE/tests/fault/crash.bash" || exit 1
imitate=$fault/fault_imitate
limit=256

for protocol in done rename overwrite; do
    record "$protocol" 1 3 "$imitate" "$protocol"
    is_caught "$protocol" "$protocol" "$limit" torn "$imitate" "$protocol"
done
record sound 1 3 "$imitate" sound
keeps_promise sound sound "$limit" "$imitate" sound
each_sync_is_needed sound "$limit" 2 "$imitate" sound
exit "$bad"
