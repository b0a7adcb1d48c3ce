#!/usr/bin/env bash
# Words and turns for which a sentence has to be read twice do not come back; CHANGELOG.md keeps its history.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0
said() { # REGEX INSTEAD
    local hits
    hits=$(grep -rnIwiE "$1" src extra tests docs scripts proofs bench packaging examples ./*.md \
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

# Turns of a sentence that has to be read twice, in documents, headers and messages, also over lines.
plain="README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md data/README.md $(echo docs/*.md docs/lab/*.md)
    $(find src extra -name '*.[ch]')"
# shellcheck disable=SC2086
perl -0777 -ne '
    $_ = join "\n", map { join " ", /"((?:[^"\\]|\\.)*)"/g } split /\n/ if $ARGV =~ /\.c$/; # its texts
    while (/\b(but[\s*]+for|that[\s*]+of|those[\s*]+that|of[\s*]+its[\s*]+own|what\b[^.|?;:,()]{0,60}?\sof)\b/gi) {
        my ($line, $said) = (1 + (substr($_, 0, $-[0]) =~ tr/\n//), $1);
        $said =~ s/[\s*]+/ /g;
        print "$ARGV:$line: $said\n";
        $bad = 1;
    }
    END { exit($bad // 0) }' $plain || { echo "these turn a sentence round: subject, verb, object"; bad=1; }
exit $bad
