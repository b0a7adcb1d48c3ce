#!/usr/bin/env bash
# Commands that only look: printed once on every rank count, with the true figures.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

prints 1 "Usage: dtrain" --help
prints 1 "dtrain 1." --version
prints 1 "(git $(sed -nE 's/.*DTRAIN_COMMIT "(.*)"/\1/p' "$DTRAIN_BUILD_DIR/generated/commit.h"))" version
prints 1 "Open MPI" version
prints 1 "epochs: 10" --print-config
prints 1 "cores_allowed" env

# sizes as published for these networks
prints 1 "Total params: 23,528,522" summary --image-size 64 --batch 2
prints 1 "Total params: 23,528,522" summary --variant torchvision --image-size 64 --batch 2
prints 1 "Total params: 23,520,842" summary --variant torchvision --stem cifar --batch 2
prints 1 "Total params: 9,231,114" summary --net vgg11 --batch 2
prints 1 "Total mult-adds (G): 0.15" summary --net vgg11 --batch 1
prints 1 "master weights" plan --net vgg11 --batch 2
accepts env
must grep -qE '^cores_allowed +[1-9]' "$tmp/stdout"

# a network that cannot be built
refuses 78 "vgg11" -- summary --net vgg11 --image-size 8

# a batch that cannot be: refused by its size, before any library sees it
for command in plan summary; do
    refuses 71 "12500000 images at a time need" -- "$command" --net vgg11 --global-batch 100000000 --shards 8
done
refuses 71 "1000 images at a time need" -- train --data synthetic:8000 --net vgg11 --global-batch 8000 \
    --shards 8 --image-size 1024 --threads 1 --stall-abort 0 # a slow disk or a busy core is no message

# help does not depend on a broken configuration
DTRAIN_CONFIG=/dev/null/none accepts --help
launch 1 --help
grep -q ' $' "$tmp/stdout" && complain "--help: a line ends with a space"
DTRAIN_CONFIG=/dev/null/none refuses 66 /dev/null/none -- summary

# results that cannot be written are not lost silently
"$DTRAIN_BIN" --help >/dev/full 2>"$tmp/stderr"
code=$?
judge 74 "--help > /dev/full" "standard output"
finish
