#!/usr/bin/env bash
# Options that are gone: each is answered with what to write instead, on the command line, in a
# file and as a variable; an older run whose options.yaml has them goes on.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# NAME|its default|what is said, a row of the table each; all of them are
gone=$(sed -nE '/dt_option_gone gone/,/^};/s/^    \{"([a-z_]*)", "([^"]*)", [a-z]*, "([^"]*)"\},/\1|\2|\3/p' "$DTRAIN_SOURCE/src/options/options.c")
equal "$(cut -d '|' -f 1 <<<"$gone" | tr '\n' ' ')" "account broadcast csv engine_check grad_threshold log_every \
logdir lr_batch lr_from model network parallel raw_input script split_nodes stall_warn strategy_out trace_steps verbose warmup_steps "

ranks=1
accepts "${tiny[@]}" --epochs 2 --out "$tmp/run"
cp "$tmp/run/options.yaml" "$tmp/now.yaml"
other=0.1 # than any default
while IFS='|' read -r name default says; do
    refuses 64 "--${name//_/-} is gone: " "$says" -- "${tiny[@]}" "--${name//_/-}" "$other"
    refuses 64 "--no-${name//_/-} is gone: " "$says" -- "${tiny[@]}" "--no-${name//_/-}"
    printf '%s: "%s"\n' "$name" "$other" >"$tmp/a.yaml"
    refuses 78 "$tmp/a.yaml:1:1: '$name' is gone: " "$says" -- "${tiny[@]}" --config "$tmp/a.yaml"
    export "DTRAIN_${name^^}=$default"
    refuses 78 "DTRAIN_${name^^} is gone: " "$says" -- "${tiny[@]}"
    unset "DTRAIN_${name^^}"
    printf '%s: "%s"\n' "$name" "$default" >>"$tmp/defaults.yaml"
    [[ $name == @(grad_threshold|lr_batch) ]] || printf '%s: "%s"\n' "$name" "$other" >>"$tmp/others.yaml"
done <<<"$gone"

accepts --config "$tmp/defaults.yaml" --print-config
equal "$("$DTRAIN_BIN" --print-config)" "$(cat "$tmp/stdout")"

# an older run: its options are those of today and these; what decides no bit may have any value
steps=1
for older in defaults others; do
    cat "$tmp/now.yaml" "$tmp/$older.yaml" >"$tmp/run/options.yaml"
    steps=$((steps + 1))
    accepts --out "$tmp/run" --resume auto --max-steps $steps
    must test "$(grep -c '"kind":"step"' "$tmp/run/metrics.jsonl")" = $steps
    equal "$(cut -d : -f 1 "$tmp/now.yaml")" "$(cut -d : -f 1 "$tmp/run/options.yaml")"
    cat "$tmp/now.yaml" "$tmp/$older.yaml" >"$tmp/run/options.yaml"
    accepts eval "$tmp/run"
done
{ cat "$tmp/now.yaml" && echo 'lr_batch: 32'; } >"$tmp/run/options.yaml"
refuses 78 "options.yaml:" "'lr_batch' is gone: write --lr-scale linear:N" -- --out "$tmp/run" --resume auto
finish
