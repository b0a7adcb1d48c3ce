#!/usr/bin/env bash
# Files for other programs. ONNX: the graph, run by the operators' definitions in plain Python, has
# eval's loss. MindSpore's .ckpt: there and back, and what its optimiser keeps is passed over.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
export PYTHONPATH=$DTRAIN_SOURCE/tests/support PYTHONDONTWRITEBYTECODE=1

python3 - "$tmp/images" <<'IMAGES'
import os, random, struct, sys, zlib
random.seed(1)
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for part in "train", "test":
    for kind in "a", "b":
        os.makedirs(f"{sys.argv[1]}/{part}/{kind}")
        for i in range(1 if part == "test" else 4):
            rows = b"".join(b"\0" + random.randbytes(3 * 32) for y in range(32))
            head = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
            with open(f"{sys.argv[1]}/{part}/{kind}/{i}.png", "wb") as f:
                f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
IMAGES

# the loss of the two test images by the logits of a graph
loss='import math, sys
rows = [list(map(float, line.split())) for line in sys.stdin]
print(sum(math.log(sum(map(math.exp, r))) - r[i] for i, r in enumerate(rows)) / len(rows))'
near() { # A B: as numbers of float32
    python3 -c 'import sys; a, b = (float(x or "nan") for x in sys.argv[1:]); sys.exit(not abs(a - b) <= 1e-5 * abs(b))' "$1" "$2"
}
graph_loss() { # FILE.onnx
    python3 "$PYTHONPATH/onnx_run.py" "$1" "$tmp"/images/test/[ab]/0.png | python3 -c "$loss"
}
small=("${tiny[@]}" --data "$tmp/images" --global-batch 4 --batch auto --max-steps 2 --precision fp32 --lr 0.01)
for net in "vgg11 - -" "vgg11 wide imagenet" "mlp - -" "resnet9 - -" "airbench - -" "resnet50 mindspore imagenet" \
        "resnet50 torchvision imagenet" "resnet50 torchvision cifar"; do
    read -r name variant stem <<<"$net"
    divisor=64
    [ "$variant" = - ] && divisor=16 && variant=mindspore stem=imagenet
    run=$tmp/$name-$variant-$stem
    scale=1
    [ "$name" != resnet9 ] || scale=0.125
    accepts "${small[@]}" --net "$name" --logit-scale "$scale" --variant "$variant" --stem "$stem" --image-size 32 \
        --width-divisor "$divisor" --out "$run"
    accepts convert "$run" --out "$run.onnx"
    accepts eval "$run" --data "$tmp/images" --precision fp32 --json
    said=$(sed 's/.*"test_loss": *//; s/,.*//' "$tmp/stdout")
    must near "$(graph_loss "$run.onnx")" "$said"
done
# the reader of graphs sees one byte of a weight, and other strides
python3 - "$run.onnx" "$tmp" <<'END'
import sys
data = open(sys.argv[1], "rb").read()
at = data.index(b"fc.weight\x4a") + 10 # its numbers: a length, then the first
while data[at] > 127: at += 1
sign, strides = at + 4, data.index(b"strides\x40\x02\x40\x02")
for name, where, new in ("weight", sign, bytes([data[sign] ^ 128])), ("strides", strides, b"strides\x40\x02\x40\x01"):
    open(f"{sys.argv[2]}/{name}.onnx", "wb").write(data[:where] + new + data[where + len(new):])
END
for change in weight strides; do
    must test -s "$tmp/$change.onnx"
    if near "$(graph_loss "$tmp/$change.onnx" 2>/dev/null)" "$said"; then complain "onnx_run.py does not see: $change"; fi
done

# .ckpt: an independent reader, and back; then with what MindSpore's optimiser and checksum add
run=$tmp/resnet50-mindspore-imagenet
net=(--net resnet50 --image-size 32 --width-divisor 64)
accepts convert "$run" --out "$tmp/a.ckpt"
accepts convert "$run" --names mindspore --out "$tmp/a"
check=$(python3 - "$tmp/a.ckpt" "$tmp/a" "$tmp/b.ckpt" <<'END'
import json, struct, sys
from protobuf import fields
data, file = (open(p, "rb").read() for p in sys.argv[1:3])
n = struct.unpack("<Q", file[:8])[0]
want = json.loads(file[8:8 + n])
want.pop("__metadata__")
for value in map(fields, fields(data)[1]):
    tensor, has = fields(value[2][0]), want.pop(value[1][0].decode())
    begin, end = has["data_offsets"]
    assert tensor == {1: has["shape"], 2: [b"Float32"], 3: [file[8 + n + begin:8 + n + end]]}
assert not want
def field(number, data): return bytes([number << 3 | 2, len(data)]) + data
def value(tag, dims, kind, data): return field(1, field(1, tag) + field(2, dims + field(2, kind) + field(3, data)))
more = value(b"learning_rate", b"", b"Float32", bytes(4)) + value(b"epoch_num", b"\x08\x01", b"Int32", bytes(4))
for of in b"moments moment1 moment2 accum stat".split(): more += value(of + b".conv1.weight", field(1, b"\x02\x01"), b"Float32", bytes(8)) # packed
open(sys.argv[3], "wb").write(more + data + b"crc_num" + bytes(10))
print("right")
END
)
must test "$check" = right
numbers() { # of a safetensors file, without its header
    python3 -c 'import sys; d = open(sys.argv[1], "rb").read(); sys.stdout.buffer.write(d[8 + d[0] + 256 * d[1] + 65536 * d[2]:])' "$1"
}
for name in a b; do
    accepts convert "$tmp/$name.ckpt" "${net[@]}" --normalize tutorial --names mindspore --out "$tmp/$name.back"
    must grep -q "does not say for which network" "$tmp/stderr"
    must cmp <(numbers "$tmp/$name.back") <(numbers "$tmp/a")
done
accepts "${small[@]}" "${net[@]}" --init "$tmp/a.ckpt" --max-steps 1 --out "$tmp/begun"

# other words for it, and what there is not
accepts convert "$run" --to onnx --out "$tmp/x"
must cmp "$tmp/x" "$run.onnx"
accepts convert "$run" --names torchvision --out "$tmp/named"
must grep -q "warning: the weights are of --variant mindspore" "$tmp/stderr"
must grep -q "a network that has these names" "$tmp/stdout"
accepts convert "$run" --out "$tmp/it's.new"
must grep -qF "load_file('$tmp/it\\'s.new')" "$tmp/stdout"
ranks=1
refuses 64 "x.pth" "torch.save(" -- convert "$run" --out "$tmp/x.pth"
cp "$run/model.safetensors" "$tmp/x.pt" # a name says nothing
accepts convert "$tmp/x.pt" --out "$tmp/x.new"
for begin in 'PK\3\4' '\200\2\212\12'; do # torch.save, new and old
    printf "$begin%060d" 0 >"$tmp/x.bin"
    refuses 65 "x.bin" "d = torch.load(" -- eval "$tmp/x.bin" --data synthetic:64
done
refuses 78 "vgg11" "mindspore" -- convert "$tmp/vgg11-mindspore-imagenet/model.safetensors" --out "$tmp/x.ckpt"
head -c 3000 "$tmp/a.ckpt" >"$tmp/cut.ckpt"
refuses 65 "cut.ckpt" "longer than what holds it" -- convert "$tmp/cut.ckpt" "${net[@]}" --out "$tmp/no"
accepts convert "$run" --to onnx-raw --out "$tmp/raw.onnx"
must grep -q "numpy.float32 \[N, 3, .*\], normalised" "$tmp/stdout"
must test "$(grep -ac image.normalised "$tmp/raw.onnx")" = 0 -a "$(grep -ac image.normalised "$run.onnx")" -gt 0
finish
