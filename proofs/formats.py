#!/usr/bin/env python3
"""Files for other programs, read by these programs.

    usage: proofs/formats.py [DTRAIN]     default: build/release/dtrain
    needs: pip install numpy pillow torch torchvision safetensors onnx onnxruntime tensorboard
           (mindspore, where it installs: its part is left out without it)

ONNX: onnx.checker passes, ONNX Runtime's logits are those of PyTorch's networks with the
tensors of `convert`, and their mean loss is `eval`'s in float32, for each network but airbench, variant, stem and two sizes.
.ckpt: MindSpore reads it, and what MindSpore writes comes back. TensorBoard: every scalar once,
also after a kill and a resume, and while a reader has the older file open. --save-shards: PyTorch reads and merges
every tensor, and the files' numbers add up to the whole's. Exit code 1: not so.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types

import numpy
import onnx
import onnxruntime
import safetensors.torch
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, here + "/bench")
import pytorch as networks  # noqa: E402  bench/pytorch.py
binary = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else here + "/build/release/dtrain"
wrong = 0

# Without it a torchvision that was built for another torch lacks nothing but its own operators.
sys.modules["torchvision._meta_registrations"] = types.ModuleType("none")
import torchvision  # noqa: E402


def dtrain(*words):
    out = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(f"dtrain {' '.join(words)}: {out.returncode}\n{out.stderr}")
    return out.stdout


def check(name, good, text=""):
    global wrong
    wrong += not good
    print("ok " if good else "BAD", name, text, flush=True)


def pictures(folder, size, count=4):
    """Smooth random images of two classes; returns those of the test as float32 NCHW in 0 to 1."""
    rng = numpy.random.default_rng(size)
    images, labels = [], []
    for part in "train", "test":
        for label, kind in enumerate(("a", "b")):
            os.makedirs(f"{folder}/{part}/{kind}")
            for i in range(count):
                small = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=numpy.uint8))
                image = small.resize((size, size), Image.BICUBIC)
                image.save(f"{folder}/{part}/{kind}/{i}.png")
                if part == "test":
                    images.append(numpy.asarray(image, dtype=numpy.float32).transpose(2, 0, 1) / 255)
                    labels.append(label)
    return numpy.stack(images), numpy.array(labels)


def same(size, kernel):
    """MindSpore's pad_mode "same" for stride 2: what is uneven goes below and to the right."""
    pad = max((-(-size // 2) - 1) * 2 + kernel - size, 0)
    return nn.ZeroPad2d((pad // 2, pad - pad // 2) * 2)


def vgg11(cs744):
    layers, inputs = [], 3
    for c in 64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0:
        layers += [nn.Conv2d(inputs, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU()] if c else [nn.MaxPool2d(2)]
        inputs = c or inputs
    first, last = ("layers", "fc1") if cs744 else ("features", "classifier")
    return nn.Sequential(collections.OrderedDict([
        (first, nn.Sequential(*layers)), ("pool", nn.AdaptiveAvgPool2d(1)), ("flat", nn.Flatten()),
        (last, nn.Linear(512, 2))]))


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.res1, self.res2 = conv_bn(c, c), conv_bn(c, c)

    def forward(self, x):
        return x + self.res2(self.res1(x))


def conv_bn(inputs, outputs, **more):
    return nn.Sequential(collections.OrderedDict(
        conv=nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), bn=nn.BatchNorm2d(outputs), relu=nn.ReLU(), **more))


def resnet9():
    def pool():
        return nn.MaxPool2d(2)
    return nn.Sequential(collections.OrderedDict(
        prep=conv_bn(3, 64), layer1=conv_bn(64, 128, pool=pool(), residual=Residual(128)),
        layer2=conv_bn(128, 256, pool=pool()), layer3=conv_bn(256, 512, pool=pool(), residual=Residual(512)),
        pool=nn.AdaptiveMaxPool2d(1), flat=nn.Flatten(), linear=nn.Linear(512, 2, bias=False)))


def torch_logits(file, options, size, images):
    """The logits of PyTorch's network with the file's tensors."""
    if "wide" in options and size == 224:
        net = torchvision.models.vgg11_bn(num_classes=2)
    elif "wide" in options or "mlp" in options:
        net = networks.network(options[1], options[-1], classes=2, image_size=size)
    elif "vgg11" in options:
        net = vgg11(file.endswith("cs744"))
    elif "resnet9" in options:
        net = resnet9()
    else:
        net = torchvision.models.resnet50(num_classes=2)
    if "cifar" in options:
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    if "mindspore" in options:
        for block in (m for m in net.modules() if hasattr(m, "conv3")):
            block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    net.load_state_dict(safetensors.torch.load_file(file))
    if "mindspore" in options and "imagenet" in options:
        net.conv1.padding = 0, 0
        net.conv1 = nn.Sequential(same(size, 7), net.conv1)
        net.maxpool = nn.Sequential(same((size + 1) // 2, 3), nn.MaxPool2d(3, 2))
    with safetensors.safe_open(file, "pt") as f:
        scale = float(f.metadata().get("dtrain.logit_scale", 1))
        mean, std = (torch.tensor(json.loads(f.metadata()["dtrain." + k])).view(3, 1, 1) for k in ("mean", "std"))
    net.eval()
    with torch.no_grad():
        return scale * net((torch.from_numpy(images) - mean) / std).numpy()


def network(dir, size, options):
    name = f"{' '.join(options)} {size}"
    data, run = f"{dir}/data", f"{dir}/run"
    images, labels = pictures(data, size)
    dtrain("--data", data, "--image-size", str(size), *options, "--global-batch", "4", "--batch",
           "auto", "--max-steps", "3", "--lr", "0.001", "--precision", "fp32", "--out", run)
    for extra in [], ["--to", "onnx-raw"]:
        file = f"{dir}/{len(extra)}.onnx"
        dtrain("convert", run, "--out", file, *extra)
        model = onnx.load(file)
        onnx.checker.check_model(model, full_check=True)
        says = {p.key: p.value for p in model.metadata_props}
        x = images
        if extra:
            mean, std = (numpy.array(json.loads(says["dtrain." + k]), dtype=numpy.float32) for k in ("mean", "std"))
            x = (x - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1)
        onnxruntime.set_default_logger_severity(3)
        logits = onnxruntime.InferenceSession(file).run(None, {"image": x})[0].astype(numpy.float64)
        if extra:
            check(f"onnx raw {name}", numpy.allclose(logits, first, rtol=1e-5, atol=1e-5 * abs(first).max()))
        first = logits
    check(f"names {name}", json.loads(says["dtrain.class_names"]) == ["a", "b"])
    loss = (numpy.log(numpy.exp(logits).sum(1)) - logits[numpy.arange(len(labels)), labels]).mean()
    said = json.loads(dtrain("eval", run, "--data", data, "--precision", "fp32", "--json"))
    error = abs(loss - said["test_loss"]) / abs(said["test_loss"])
    check(f"onnx {name}", error < 1e-5, f"loss {loss:.8f}, eval {said['test_loss']}, relative {error:.1e}")
    file = f"{dir}/x.safetensors"
    dtrain("convert", run, "--out", file)
    theirs = torch_logits(file, options, size, images)
    error = abs(theirs - logits).max() / abs(logits).max()
    check(f"torch {name}", error < 2e-5, f"relative {error:.1e}")
    if options[-1] == "vgg11":
        dtrain("convert", run, "--names", "cs744", "--out", file + ".cs744")
        theirs = torch_logits(file + ".cs744", options, size, images)
        check(f"torch cs744 {name}", abs(theirs - logits).max() / abs(logits).max() < 2e-5)
    return run


def mindspore_part(dir, run):
    try:
        import mindspore
    except ImportError as e:
        print("skipped: mindspore:", e)
        return
    import safetensors.numpy
    dtrain("convert", run, "--out", f"{dir}/a.ckpt")
    dtrain("convert", run, "--names", "mindspore", "--out", f"{dir}/a.safetensors")
    read = mindspore.load_checkpoint(f"{dir}/a.ckpt")
    want = safetensors.numpy.load_file(f"{dir}/a.safetensors")
    check("ckpt out", set(read) == set(want) and all(numpy.array_equal(read[k].asnumpy(), want[k]) for k in want),
          f"{len(read)} tensors")
    more = {"moments.conv1.weight": read["conv1.weight"], "learning_rate": mindspore.Tensor(0.1),
            "epoch_num": mindspore.Tensor(3)}
    for crc in False, True:
        file = f"{dir}/crc{crc}.ckpt"
        mindspore.save_checkpoint([{"name": k, "data": v} for k, v in {**read, **more}.items()], file, crc_check=crc)
        dtrain("convert", file, "--net", "resnet50", "--image-size", "32", "--names", "mindspore", "--out", file + ".out")
        back = safetensors.numpy.load_file(file + ".out")
        check(f"ckpt in, checksum {crc}", all(numpy.array_equal(back[k], want[k]) for k in want))


def pieces_part(dir):
    """PyTorch reads and merges checkpoints of --save-shards."""
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
    recipe = ["--data", "synthetic:64", "--net", "vgg11", "--width-divisor", "8", "--global-batch", "32", "--batch", "auto",
              "--shards", "4", "--max-steps", "2", "--precision", "fp32", "--threads", "1", "--save-every", "9"]
    dtrain(*recipe, "--out", f"{dir}/whole")
    want = {kind: safetensors.torch.load_file(f"{dir}/whole/checkpoints/step-0000000002/{kind}.safetensors")
            for kind in ("model", "momentum")}
    for name, extra in ("home", []), ("cut", ["--strategy", "all=out", "--tensor-parallel", "2"]):
        dtrain("--np", "4", *recipe, *extra, "--save-shards", "--out", f"{dir}/{name}")
        for kind, tensors in want.items():
            folder = f"{dir}/{name}/checkpoints/step-0000000002" + ("/momentum" if kind == "momentum" else "")
            floats = {k: v for k, v in tensors.items() if v.is_floating_point()}
            got = {k: torch.zeros_like(v) for k, v in floats.items()}
            load(got, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
            check(f"{name} {kind} read", all(torch.equal(got[k], v) for k, v in floats.items()), f"{len(got)} tensors")
            merged = tempfile.mkdtemp(dir=dir)
            consolidate_safetensors_files(folder, merged, {k: 1 for k in floats})
            got = safetensors.torch.load_file(f"{merged}/model-00001-of-00001.safetensors")
            check(f"{name} {kind} merged", set(got) == set(floats) and all(torch.equal(got[k], v) for k, v in floats.items()))
            files = [f"{folder}/{f}" for f in os.listdir(folder) if f.startswith("shard-")]
            headers = sum(8 + int.from_bytes(open(f, "rb").read(8), "little") for f in files)
            check(f"{name} {kind} sizes", sum(map(os.path.getsize, files)) - headers == sum(4 * v.numel() for v in floats.values()),
                  f"{len(files)} files")


def scalars(folder):
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    return events, {t: [(s.step, numpy.float32(s.value)) for s in events.Scalars(t)] for t in events.Tags()["scalars"]}


def recorded(run):
    want, step = {}, 0
    for line in map(json.loads, open(f"{run}/metrics.jsonl")):
        step = line.get("step", step)
        for kind, key, tag in (("step", "loss", "loss/train"), ("step", "lr", "lr"),
                               ("step", "images_per_s", "images_per_s"), ("epoch", "test_loss", "loss/test"),
                               ("epoch", "test_accuracy", "accuracy/test")):
            if line["kind"] == kind and line[key] is not None:
                want.setdefault(tag, []).append((step, numpy.float32(line[key])))
    return want


def tensorboard_part(dir):
    run, logs = f"{dir}/t", f"{dir}/logs"
    words = [binary, "--data", "synthetic:512", "--net", "vgg11", "--width-divisor", "8", "--batch", "auto",
             "--global-batch", "16", "--epochs", "8", "--save-every", "10", "--out", run]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(f"{run}/metrics.jsonl") or len(open(f"{run}/metrics.jsonl").readlines()) < 45:
        time.sleep(0.02)
    watch = subprocess.Popen([binary, "tensorboard", run, "--out", logs, "--watch"], stdout=subprocess.DEVNULL)
    time.sleep(3)
    first.send_signal(signal.SIGKILL)
    first.wait()
    watch.wait()  # it has seen that the run is over
    check("tensorboard killed", scalars(f"{logs}/t")[1] == recorded(run), f"{len(recorded(run)['lr'])} steps")
    reader = scalars(f"{logs}/t")[0]
    again = subprocess.Popen([*words, "--resume", "auto"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    subprocess.run([binary, "tensorboard", run, "--out", logs, "--watch"], stdout=subprocess.DEVNULL, check=True)
    again.wait()
    subprocess.run([binary, "tensorboard", run, "--out", logs], stdout=subprocess.DEVNULL, check=True)
    check("tensorboard resumed", scalars(f"{logs}/t")[1] == recorded(run), f"{len(recorded(run)['lr'])} steps")
    reader.Reload()
    seen = {t: [s.step for s in reader.Scalars(t)] for t in reader.Tags()["scalars"]}
    check("tensorboard open reader", seen == {t: [s for s, _ in v] for t, v in recorded(run).items()})


with tempfile.TemporaryDirectory() as top:
    os.chdir(top)
    cases = [["--net", "vgg11"], ["--net", "vgg11", "--variant", "wide"], ["--net", "mlp"], ["--net", "resnet9"], ["--net", "resnet9", "--logit-scale", "0.125"]]
    cases += [["--net", "resnet50", "--variant", v, "--stem", s] for v in ("mindspore", "torchvision") for s in ("imagenet", "cifar")]
    last = None
    for number, (size, case) in enumerate((size, case) for size in (32, 33, 224) for case in cases):
        last = network(f"{top}/{number}", 135 if size == 224 and "resnet9" in case else size, case)
    mindspore_part(top, f"{top}/5/run")
    tensorboard_part(top)
    pieces_part(top)
print("wrong:", wrong)
sys.exit(wrong > 0)
