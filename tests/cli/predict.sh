#!/usr/bin/env bash
# What a trained model says of pictures, against what eval says of the same ones.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 99; }

# pictures FOLDER: two classes of noise, cats reddish and dogs bluish, of 20 x 16 pixels; and one of
# each class in FOLDER/odd, six times as large
python3 - "$tmp/data" <<'PY' || exit 1
import os, random, struct, sys, zlib
random.seed(1)
def png(path, width, height, colour, times=1, flip=False):
    small = [[[(c + random.randrange(96)) % 256 for c in colour] for _ in range(width)] for _ in range(height)]
    small = [row[::-1] for row in small] if flip else small
    rows = [[small[y // times][x // times] for x in range(width * times)] for y in range(height * times)]
    raw = b"".join(b"\0" + bytes(v for p in row for v in p) for row in rows)
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width * times, height * times, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
for name, colour in {"cat": (150, 40, 60), "dog": (60, 40, 150)}.items():
    for split, count in {"train": 16, "test": 5}.items():
        for i in range(count):
            png(f"{sys.argv[1]}/{split}/{name}/{i}.png", 20, 16, colour)
    state = random.getstate()
    png(f"{sys.argv[1]}/odd/{name}.png", 20, 16, colour)
    random.setstate(state)
    png(f"{sys.argv[1]}/large/{name}.png", 20, 16, colour, 6)
    state = random.getstate()
    for i in range(5):
        png(f"{sys.argv[1]}/left/test/{name}/{i}.png", 20, 16, colour)
    random.setstate(state)
    for i in range(5):
        png(f"{sys.argv[1]}/right/test/{name}/{i}.png", 20, 16, colour, flip=True)
PY
data=$tmp/data
accepts --data "$data" --net vgg11 --width-divisor 16 --batch 16 --shards 2 --precision fp32 --threads 1 \
    --epochs 8 --lr 0.05 --out "$tmp/run"

# the same pictures: the same accuracy, by class, too; with a run, its model and a checkpoint
accepts eval "$tmp/run" --data "$data" --precision fp32 --threads 1
right=$(sed -nE 's/.*\((.*)\)$/\1/p' "$tmp/stdout")
for model in "$tmp/run" "$tmp/run/model.safetensors" "$tmp"/run/checkpoints/step-*; do
    accepts predict "$model" "$data/test"
    must grep -qF "($right)" "$tmp/stdout"
    must test "$(grep -cE '/(cat|dog)/[0-4].png: (cat|dog) [0-9.]+ %, (cat|dog) [0-9.]+ %$' "$tmp/stdout")" = 10
    must test "$(grep -cE '^  (cat|dog) .* of 5\)$' "$tmp/stdout")" = 2
done

# a run's own data and precision unless others are given, which is said
accepts eval "$tmp/run"
must grep -qF "($right)" "$tmp/stdout"
must sh -c "! grep warning $tmp/stderr"
ln -s "$data/train" "$data/left/train"
ln -s "$data/train" "$data/right/train"
accepts eval "$tmp/run/model.safetensors" --data "$data/left"
must grep -q "trained with --data $data, the figures below are of $data/left" "$tmp/stderr"
mkdir "$tmp/swapped"
for split in train test; do
    mkdir "$tmp/swapped/$split"
    ln -s "$data/$split/cat" "$tmp/swapped/$split/wolf"
    ln -s "$data/$split/dog" "$tmp/swapped/$split/hound"
done
accepts eval "$tmp/run" --data "$tmp/swapped"
must grep -qF 'classes are ["cat","dog"], those of --data' "$tmp/stderr"
accepts summary "$tmp/run"
must grep -q "Network: vgg11, 32x32 images, batch 16" "$tmp/stdout"
accepts summary "$tmp/run/model.safetensors" --batch 3 --shards 1
must grep -q "batch 3$" "$tmp/stdout"

# mirror images: those of a folder and of its mirror image are the same, on any number of ranks
for side in left right; do
    for np in $ranks; do
        accepts_on "$np" eval "$tmp/run" --data "$data/$side" --tta flip --confusion --json
        cp "$tmp/stdout" "$tmp/$side.$np"
        must cmp "$tmp/$side.1" "$tmp/$side.$np"
    done
done
accepts eval "$tmp/run" --confusion --tta flip
must test "$(grep -cE '^(cat|dog) +[0-9]+ +[0-9]+ +[0-9.]+ %$' "$tmp/stdout")" = 2
must grep -qE '^with mirror images [0-9.]+ % \([0-9]+ of 10\)$' "$tmp/stdout"
accepts eval "$tmp/run" --json --confusion
must python3 - "$tmp/stdout" "$tmp/left.1" "$tmp/right.1" "$tmp/run/metrics.jsonl" <<'PY'
import json, sys
own, left, right = (json.load(open(f)) for f in sys.argv[1:4])
assert left["tta_flip_accuracy"] == right["tta_flip_accuracy"] and left["test_loss"] != right["test_loss"]
assert "tta_flip_accuracy" not in own
for e in (own, left, right):
    rows = e["confusion"]
    assert [sum(r) for r in rows] == [5, 5] and rows[0][0] + rows[1][1] == e["correct"]
    assert e["class_accuracy"] == [rows[c][c] / 5 for c in (0, 1)] and e["class_names"] == ["cat", "dog"]
tests = [m for m in map(json.loads, open(sys.argv[4])) if m["kind"] == "epoch"]
assert len(tests) == 8 and tests[-1]["class_accuracy"] == own["class_accuracy"]
assert all(abs(sum(t["class_accuracy"]) / 2 - t["test_accuracy"]) < 1e-6 for t in tests)
PY

# JSON: an object a line; probabilities fall and add up to 1
accepts predict "$tmp/run" "$data/test" --json
must python3 - "$tmp/stdout" <<'PY'
import json, sys
*answers, sums = map(json.loads, open(sys.argv[1]))
assert len(answers) == 10
for a in answers:
    p = a["probabilities"]
    assert set(a["classes"]) == {"cat", "dog"} and p == sorted(p, reverse=True) and abs(sum(p) - 1) < 1e-9
right = [a["file"].split("/")[-2] == a["classes"][0] for a in answers]
assert sums["correct"] == sum(right) and sums["images"] == 10 and sums["accuracy"] == sum(right) / 10
assert sum(sums["class_accuracy"].values()) / 2 == sums["accuracy"]
PY
accepts predict "$tmp/run" "$data/test/cat/1.png" --json --top 1
must grep -qE '"classes":\["(cat|dog)"\],"probabilities":\[[0-9.e-]+\]' "$tmp/stdout"

# pictures with every pixel 36 times say what the small ones say
accepts predict "$tmp/run" "$data/odd"
sed 's/.*odd//' "$tmp/stdout" >"$tmp/odd"
accepts predict "$tmp/run" "$data/large"
must diff "$tmp/odd" <(sed 's/.*large//' "$tmp/stdout")

# and eval says it, too: whatever size a folder's first picture has, it goes the same way
for size in odd large; do
    for class in cat dog; do
        mkdir -p "$tmp/of-$size/train/$class" "$tmp/of-$size/test/$class"
        cp "$data/$size/$class.png" "$tmp/of-$size/train/$class"
        cp "$data/$size/$class.png" "$tmp/of-$size/test/$class"
    done
    accepts eval "$tmp/run" --data "$tmp/of-$size" --json
    cp "$tmp/stdout" "$tmp/eval.$size"
done
must cmp "$tmp/eval.odd" "$tmp/eval.large"

# broken ones: a line each, the others are answered
head -c 200 "$data/odd/cat.png" >"$tmp/cut.png"
echo text >"$tmp/text.jpg"
for picture in "$tmp/cut.png" "$tmp/text.jpg"; do
    launch 1 predict "$tmp/run" "$data/odd/cat.png" "$picture" "$data/odd/dog.png"
    judge 65 "$picture" "$picture" # one line of stderr
    must diff "$tmp/odd" <(sed 's/.*odd//' "$tmp/stdout")
done
launch 1 predict "$tmp/run" "$tmp/cut.png" "$tmp/none.png" "$data/odd"
judge 65 "two broken ones"
must test "$(grep -cE 'cut.png|none.png' "$tmp/stderr")" = 2
must diff "$tmp/odd" <(sed 's/.*odd//' "$tmp/stdout")
# so does a folder that cannot be listed: it may hold some
mkdir -m 0 "$data/odd/closed"
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --bounding-set=-dac_override,-dac_read_search) # root may list all
bounded "${as[@]}" "$DTRAIN_BIN" predict "$tmp/run" "$data/odd"
judge 66 "a closed folder" odd/closed
must diff "$tmp/odd" <(sed 's/.*odd//' "$tmp/stdout")
rmdir "$data/odd/closed"
refuses 66 none.png -- predict "$tmp/run" "$tmp/none.png"
mkdir "$tmp/empty"
refuses 66 "holds no pictures" -- predict "$tmp/run" "$tmp/empty"
refuses 66 "$tmp/nothing" -- predict "$tmp/nothing" "$data/odd"
refuses 64 "missing argument" -- predict "$tmp/run"

# a model that names no classes has numbers
perl -0777 -pe 's/dtrain.class_names/dtrain.other_names/' "$tmp/run/model.safetensors" >"$tmp/other.safetensors"
accepts predict "$tmp/other.safetensors" "$data/odd/cat.png" --normalize tutorial --precision fp32
must grep -qE 'cat.png: [01] [0-9.]+ %, [01] ' "$tmp/stdout"

# Names of files and classes are a stranger's: what is no UTF-8, as half of a pair of UTF-16, or steers
# a terminal, is shown as question marks, also where a table cuts it.
strange=$(printf '\355\240\200\033[31m')
mkdir "$tmp/strange"
cp "$data/odd/cat.png" "$tmp/strange/$strange.png"
accepts predict "$tmp/run" "$tmp/strange" --json
must python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["file"].endswith("/????[31m.png")' "$tmp/stdout"
class=$(printf 'a cat of colour\303\251s')
for split in train test; do
    mkdir -p "$tmp/esc/$split/$class" "$tmp/esc/$split/dog"
    cp "$data/$split/cat"/* "$tmp/esc/$split/$class"
    cp "$data/$split/dog"/* "$tmp/esc/$split/dog"
done
accepts eval "$tmp/run" --data "$tmp/esc" --confusion
must grep -qE '^a cat of colour\?  ' "$tmp/stdout"
must python3 -c 'import sys; assert all(c >= " " or c == "\n" for c in open(sys.argv[1], encoding="utf-8").read())' "$tmp/stdout"

# links to the same folders, again and again
mkdir "$tmp/dag"
for i in {0..17}; do
    mkdir "$tmp/dag/$i"
    ln -s "../$((i + 1))" "$tmp/dag/$i/a"
    ln -s "../$((i + 1))" "$tmp/dag/$i/b"
done
cp -r "$data/odd" "$tmp/dag/18"
refuses 66 "more than 32768 folders" -- predict "$tmp/run" "$tmp/dag/0"

# a million classes, which only numbers name, in a file of 6 MB
python3 - "$tmp/million" <<'PY' || exit 1
import json, struct, sys
rows, at = 1000000, 0
head = {"__metadata__": {"dtrain.net": "mlp", "dtrain.normalize": "tutorial", "dtrain.image_size": "8", "dtrain.width_divisor": "64"}}
for name, shape in {"fc.bias": [2], "fc.weight": [2, 8], "input.bias": [8], "input.weight": [8, 192],
                    "output.bias": [rows], "output.weight": [rows, 2]}.items():
    size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    head[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
PY
must python3 - "$DTRAIN_BIN" predict "$tmp/million" "$data/odd/cat.png" <<'PY'
import resource, subprocess, sys
assert b"cat.png: 0 0.00 %" in subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
assert most < 1500, f"{most} MiB"
PY
finish
