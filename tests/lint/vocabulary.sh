#!/usr/bin/env bash
# One word for one thing: words that were given up do not come back.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0

# gone REGEX NEW...: whole words, with what took their place
gone() {
    local old=$1
    shift
    if grep -rnIwE "$old" src tests docs scripts proofs bench cmake ./*.md ./*.txt \
        --exclude=vocabulary.sh --exclude=CHANGELOG.md --exclude-dir=corpus --exclude-dir=data; then
        echo "these are called $* now"; bad=1
    fi
}
gone 'dt_wishes' dt_requests
gone 'dt_run_lap|dt_phase_charge' 'enter (step.c)'
gone 'dt_tree|dt_tree_[a-z0-9_]+' dt_reduce
gone 'dt_exchange_parts?|dt_exchange_part_[a-z]+|dt_exchange_fold_parts' partial, partials
gone 'dt_state_text|dt_state_read' 'dt_checkpoint_json_*'
gone 'dt_model_state' dt_weights
gone 'what_class|dt_resume_class|class_of_bits' bits_class
gone 'dt_model_origin' dt_model_meta
gone 'dt_copies[a-z_]*|dt_checks_slices|dt_slices' dt_replicas, guard
gone 'dt_shards_plan|DT_SHARDS_H' fold
gone 'dt_team|dt_team_[a-z_]+|dt_run_shards_together|dt_together[a-z_]*' dt_wave, lockstep

# What a sentence has to be read twice for. CHANGELOG.md keeps its history.
LEAN=${LEAN:-0} # 1: they fail the test, 0: they are counted
said() { # REGEX INSTEAD
    local hits
    hits=$(git ls-files src tests docs scripts proofs bench '*.md' |
        grep -vE '^(CHANGELOG\.md|tests/lint/vocabulary\.sh|tests/fuzz/corpus/|tests/golden/data/)' |
        xargs -r grep -nIwiE "$1" 2>/dev/null)
    [ -z "$hits" ] && return
    if [ "$LEAN" = 1 ]; then
        echo "$hits"
        bad=1
    fi
    echo "$(wc -l <<<"$hits") lines with '$1': write $2"
}
if git rev-parse HEAD >/dev/null 2>&1; then
    said 'eyes' 'monitor'
    said 'hails?|hailed' 'what happens: a stop is requested'
    said 'disown(s|ed)?|astray' 'abandoned, diverged'
    said 'wish(es)?' 'request, or may fail'
    said 'gone on with' 'resumed'
    said 'is told as such' 'reported'
    said 'nobody|whoever' 'who it is'
    said 'leaves? off|left off' 'stop, interrupted'
fi
exit $bad
