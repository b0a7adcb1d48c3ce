#!/usr/bin/env bash
# Options that are gone: each is answered with what to write instead, on the command line, in a
# file and as a variable; an older run whose options.yaml has them goes on.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# NAME|its default|what is said, a row of the table each; all of them are
gone=$(sed -nE '/dt_option_gone gone/,/^};/s/^    \{"([a-z_]*)", "([^"]*)", (NULL|"[a-z_]*"), "([^"]*)"\},/\1|\2|\4/p' "$DTRAIN_SOURCE/src/options/options.c")
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
    printf '%s: "%s"\n' "$name" "$other" >>"$tmp/others.yaml"
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

# numbers that were apart are behind their words now; without its number a word has the usual one
accepts "${tiny[@]}" --epochs 2 --out "$tmp/scaled" --lr-scale linear:32
cp "$tmp/scaled/options.yaml" "$tmp/now.yaml"
older() { sed "s/^lr_scale: .*/lr_scale: linear$1/" "$tmp/now.yaml" >"$tmp/scaled/options.yaml"; }
older "\nlr_batch: 32"
accepts verify "$tmp/scaled"
accepts --out "$tmp/scaled" --resume auto --max-steps 2
must grep -q '^lr_scale: .*linear:32' "$tmp/scaled/options.yaml"
older ""
gives 78 "$DTRAIN_BIN" --out "$tmp/scaled" --resume auto --max-steps 3
must grep -q "lr_scale: the checkpoint has 'linear:32', now 'linear:256'" "$tmp/stderr"
DT_SPLIT_NODES=two ranks=2 refuses 78 "DT_SPLIT_NODES=two: give a number of nodes" -- "${tiny[@]}"
DT_SPLIT_NODES=2 accepts --help
ranks=1 refuses 78 "--strategy auto measures steps" -- plan --net vgg11 --ranks 4 --strategy auto
refuses 78 "parallel_mode: auto" -- "${tiny[@]}" --strategy "auto @f.yaml"
finish
