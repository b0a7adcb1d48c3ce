#!/usr/bin/env bash
# dtrain average: the mean in float64, rounded once, checked by arithmetic elsewhere.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

for seed in 1 2 3; do
    accepts "${tiny[@]}" --seed "$seed" --max-steps "$seed" --out "$tmp/run$seed"
done
models=("$tmp/run1/model.safetensors" "$tmp/run2" "$tmp/run3/checkpoints/step-0000000003")

for np in $ranks; do
    touch "$tmp/started"
    launch "$np" average "${models[@]}" --out "$tmp/mean$np"
    judge 0 "np $np: average"
done
must cmp "$tmp/mean1" "$tmp/mean${ranks##* }"
accepts verify "$tmp/mean1"
accepts average "${models[0]}" --out "$tmp/same"
must cmp "$tmp/same" "${models[0]}" # the mean of one is that one
accepts eval --data synthetic:64 --model "$tmp/mean1"

check=$(python3 - "$tmp/mean1" "$tmp"/run[123]/model.safetensors <<'END'
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    about = header.pop("__metadata__")
    out = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        code = {"F32": "f", "I64": "q"}[t["dtype"]]
        raw = data[8 + n + begin:8 + n + end]
        out[name] = struct.unpack("<%d%s" % (len(raw) // struct.calcsize(code), code), raw)
    return out, about
mean, about = load(sys.argv[1])
parts = [load(p) for p in sys.argv[2:]]
assert about == parts[0][1]
single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
count = 0
for name, values in mean.items():
    if name.endswith("num_batches_tracked"):
        assert values == parts[-1][0][name] == (3,), name
        continue
    for i, value in enumerate(values):
        total = (parts[0][0][name][i] + parts[1][0][name][i]) + parts[2][0][name][i]
        assert value == single(total / 3), (name, i)
        count += 1
print("numbers", count > 30000)
END
)
must test "$check" = "numbers True"

ranks=1 # more of them have been seen to do the same

# another network, another normalisation, no output, no operand
accepts "${tiny[@]}" --width-divisor 32 --out "$tmp/narrow"
refuses 65 "does not fit the network vgg11" -- average "$tmp/run1" "$tmp/narrow" --out "$tmp/no"
accepts "${tiny[@]}" --normalize cifar --out "$tmp/other"
refuses 65 "--normalize" -- average "$tmp/run1" "$tmp/other" --out "$tmp/no"
must test ! -e "$tmp/no"
refuses 64 "--out FILE is missing" -- average "$tmp/run1" "$tmp/run2"
refuses 66 "$tmp/absent" -- average "$tmp/run1" "$tmp/absent" --out "$tmp/no"
refuses 73 "there is a folder" -- average "$tmp/run1" --out "$tmp"
must test -z "$(find "$tmp" -maxdepth 1 -name '*.tmp')"
finish
