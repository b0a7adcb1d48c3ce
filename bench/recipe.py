#!/usr/bin/env python3
"""The rival's learning: PyTorch trains by one of configs/, as dtrain does.

    bench/recipe.py --config configs/vgg11.yaml --epochs 1 --seed 3
    bench/recipe.py --config configs/cs744.yaml --shards 4 --precision fp32 --seed 3

Same images, batches of the same size, shards with batch-norm statistics of their own
(pooled into the running ones), black padding, schedule and update. Initial weights,
order, crops and flips are PyTorch's own, and runs are compared by their spread over
seeds; or they are dtrain's (--draws dtrain, needs xxhash), and in float32 every loss is
dtrain's until rounding has grown. Prints the mean loss of windows of steps (the first;
up to the 40th; forty each) and the test result; --losses writes the loss of each step.
"""
import argparse
import json
import math
import pathlib
import re
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import pytorch as networks

ROOT = pathlib.Path(__file__).resolve().parent.parent
STREAM_PERMUTATION, STREAM_AUGMENT = 2, 3  # src/base/base.h

NORMALIZE = {  # mean and deviation, R G B, of src/data/data.h
    "tutorial": ((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023)),
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cs744": ([x / 255 for x in (125.3, 123.0, 113.9)], [x / 255 for x in (63.0, 62.1, 66.7)]),
}
DEFAULTS = {"net": "resnet50", "variant": "mindspore", "stem": "imagenet", "lr": 0.01,
            "momentum": 0.9, "weight_decay": 0.0, "nesterov": False, "schedule": "constant",
            "peak": 0.2, "epochs": 10, "global_batch": 256, "normalize": "tutorial",
            "drop_remainder": True, "cutout": 0, "logit_scale": 1.0, "label_smoothing": 0.0}


def read_config(path):
    recipe = dict(DEFAULTS)
    for line in pathlib.Path(path).read_text().splitlines():
        found = re.match(r"(\w+): *([^#]*?) *(#.*)?$", line)
        if found and found[1] in DEFAULTS:
            kind = type(DEFAULTS[found[1]])
            recipe[found[1]] = found[2] == "true" if kind is bool else kind(found[2])
    return recipe


def read_images(files):
    raw = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in files])
    images = torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).copy())
    return images, torch.from_numpy(raw[:, 0].astype(np.int64))


class TorchDraws:
    """Weights as the model was made; order and windows from a generator."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def weights(self, model, recipe):
        pass

    def order(self, epoch, count):
        return torch.randperm(count, generator=self.generator)

    def windows(self, epoch, samples):
        n = len(samples)
        top, left = torch.randint(0, 9, (2, n), generator=self.generator)
        return top, left, torch.rand(n, generator=self.generator) < 0.5

    def holes(self, epoch, samples):
        return torch.randint(0, 32, (2, len(samples)), generator=self.generator)


class DtrainDraws:
    """What src/model and src/data draw, by the generator of proofs/golden.py."""

    def __init__(self, seed):
        sys.path.insert(0, str(ROOT / "proofs"))
        import golden
        self.golden, self.seed = golden, seed

    def weights(self, model, recipe):
        variant, tensor = recipe["variant"] if recipe["net"] == "resnet50" else "", 0
        for module in list(model.modules()):
            for leaf, p in module._parameters.items():
                if p is None:  # a convolution without bias
                    continue
                x = self.golden.draw_parameter(module, leaf, variant, self.seed, tensor)
                p.data.copy_(torch.from_numpy(x).view(p.shape))
                tensor += 1

    def order(self, epoch, count):
        i = np.arange(count)
        bits = self.golden.philox(self.seed, STREAM_PERMUTATION, epoch, i)[0]
        place = self.golden.below(bits, i.astype(np.uint64) + np.uint64(1)).astype(int)
        order = i.tolist()
        for k in range(count - 1, 0, -1):
            order[k], order[place[k]] = order[place[k]], order[k]
        return torch.tensor(order)

    def windows(self, epoch, samples):
        bits = self.golden.philox(self.seed, STREAM_AUGMENT, epoch, samples.numpy())
        top, left, flip = (torch.from_numpy(self.golden.below(b, n).astype(np.int64))
                           for b, n in zip(bits, (9, 9, 2)))
        return top, left, flip == 1

    def holes(self, epoch, samples):
        bits = self.golden.philox(self.seed, STREAM_AUGMENT, epoch, samples.numpy(), draw=1)
        return [torch.from_numpy(self.golden.below(b, 32).astype(np.int64)) for b in bits[:2]]


DRAWS = {"torch": TorchDraws, "dtrain": DtrainDraws}


def augmented(images, top, left, flip):
    """Crops of the images with 4 black pixels around them, mirrored or not."""
    n, at = len(images), torch.arange(32)
    columns = torch.where(flip[:, None], 31 - at, at) + left[:, None]
    rows = at + top[:, None]
    padded = F.pad(images, (4, 4, 4, 4))
    return padded[torch.arange(n)[:, None, None, None], torch.arange(3)[:, None, None],
                  rows[:, None, :, None], columns[:, None, None, :]]


def cutout(centres, size):
    """DeVries and Taylor's square as a mask: 0 in it, 1 outside."""
    inside = [(torch.arange(32) >= c[:, None] - size // 2)
              & (torch.arange(32) < c[:, None] - size // 2 + size) for c in centres]
    return 1 - (inside[0][:, None, :, None] & inside[1][:, None, None, :]).int()


class Statistics:
    """Running statistics of the whole batch, pooled over its shards, as dtrain has them.
    Of one shard PyTorch's own are the same, and cost no further pass."""

    def __init__(self, model, shards):
        pooled = model.modules() if shards > 1 else ()
        self.norms = [m for m in pooled if isinstance(m, nn.BatchNorm2d)]
        self.momentum = [m.momentum for m in self.norms]
        for m in self.norms:
            m.momentum = 0.0  # PyTorch leaves them alone
            m.sums = []
            m.register_forward_hook(self.keep)

    @staticmethod
    def keep(module, inputs, _):
        if module.training:
            x = inputs[0].detach().to(module.running_mean.dtype)
            module.sums.append((x.numel() / x.shape[1], x.mean((0, 2, 3)),
                                x.var((0, 2, 3), unbiased=False)))

    def update(self):
        for m, momentum in zip(self.norms, self.momentum):
            count = sum(n for n, _, _ in m.sums)
            mean = sum(n * mu for n, mu, _ in m.sums) / count
            m2 = sum(n * (v + (mu - mean) ** 2) for n, mu, v in m.sums)
            m.running_mean.lerp_(mean, momentum)
            m.running_var.lerp_(m2 / (count - 1), momentum)
            m.sums.clear()


def make_schedule(optimizer, recipe, steps, cycle_momentum):
    if recipe["schedule"] == "constant":
        return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1, total_iters=0)
    assert recipe["schedule"] == "onecycle", "constant and onecycle only"
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe["lr"], total_steps=steps, pct_start=recipe["peak"],
        cycle_momentum=cycle_momentum)


class Training:
    def __init__(self, args, recipe):
        self.args, self.recipe = args, recipe
        folder = pathlib.Path(args.data)
        self.images, self.labels = read_images(sorted(folder.glob("data_batch_*.bin")))
        self.test = read_images([folder / "test_batch.bin"])
        mean, std = NORMALIZE[recipe["normalize"]]
        self.mean, self.std = (torch.tensor(x).view(3, 1, 1) for x in (mean, std))
        torch.manual_seed(args.seed)
        self.draws = DRAWS[args.draws](args.seed)
        self.model = networks.network(recipe["net"], recipe["variant"], recipe["stem"],
                                      divisor=args.width_divisor)
        self.draws.weights(self.model, recipe)
        self.dtype = torch.float64 if args.precision == "fp64" else torch.float32
        self.model.to(self.dtype, memory_format=torch.channels_last)
        self.statistics = Statistics(self.model, args.shards)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=recipe["lr"], momentum=recipe["momentum"],
            weight_decay=recipe["weight_decay"], nesterov=recipe["nesterov"])
        whole = len(self.images) // recipe["global_batch"]
        rest = len(self.images) % recipe["global_batch"] and not recipe["drop_remainder"]
        self.steps = whole + bool(rest)
        self.schedule = make_schedule(self.optimizer, recipe,
                                      self.steps * recipe["epochs"], args.cycle_momentum)

    def logits(self, images, mask=1):
        x = (images.to(self.dtype) / 255 - self.mean) / self.std * mask
        x = x.contiguous(memory_format=torch.channels_last)
        bf16 = self.args.precision == "bf16"
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            return self.model(x).to(self.dtype) * self.recipe["logit_scale"]

    def step(self, epoch, sample):
        """One update; the mean loss before it."""
        loss_sum = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for shard in torch.tensor_split(sample, self.args.shards):
            windows = self.draws.windows(epoch, shard)
            size = self.recipe["cutout"]
            mask = cutout(self.draws.holes(epoch, shard), size) if size else 1
            logits = self.logits(augmented(self.images[shard], *windows), mask)
            loss = F.cross_entropy(logits, self.labels[shard], reduction="sum",
                                   label_smoothing=self.recipe["label_smoothing"])
            (loss / len(sample)).backward()
            loss_sum += loss.item()
        self.statistics.update()
        self.optimizer.step()
        self.schedule.step()
        return loss_sum / len(sample)

    def epoch(self, epoch, losses, most):
        self.model.train()
        order = self.draws.order(epoch, len(self.images))
        for sample in order.split(self.recipe["global_batch"])[:min(self.steps, most)]:
            losses.append(self.step(epoch, sample))
            if not math.isfinite(losses[-1]):
                raise SystemExit(f"the loss is {losses[-1]} at step {len(losses)}")

    def evaluate(self):
        self.model.eval()
        loss, right = 0.0, 0
        with torch.no_grad():
            for x, y in zip(*(t.split(500) for t in self.test)):
                logits = self.logits(x)
                loss += F.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
        return loss / len(self.test[1]), 100 * right / len(self.test[1])


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--config", required=True)
    p.add_argument("--data", default="cifar-10-batches-bin")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--shards", type=int, default=2)
    p.add_argument("--epochs", type=int, help="instead of the recipe's")
    p.add_argument("--precision", choices=("bf16", "fp32", "fp64"), default="bf16")
    p.add_argument("--width-divisor", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--draws", choices=DRAWS, default="torch")
    p.add_argument("--max-steps", type=int, default=10**9, help="end each epoch earlier")
    p.add_argument("--losses", help="a file for the loss of every step, a line each")
    p.add_argument("--cycle-momentum", action="store_true",
                   help="OneCycleLR's default, which dtrain does not do")
    p.add_argument("--tuned", action="store_true", help="restart with a tuned allocator")
    return p.parse_args()


def main():
    args = parse_args()
    if args.tuned:
        networks.tune_allocator()
    recipe = read_config(args.config)
    recipe["epochs"] = args.epochs or recipe["epochs"]
    torch.set_num_threads(args.threads)
    training = Training(args, recipe)
    for epoch in range(recipe["epochs"]):
        losses, start = [], time.perf_counter()
        training.epoch(epoch, losses, args.max_steps)
        seconds = time.perf_counter() - start
        test_loss, accuracy = training.evaluate()
        if args.losses:
            with open(args.losses, "a") as f:
                f.writelines(f"{x:.9g}\n" for x in losses)
        windows = [losses[:1], losses[1:40]]
        windows += [losses[k:k + 40] for k in range(40, len(losses), 40)]
        print(json.dumps({
            "framework": f"PyTorch {torch.__version__}", **vars(args), "epoch": epoch + 1,
            "train_loss": round(sum(losses) / len(losses), 4), "test_loss": round(test_loss, 4),
            "test_accuracy": round(accuracy, 2), "seconds": round(seconds, 1),
            "windows": [round(sum(w) / len(w), 3) for w in windows]}), flush=True)


if __name__ == "__main__":
    main()
