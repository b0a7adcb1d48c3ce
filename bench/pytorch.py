#!/usr/bin/env python3
"""The rival: how fast PyTorch runs dtrain's training step on this machine.

A step is forward, cross-entropy, backward and SGD (momentum 0.9, weight decay 1e-4) on
synthetic images that are made once. The networks are dtrain's own (src/model/net_*.c),
written as a PyTorch user would: proofs/golden.py takes them from here, so what is
timed is what dtrain's gradients are compared with.

    bench/pytorch.py --net vgg11    --batch 128 --threads 2 --tuned
    bench/pytorch.py --net resnet50 --batch 32  --threads 2 --tuned

--tuned is the fair rival: as installed, glibc maps and unmaps every large activation in
each step, which costs PyTorch up to half of its speed. It restarts this script with an
allocator that keeps its memory and asks for huge pages.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "68719476736",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
VGG11_LAYERS = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
RESNET50_BLOCKS = (3, 4, 6, 3)
VARIANTS = ("torchvision", "mindspore", "wide")
STEMS = ("imagenet", "cifar")


def same_pad(size, kernel, stride):
    """TensorFlow's "same": output ceil(size / stride), the odd one at the end."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Window(nn.Module):
    """A convolution or max pool behind explicit, possibly asymmetric padding."""

    def __init__(self, same, kernel, stride, fill):
        super().__init__()
        self.same, self.kernel, self.stride, self.fill = same, kernel, stride, fill

    def pad(self, x):
        """The padded input and the symmetric padding left for the operation itself."""
        if not self.same:
            return x, (self.kernel - 1) // 2
        top, bottom = same_pad(x.shape[2], self.kernel, self.stride)
        left, right = same_pad(x.shape[3], self.kernel, self.stride)
        if top == bottom == left == right and self.fill == 0:
            return x, top
        return F.pad(x, (left, right, top, bottom), value=self.fill), 0


class Conv(Window):
    def __init__(self, same, channels, out, kernel, stride):
        super().__init__(same, kernel, stride, 0.0)
        self.weight = nn.Parameter(torch.empty(out, channels, kernel, kernel))
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x, pad = self.pad(x)
        return F.conv2d(x, self.weight, stride=self.stride, padding=pad)


class MaxPool(Window):
    def __init__(self, same):
        super().__init__(same, 3, 2, float("-inf"))

    def forward(self, x):
        x, pad = self.pad(x)
        return F.max_pool2d(x, self.kernel, self.stride, pad)


class Bottleneck(nn.Module):
    """1x1 down to out/4, 3x3, 1x1 up to out, and the shortcut, projected in the first
    block of a stage. The stride is on the 3x3 (torchvision, v1.5) or on the first
    1x1 (mindspore, v1)."""

    def __init__(self, variant, channels, out, stride, project):
        super().__init__()
        same = variant == "mindspore"
        first, second = (stride, 1) if same else (1, stride)
        momentum = 0.01 if same else 0.1
        mid = out // 4
        self.conv1 = Conv(same, channels, mid, 1, first)
        self.bn1 = nn.BatchNorm2d(mid, momentum=momentum)
        self.conv2 = Conv(same, mid, mid, 3, second)
        self.bn2 = nn.BatchNorm2d(mid, momentum=momentum)
        self.conv3 = Conv(same, mid, out, 1, 1)
        self.bn3 = nn.BatchNorm2d(out, momentum=momentum)
        self.downsample = nn.Sequential(
            Conv(same, channels, out, 1, stride),
            nn.BatchNorm2d(out, momentum=momentum)) if project else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (self.downsample(x) if self.downsample else x), inplace=True)


class ResNet50(nn.Module):
    def __init__(self, variant="torchvision", stem="imagenet", classes=10, divisor=1):
        super().__init__()
        same, imagenet = variant == "mindspore", stem == "imagenet"
        channels = 64 // divisor
        self.conv1 = Conv(same, 3, channels, 7 if imagenet else 3, 2 if imagenet else 1)
        self.bn1 = nn.BatchNorm2d(channels, momentum=0.01 if same else 0.1)
        self.maxpool = MaxPool(same) if imagenet else nn.Identity()
        for stage, blocks in enumerate(RESNET50_BLOCKS):
            out = 4 * ((64 << stage) // divisor)
            layer = nn.Sequential()
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                layer.append(Bottleneck(variant, channels, out, stride, block == 0))
                channels = out
            setattr(self, f"layer{stage + 1}", layer)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class VGG11(nn.Module):
    """Configuration A with batch norm and one linear layer (CS744), or torchvision's three."""

    def __init__(self, classes=10, divisor=1, wide=False, image_size=32):
        super().__init__()
        self.features, channels = nn.Sequential(), 3
        for width in VGG11_LAYERS:
            if width == "M":
                self.features.append(nn.MaxPool2d(2, 2))
                continue
            self.features.append(nn.Conv2d(channels, width // divisor, 3, padding=1))
            channels = width // divisor
            self.features.append(nn.BatchNorm2d(channels))
            self.features.append(nn.ReLU(inplace=True))
        self.average = not wide
        self.classifier = nn.Sequential(
            nn.Linear(channels * (image_size // 32) ** 2, 4096 // divisor), nn.ReLU(), nn.Identity(),
            nn.Linear(4096 // divisor, 4096 // divisor), nn.ReLU(), nn.Identity(),
            nn.Linear(4096 // divisor, classes)) if wide else nn.Linear(channels, classes)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.mean((2, 3)) if self.average else x.flatten(1))


class MLP(nn.Module):
    """Three linear layers, the second 512 x 128."""

    def __init__(self, classes=10, divisor=1, image_size=32):
        super().__init__()
        self.input = nn.Linear(3 * image_size ** 2, 512 // divisor)
        self.fc = nn.Linear(512 // divisor, 128 // divisor)
        self.output = nn.Linear(128 // divisor, classes)

    def forward(self, x):
        return self.output(F.relu(self.fc(F.relu(self.input(x.flatten(1))))))


def conv_bn(channels, out):
    block = nn.Sequential()
    block.add_module("conv", nn.Conv2d(channels, out, 3, padding=1, bias=False))
    block.add_module("bn", nn.BatchNorm2d(out))
    block.add_module("relu", nn.ReLU())
    return block


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.res1, self.res2 = conv_bn(channels, channels), conv_bn(channels, channels)

    def forward(self, x):
        return x + self.res2(self.res1(x))


class ResNet9(nn.Module):
    """Page's network of DAWNBench, without its factor of 0.125 on the logits."""

    def __init__(self, classes=10, divisor=1):
        super().__init__()
        self.prep, channels = conv_bn(3, 64 // divisor), 64 // divisor
        for k, residual in enumerate((True, False, True), 1):
            layer = conv_bn(channels, 2 * channels)
            channels *= 2
            layer.add_module("pool", nn.MaxPool2d(2))
            if residual:
                layer.add_module("residual", Residual(channels))
            setattr(self, f"layer{k}", layer)
        self.linear = nn.Linear(channels, classes, bias=False)

    def forward(self, x):
        return self.linear(self.layer3(self.layer2(self.layer1(self.prep(x)))).amax((2, 3)))


class Airbench(nn.Module):
    """Keller Jordan's network (arXiv 2404.00498), without its factor of 1/9 on the logits."""

    def __init__(self, classes=10, divisor=1):
        super().__init__()
        self.whiten, channels = nn.Conv2d(3, 24, 2), 24
        nn.init.zeros_(self.whiten.bias)
        for k, width in enumerate((64, 256, 256), 1):
            layer = nn.Sequential()
            for i in (1, 2):
                layer.add_module(f"conv{i}", nn.Conv2d(channels, width // divisor, 3, padding=1, bias=False))
                weight = layer[-1].weight.data
                nn.init.dirac_(weight[:channels])  # a partial identity
                channels = width // divisor
                if i == 1:
                    layer.add_module("pool", nn.MaxPool2d(2))
                layer.add_module(f"norm{i}", nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4))
                layer.add_module(f"gelu{i}", nn.GELU())
            setattr(self, f"layer{k}", layer)
        self.linear = nn.Linear(channels, classes, bias=False)

    def frozen(self):
        return [self.whiten.weight, *(m.weight for m in self.modules() if isinstance(m, nn.BatchNorm2d))]

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.gelu(self.whiten(x)))))
        return self.linear(F.max_pool2d(x, x.shape[2:]).flatten(1))  # of equals the first, unlike amax


def network(net, variant="torchvision", stem="imagenet", classes=10, divisor=1, image_size=32):
    if net == "vgg11":
        return VGG11(classes, divisor, variant == "wide", image_size)
    if net == "mlp":
        return MLP(classes, divisor, image_size)
    if net == "resnet9":
        return ResNet9(classes, divisor)
    if net == "airbench":
        return Airbench(classes, divisor)
    return ResNet50(variant, stem, classes, divisor)


def tune_allocator():
    """Starts the program again unless its allocator is tuned already."""
    if any(os.environ.get(k) != v for k, v in TUNED.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **TUNED})


def measure(args):
    """Seconds of each measured step, and the last loss."""
    bf16 = args.precision == "bf16"
    layout = {"channels_last": torch.channels_last,
              "contiguous": torch.contiguous_format}[args.layout]
    model = network(args.net, args.variant, args.stem, image_size=args.image_size).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9,
                                weight_decay=1e-4, fused=args.fused)
    images = torch.randn(args.batch, 3, args.image_size, args.image_size)
    images = images.to(memory_format=layout)
    labels = torch.randint(0, 10, (args.batch,))

    seconds = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss_value = loss.item()
        seconds.append(time.perf_counter() - start)
    return seconds[args.warmup:], loss_value


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--net", choices=("vgg11", "resnet50", "resnet9", "airbench", "mlp"), default="vgg11")
    p.add_argument("--variant", choices=VARIANTS, default="torchvision")
    p.add_argument("--stem", choices=STEMS, default="imagenet")
    p.add_argument("--image-size", type=int, default=0,
                   help="default: 32 for vgg11 and the cifar stem, else 224")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--layout", choices=("channels_last", "contiguous"),
                   default="channels_last")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--steps", type=int, default=7)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--fused", action="store_true", help="PyTorch's fused SGD")
    p.add_argument("--tuned", action="store_true",
                   help="restart with a tuned allocator")
    args = p.parse_args()
    if args.image_size == 0:
        small = args.net != "resnet50" or args.stem == "cifar"
        args.image_size = 32 if small else 224
    return args


def main():
    args = parse_args()
    if args.tuned:
        tune_allocator()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    seconds, loss = measure(args)
    step = statistics.median(seconds)
    print(json.dumps({
        "framework": f"PyTorch {torch.__version__}", **vars(args),
        "images_per_s": round(args.batch / step, 2), "step_s": round(step, 4),
        "fastest_s": round(min(seconds), 4), "slowest_s": round(max(seconds), 4),
        "spread": round((max(seconds) - min(seconds)) / step, 4),
        "loss": round(loss, 4),
    }))


if __name__ == "__main__":
    main()
