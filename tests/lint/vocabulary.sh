#!/usr/bin/env bash
# Words that a sentence has to be read twice for do not come back; CHANGELOG.md keeps its history.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
said() { # REGEX INSTEAD
    local hits
    hits=$(grep -rnIwiE "$1" src tests docs scripts proofs bench packaging examples ./*.md \
        --exclude=vocabulary.sh --exclude=CHANGELOG.md --exclude-dir=corpus --exclude-dir=data)
    [ -z "$hits" ] && return
    echo "$hits"
    echo "these say '$1': write $2"
    bad=1
}
said 'eyes' 'monitor'
said 'hails?|hailed' 'what happens: a stop is requested'
said 'disown(s|ed)?|astray' 'abandoned, diverged'
said 'wish(es)?' 'request, or may fail'
said 'gone on with' 'resumed'
said 'is told as such' 'reported'
said 'nobody|whoever' 'who it is'
said 'leaves? off|left off' 'stop, interrupted'
exit $bad
