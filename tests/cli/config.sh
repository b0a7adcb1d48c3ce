#!/usr/bin/env bash
# Configuration files: a mistake is named once with file, line and column.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
yaml=$tmp/a.yaml

# wrong PLACE TEXT...: the file says $body
wrong() {
    local place=$1
    shift
    printf '%b' "$body" >"$yaml"
    refuses 78 "$yaml:$place" "$@" -- --config "$yaml"
}
body='lr: 0.1\nepoch: 3\n' wrong 2:1 "'epoch'" "did you mean epochs?"
body='net: vgg11\nbatch:   0\n' wrong 2:10 "'0'" "from 1 to 1000000"
body='bn: foo\n' wrong 1:5 "'foo'" "bn" "group:N"
body='nesterov: perhaps\n' wrong 1:11 "'perhaps'" "true or false"
body='lr: 0.1\nlr: 0.2\n' wrong 2:1 "twice" "a.yaml:1:5"
body='lr: 0.1\n\tepochs: 2\n' wrong 2:1 "not YAML"
body='batch: 4\nglobal_batch: 8\n' wrong 1:8 "a.yaml:2:15" "one of them"
refuses 66 "$tmp/none.yaml" "No such file" -- --config "$tmp/none.yaml"
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
