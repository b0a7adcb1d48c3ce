#!/usr/bin/env bash
# --ema, --lookahead and --holdout: the bits of a run do not depend on ranks and stops, averages are
# those of what each step trained, and what is tested is what is saved. And a recipe of airbench:
# what is frozen stays, the first bias after three epochs.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 99; }
run=("${tiny[@]}" --data synthetic:96 --max-steps 5 --ema 0.75 --holdout 32 --keep-last 9 --save-every 1)
accepts "${run[@]}" --out "$tmp/one"
must grep -q '64 training and 32 held-out images' "$tmp/stdout"
must grep -q '"held_out":true' "$tmp/one/metrics.jsonl"
accepts_on 3 "${run[@]}" --exchange shared --out "$tmp/three"
equal "$(hashes "$tmp/one")" "$(hashes "$tmp/three")"
for steps in 3 5; do # the second goes on from the first's checkpoint
    accepts_on 2 "${run[@]}" --exchange tree --out "$tmp/cut" --resume auto --max-steps "$steps"
done
equal "$(hashes "$tmp/one")" "$(hashes "$tmp/cut")"
must python3 - "$tmp/one" <<'END'
import glob, json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + n]).items():
        if t.get("dtype") == "F32":
            a, b = t["data_offsets"]
            yield name, struct.unpack(f"<{(b - a) // 4}f", data[8 + n + a:8 + n + b])
want, moved = {}, 0
for step in range(1, 6):
    folder = max(glob.glob(f"{sys.argv[1]}/checkpoints/step-{step:010}*"))
    for name, w in tensors(folder + "/trained.safetensors"):
        want[name] = [0.75 * a + 0.25 * b for a, b in zip(want.get(name, w), w)]
        moved = max([moved] + [abs(a - b) for a, b in zip(want[name], w)])
    for name, got in tensors(folder + "/model.safetensors"):
        assert all(abs(a - b) <= 1e-6 * (abs(b) + 1) for a, b in zip(got, want[name])), (step, name)
assert moved > 1e-3, "the averages differ from what is trained"
END
accepts eval "$tmp/one" --json
must python3 - "$tmp/stdout" "$tmp/one/metrics.jsonl" <<'END'
import json, sys
said = json.load(open(sys.argv[1]))
last = [m for m in map(json.loads, open(sys.argv[2])) if m["kind"] == "epoch"][-1]
assert said["held_out"] and said["images"] == 32 and said["test_loss"] == last["test_loss"], (said, last)
END
accepts eval "$tmp/one" --holdout 0
must grep -qE '^test loss .* of 256\)' "$tmp/stdout"
accepts verify "$tmp/one"
cp -r "$tmp/one" "$tmp/torn"
rm "$tmp"/torn/checkpoints/*5-2/trained.safetensors
refuses 65 trained.safetensors -- verify "$tmp/torn"
refuses 78 "ema" -- "${run[@]}" --ema 0 --out "$tmp/one" --resume auto
refuses 78 "holdout 96" -- "${run[@]}" --holdout 96
refuses 78 "leave one out" -- "${tiny[@]}" --ema 0.5 --lookahead 2

air=("${tiny[@]}" --net airbench --epochs 4 --max-steps 8 --schedule-steps 8 --lookahead 4 --augment airbench --schedule triangle --peak 0.23
    --lr 0.02 --momentum 0.85 --nesterov --weight-decay 0.002 --decay decoupled --norm-bias-rate 64 --label-smoothing 0.2
    --save-every 1 --keep-last 9)
accepts "${air[@]}" --out "$tmp/air"
for np in 2 3 8; do
    accepts_on $np "${air[@]}" --threads 2 --out "$tmp/air$np"
    equal "$(hashes "$tmp/air")" "$(hashes "$tmp/air$np")"
done
for steps in 3 5 8; do
    accepts_on 2 "${air[@]}" --out "$tmp/again" --resume auto --max-steps "$steps"
done
equal "$(hashes "$tmp/air")" "$(hashes "$tmp/again")"
accepts "${air[@]}" --out "$tmp/none" --lookahead 0
accepts "${air[@]}" --out "$tmp/none0" --max-steps 0
must python3 - "$tmp"/{air,none,none0} <<'END'
import glob, json, struct, sys
def tensors(step, name, run=1):
    data = open(max(glob.glob(f"{sys.argv[run]}/checkpoints/step-{step:010}*")) + f"/{name}.safetensors", "rb").read()
    n = 8 + int.from_bytes(data[:8], "little")
    return {k: data[n + t["data_offsets"][0]:n + t["data_offsets"][1]] for k, t in json.loads(data[8:n]).items()
            if t.get("dtype") == "F32"}
w = {step: tensors(step, "trained") for step in range(1, 9)}
assert all(len({v[k] for v in w.values()}) == 1 for k in w[1] if k == "whiten.weight" or k.endswith(("norm1.weight", "norm2.weight")))
assert w[6]["whiten.bias"] == w[7]["whiten.bias"] and len({w[s]["whiten.bias"] for s in (1, 2, 3, 5, 6)}) == 5
for step in range(1, 9): # every fourth step the weights are the average, which stays in between
    assert (w[step] == tensors(step, "model")) == (step % 4 == 0), step
first, then, met = tensors(0, "model", 3), tensors(4, "model", 2), tensors(4, "model")
numbers = lambda raw: struct.unpack(f"<{len(raw) // 4}f", raw)
for k in met: # D is 0.95^5 after the whole run, and an eighth of it after half
    for a, x, y in zip(numbers(first[k]), numbers(then[k]), numbers(met[k])):
        assert abs(a + (1 - 0.95**5 / 8) * (x - a) - y) <= 1e-6 * (1 + abs(y)), (k, a, x, y)
assert tensors(5, "model") == tensors(7, "model") == w[4] and len({v["layer1.conv1.weight"] for v in w.values()}) == 8
END
accepts eval "$tmp/air" --tta crops --json
must grep -q tta_crops_accuracy "$tmp/stdout"
accepts eval "$tmp/air" --tta crops
must grep -q 'with mirror images and crops ' "$tmp/stdout"
finish
