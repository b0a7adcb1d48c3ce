#!/usr/bin/env bash
# What auto leaves to the tutorial that a network is of: resolved, shown, saved with the run,
# and part of what a resumed run must not change.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

saved() { must grep -qx -- "$2" "$1/options.yaml"; }

accepts "${tiny[@]}" --variant mindspore --save-every 1 --out "$tmp/vgg" # it has no variants
saved "$tmp/vgg" 'loss_epsilon: 0'
saved "$tmp/vgg" 'resize: float'
resnet=("${tiny[@]}" --net resnet50 --image-size 32 --save-every 1)
accepts "${resnet[@]}" --out "$tmp/mindspore"
saved "$tmp/mindspore" 'loss_epsilon: 1.0e-24'
saved "$tmp/mindspore" 'resize: uint8'
accepts "${resnet[@]}" --variant torchvision --out "$tmp/torchvision"
saved "$tmp/torchvision" 'loss_epsilon: 0'
saved "$tmp/torchvision" 'resize: float'
accepts "${resnet[@]}" --loss-epsilon 0.001 --resize float --out "$tmp/other"
saved "$tmp/other" 'loss_epsilon: 0.001'
saved "$tmp/other" 'resize: float'

# what a run began with it keeps
accepts --out "$tmp/mindspore" --resume auto --threads 1 --max-steps 2
refuses 78 "loss_epsilon" "'1.0e-24', now '0'" -- \
    --out "$tmp/mindspore" --resume auto --threads 1 --loss-epsilon 0
refuses 78 "resize" "'uint8', now 'float'" -- \
    --out "$tmp/mindspore" --resume auto --threads 1 --resize float
refuses 78 "loss_epsilon" "'0', now '1.0e-24'" -- \
    --out "$tmp/vgg" --resume auto --threads 1 --loss-epsilon 1e-24

# enlarged images are others
enlarged=("${tiny[@]}" --net resnet50 --image-size 64)
weights() { accepts "${enlarged[@]}" "$@" && sed -n 's/^weights hash //p' "$tmp/stdout"; }
auto=$(weights --out "$tmp/auto")
must test -n "$auto"
must test "$auto" = "$(weights --resize uint8 --out "$tmp/uint8")"
must test "$auto" != "$(weights --resize float --out "$tmp/float")"

# and the loss is shown
accepts plan --net vgg11
must grep -q 'own log-sum-exp' "$tmp/stdout"
accepts plan --net resnet50 --image-size 32
must grep -q 'own log(p + 1e-24)' "$tmp/stdout"
finish
