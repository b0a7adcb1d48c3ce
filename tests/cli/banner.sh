#!/usr/bin/env bash
# The first lines of a run: eight at most, one for each fact, whatever the options and however
# they are given; options.yaml has all options.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

facts="network data training machine memory writes"
many=(--nesterov --weight-decay 0.001 --decay weights --warmup 0.5 --label-smoothing 0.1 --reduce sum
      --seed 77 --milestones 0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.85,0.9 --keep-last 3
      --keep-every 50 --bucket-mb 3 --momentum 0.8 --keep-best --save-every 5m
      --on-save-error stop --check-every 3 --gamma 0.3 --schedule step)
long=$tmp/$(printf 'a%.0s' $(seq 200))/$(printf 'b%.0s' $(seq 200))

# head FILE: what stands before the first step
head_of() { sed '/^epoch /,$d' "$1"; }

# shows NP OPTIONS... : at most eight lines, each fact once and in its place; where own products are
# plain C, a line between them says what is faster
shows() {
    local np=$1 fact
    shift
    rm -rf "$tmp/run" "${long:?}"
    accepts_on "$np" "${tiny[@]}" "$@"
    head_of "$tmp/stdout" >"$tmp/head"
    lines=$(wc -l <"$tmp/head")
    must test "$lines" -le 8
    must test "$(grep -v '^engine     own, in plain C here: ' "$tmp/head" | head -n 6 | cut -d ' ' -f 1 | tr '\n' ' ')" = "$facts "
    # nothing else is said, but by those who launch
    must test "$(grep -c "" "$tmp/stderr")" = 0
}

for np in 1 2; do
    shows $np --out "$tmp/run"
    must test "$lines" = 7 # width_divisor is no default
    must grep -qx "options    width_divisor=16" "$tmp/head"
    must grep -qx "writes to  $tmp/run" "$tmp/head"
    must grep -q "^machine    $np rank.* x 1 thread, fp32 " "$tmp/head"
    must grep -q "^training   1 step (of 10 epochs of 2 steps), 32 images each in 8 shards, learning rate 0.01 constant$" "$tmp/head"
    must grep -qx "data       synthetic:64: 64 training and 256 test images, 10 classes" "$tmp/head"
    must grep -q "^network    vgg11, .* images of 32 x 32 pixels$" "$tmp/head"
    must grep -qE "^memory     [0-9.]+ GiB of [0-9.]+ GiB free$" "$tmp/head"
    shows $np --out "$tmp/run" "${many[@]}"
    must test "$lines" = 7
    must grep -q "^options    .* nesterov=true .* save_every=5m " "$tmp/head"
    shows $np --out "$long" --weight-decay 0.5
    must grep -qx "writes to  $long" "$tmp/head"
    must grep -qx "options    width_divisor=16 weight_decay=0.5" "$tmp/head"
done

# what computes, by name and as the CPU's choice: bf16 where there are instructions for it
for isa in $(isas); do
    type=fp32
    [[ $isa != amx && $isa != avx512_bf16 ]] || type=bf16
    shows 1 --out "$tmp/run" --precision auto --isa "$isa"
    must grep -q "^machine    1 rank x 1 thread, $type ($isa), " "$tmp/head"
    DT_MAX_ISA=$isa shows 1 --out "$tmp/run" --precision auto
    must grep -q "^machine    1 rank x 1 thread, $type ($isa), " "$tmp/head"
done

# more ranks than cores: one line more, with what helps
cores=$(nproc)
shows $((cores + 1)) --out "$tmp/run"
must test "$lines" = 8
must grep -qx "cores      $cores for $((cores + 1)) ranks, which take turns: -np $cores --shards 8 has the same bits" "$tmp/head"
OMPI_MCA_hwloc_base_binding_policy=none shows 1 --out "$tmp/run"
must test "$(grep -c '^cores' "$tmp/head")" = 0

shows 1 --out "$tmp/run" --schedule cosine --schedule-steps 40
must grep -q "learning rate 0.01 cosine over 40 steps$" "$tmp/head"

# from a file: what differs is what counts, not where it was given
printf 'momentum: 0.5\nlr: 0.02\nseed: 1\n' >"$tmp/a.yaml"
shows 1 --out "$tmp/run" --config "$tmp/a.yaml"
must grep -qx "options    width_divisor=16 momentum=0.5" "$tmp/head"
must grep -q "learning rate 0.02 constant" "$tmp/head"

# all of it
must grep -qx "momentum: 0.5" "$tmp/run/options.yaml"
must grep -qx "keep_last: 2" "$tmp/run/options.yaml"

# what data take is free before they are there
if [ -z "${ASAN_OPTIONS:-}" ]; then # sanitizers map terabytes
    limit=1800 bounded bash -c 'ulimit -v 1100000; exec "$@"' - "$DTRAIN_BIN" "${tiny[@]}" \
        --data synthetic:200000 --out "$tmp/much"
    must test "$code" = 0
    must awk '/^memory/ { exit !($2 > 0.5 && $2 < $5 && $5 < 1.1) }' "$tmp/stdout"
fi

# what changes nothing is said: of those that are not the default
DTRAIN_STEPS=5 accepts "${tiny[@]}" --peak 0.3 --gamma 0.1 --out "$tmp/idle"
equal "$(sed -nE 's/^dtrain: warning: (.*) changes .*: it is for/\1/p' "$tmp/stderr" | tr '\n' ';')" "peak: 0.3 --schedule onecycle triangle;steps: 5 bench;"

# the styles that parsers read have it beside their output
accepts "${tiny[@]}" --out "$tmp/styled" --log-style mindspore
must test "$(head -n 1 "$tmp/stdout" | cut -d ' ' -f 1)" = epoch:
must test "$(cut -d ' ' -f 1 "$tmp/stderr" | tr '\n' ' ')" = "$facts options "
# The bar is for a terminal that has a width: not for those that mpirun gives its ranks
shown=("${tiny[@]}" --epochs 2 --max-steps 4)
mpirun -np 2 "$DTRAIN_BIN" "${shown[@]}" --out "$tmp/filed" >"$tmp/stdout" 2>&1 </dev/null
must test "$(grep -c '^epoch [12]/2: ' "$tmp/stdout")" = 2
must test "$(grep -c $'\033' "$tmp/stdout")" = 0
script -qec "stty columns 80; $(printf '%q ' "$DTRAIN_BIN" "${shown[@]}" --out "$tmp/shown")" /dev/null >"$tmp/stdout" 2>&1 </dev/null
must test "$(grep -c $'\033' "$tmp/stdout")" -gt 0

finish
