#!/usr/bin/env bash
# Configuration files: a mistake is named once with file, line and column.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
yaml=$tmp/a.yaml

# wrong CODE PLACE TEXT...: the file says $body
wrong() {
    local want=$1 place=$2
    shift 2
    printf '%b' "$body" >"$yaml"
    refuses "$want" "$yaml:$place" "$@" -- --config "$yaml"
}
body='lr: 0.1\nepoch: 3\n' wrong 78 2:1 "'epoch'" "did you mean epochs?"
body='lr: fast\n' wrong 78 1:5 "'fast'" "lr" "a number from"
body='net: vgg11\nbatch:   0\n' wrong 78 2:10 "'0'" "from 1 to 1000000"
body='bn: foo\n' wrong 78 1:5 "'foo'" "bn" "group:N"
body='save_every: often\n' wrong 78 1:13 "'often'" "30s, 10m or 2h"
body='milestones: 0.5,2\n' wrong 78 1:13 "'0.5,2'" "from 0 to 1"
body='flip: weight\n' wrong 78 1:7 "'weight'" "WHAT:RANK:STEP"
body='nesterov: perhaps\n' wrong 78 1:11 "'perhaps'" "true or false"
body='lr: 0.1\nlr: 0.2\n' wrong 78 2:1 "twice" "a.yaml:1:5"
body='training:\n  lr: 0.1\n' wrong 78 1:1 "'training'"
body='lr:\n  rate: 0.1\n' wrong 78 2:3 "mapping"
body='lr: [0.1, 0.2]\n' wrong 78 1:5 "list"
body='- lr\n' wrong 78 1:1 "list"
body='lr: "0.1\n' wrong 78 2:1 "not YAML"
body='lr: 0.1\n\tepochs: 2\n' wrong 78 2:1 "not YAML"
body='batch: 4\nglobal_batch: 8\n' wrong 78 1:8 "a.yaml:2:15" "one of them"

body='out: null\n' wrong 78 1:6 "'out' has no value" "leave the line out"
body="$(printf '{%.0s' {1..40000})\n" wrong 78 1:2 "a mapping"

refuses 66 "$tmp/none.yaml" "No such file" -- --config "$tmp/none.yaml"
refuses 66 "$tmp" "folder" -- --config "$tmp"
DTRAIN_CONFIG=$tmp/none.yaml refuses 66 "$tmp/none.yaml" -- --lr 0.1

# what is printed reads back as the same, and every file in configs/ is read
accepts --print-config --lr 0.3 --global-batch 96 --no-drop-remainder --out "$tmp/a b: #c"
cp "$tmp/stdout" "$tmp/first.yaml"
must grep -q '^global_batch: 96$' "$tmp/first.yaml"
accepts --print-config --config "$tmp/first.yaml"
must cmp "$tmp/stdout" "$tmp/first.yaml"
for file in "$DTRAIN_SOURCE"/configs/*.yaml; do
    accepts --print-config --config "$file"
done
accepts --print-config
cp "$tmp/stdout" "$tmp/defaults.yaml"
accepts --print-config --config "$DTRAIN_SOURCE/configs/tutorial.yaml"
must cmp "$tmp/stdout" "$tmp/defaults.yaml"
finish
