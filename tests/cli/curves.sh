#!/usr/bin/env bash
# Curves of losses: three epochs of a narrow VGG11 and ResNet-50 in float32 end, at each tenth step and in
# each epoch, with the losses and accuracies that were recorded once, to the last digit, on one rank and on
# three. On synthetic images always; on CIFAR-10 where it is: in DTRAIN_CIFAR10 or ./cifar-10-batches-bin
# of the source (scripts/get-cifar10).   usage: curves.sh [record], which writes the recorded files anew
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
recorded=$DTRAIN_SOURCE/tests/golden/curves

# curve FOLDER: a line for each tenth step, and each epoch
curve() {
    sed -nE -e 's/^\{"kind":"step","epoch":([0-9]+),"step":([0-9]*[05]),"loss":([^,]*),.*/step \2: loss \3/p' \
        -e 's/^\{"kind":"epoch","epoch":([0-9]+),"train_loss":([^,]*),"test_loss":([^,]*),"test_accuracy":([^,]*),.*/epoch \1: train loss \2, test loss \3, test accuracy \4/p' \
        "$1/metrics.jsonl" | grep -E '^epoch|^step [0-9]*0:'
}

# holds NAME ARGS...: at two numbers of ranks
holds() {
    local name=$1 np
    shift
    for np in 1 3; do
        [ -z "${ASAN_OPTIONS:-}" ] || [ $np = 3 ] || continue # it takes them long
        rm -rf "$tmp/run"
        accepts_on $np "$@" --precision fp32 --shards 4 --threads 1 --epochs 3 --save-every 0 --out "$tmp/run"
        curve "$tmp/run" >"$tmp/curve"
        must test "$(wc -l <"$tmp/curve")" -ge 6
        [ "${record:-}" != record ] || cp "$tmp/curve" "$recorded/$name"
        must diff "$recorded/$name" "$tmp/curve"
    done
}
record=${1:-}
vgg11=(--net vgg11 --width-divisor 16 --lr 0.02)
resnet50=(--net resnet50 --image-size 32 --width-divisor 16 --lr 0.02)
holds vgg11-synthetic "${vgg11[@]}" --data synthetic:640 --global-batch 32
holds resnet50-synthetic "${resnet50[@]}" --data synthetic:1280 --global-batch 32

# the bytes say which copy it is: each has its own curves
data=
for folder in "${DTRAIN_CIFAR10:-}" "$DTRAIN_SOURCE"/{,data/}cifar-10-batches-bin; do
    [ -z "$data" ] && [ -e "$folder/data_batch_1.bin" ] && data=$folder
done
case $([ -z "$data" ] || sha256sum <"$data/data_batch_1.bin") in # data/README.md has them
cee916563c9f*) copy=original ;;
58385bbb3ed4*) copy=jpeg ;;
*) copy= ;;
esac
if [ -n "$copy" ] && { [ -e "$recorded/vgg11-$copy" ] || [ "$record" = record ]; }; then
    small=(--data "$data" --subset 1536 --holdout 256 --global-batch 32)
    holds "vgg11-$copy" "${vgg11[@]}" "${small[@]}"
    holds "resnet50-$copy" "${resnet50[@]}" "${small[@]}"
elif [ -n "$data" ]; then
    echo "SKIPPED: CIFAR-10: other bytes than those of the recorded curves"
else
    echo "SKIPPED: CIFAR-10: not here"
fi
finish
