#!/usr/bin/env bash
# Little memory, stack or files (ulimit): a command does what it should or says what is missing, and
# ends.
. "$DTRAIN_SOURCE/tests/support/cli.bash"
unset GOMP_SPINCOUNT # as users start it: it starts itself once more
if [ -n "${ASAN_OPTIONS:-}" ]; then
    echo "SKIPPED: address space: sanitizers map terabytes"
    exit 99
fi

for limit_of in "-v 450000" "-d 450000" "-s 512" "-n 60"; do
    bounded bash -c "ulimit $limit_of; exec \"\$@\"" - "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/refused"
    cases=$((cases + 1))
    { [ "$code" = 71 ] && grep -q -- "ulimit ${limit_of% *}" "$tmp/stderr" && [ "$(wc -l <"$tmp/stderr")" = 1 ]; } ||
        complain "training with ulimit $limit_of"
done
must test ! -e "$tmp/refused"
gives 71 bash -c 'ulimit -f 40; exec "$@"' - "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/large" # KiB
must grep -q "^dtrain: cannot write $tmp/large/model.safetensors .*(ulimit -f)" "$tmp/stderr"
# A training's libraries, threads and kernels take room of their own.
for mib in 550 800 1000; do
    for net in vgg11 resnet50; do
        bounded bash -c "ulimit -v $((mib * 1024)); exec \"\$@\"" - "$DTRAIN_BIN" "${tiny[@]}" \
            --net "$net" --image-size 32 --threads 2 --out "$tmp/run-$net-$mib"
        exits "0|71|127" "training $net within $mib MiB"
    done
done
finish
