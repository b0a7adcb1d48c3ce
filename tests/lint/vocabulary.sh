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
gone 'dt_shards_plan|DT_SHARDS_H' sumtree
gone 'dt_team|dt_team_[a-z_]+|dt_run_shards_together|dt_together[a-z_]*' dt_wave, lockstep
exit $bad
