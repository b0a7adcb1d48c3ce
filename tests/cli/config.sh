#!/usr/bin/env bash
# Configuration files: a mistake is named once with file, line and column.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
yaml=$tmp/a.yaml

# the forms of mistakes are in unit_options_config
printf 'net: vgg11\nbatch:   0\n' >"$yaml"
refuses 78 "$yaml:2:10" "'0'" "from 1 to 1000000" -- --config "$yaml"
printf 'batch: 4\nglobal_batch: 8\n' >"$yaml"
refuses 78 "$yaml:1:8" "a.yaml:2:15" "one of them" -- --config "$yaml"
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
finish
