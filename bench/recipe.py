#!/usr/bin/env python3
"""The rival's learning: PyTorch trains by one of configs/, as dtrain does.

    bench/recipe.py --config configs/vgg11.yaml --epochs 1 --seed 3
    bench/recipe.py --config configs/cs744.yaml --shards 4 --precision fp32 --seed 3
    bench/recipe.py --config configs/airbench.yaml --tuned --tta crops

Same images, batches of the same size, shards with batch-norm statistics of their own
(pooled into the running ones), padding, schedule, update and average. Initial weights,
order, crops and flips are PyTorch's own, and runs are compared by their spread over
seeds; or they are dtrain's (--draws dtrain, needs xxhash), and in float32 every loss is
dtrain's until rounding has grown. Prints the mean loss of windows of steps (the first;
up to the 40th; forty each), the test result, and seconds since the first step with tests
(wall_seconds) and without (training_seconds); --losses writes the loss of each step.
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
    "airbench": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
AUGMENT = {  # padding, whether it is the image mirrored, whether flips alternate, of the same file
    "cifar": (4, False, False), "alternate": (4, False, True), "airbench": (2, True, True),
}
TTA = {"none": 1, "flip": 2, "crops": 6}
VIEWS = (  # shift, flip, weight: src/train/evaluate.c
    (0, False, 2), (0, True, 2), (-1, False, 1), (-1, True, 1), (1, False, 1), (1, True, 1))
DEFAULTS = {"net": "resnet50", "variant": "mindspore", "stem": "imagenet", "lr": 0.01,
            "momentum": 0.9, "weight_decay": 0.0, "nesterov": False, "schedule": "constant",
            "peak": 0.2, "epochs": 10, "global_batch": 256, "normalize": "tutorial",
            "drop_remainder": True, "cutout": 0, "logit_scale": 1.0, "label_smoothing": 0.0,
            "shards": 2, "augment": "cifar", "decay": "all", "norm_bias_rate": 1.0, "lookahead": 0,
            "max_steps": -1, "schedule_steps": 0}


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

    def __init__(self, seed, augment):
        self.generator = torch.Generator().manual_seed(seed)
        self.pad, _, self.alternates = AUGMENT[augment]

    def weights(self, model, recipe):
        pass

    def order(self, epoch, count):
        if self.alternates and epoch == 0:
            self.sides = torch.rand(count, generator=self.generator) < 0.5
        return torch.randperm(count, generator=self.generator)

    def windows(self, epoch, samples):
        n = len(samples)
        top, left = torch.randint(0, 2 * self.pad + 1, (2, n), generator=self.generator)
        if self.alternates:
            return top, left, self.sides[samples] ^ (epoch % 2 == 1)
        return top, left, torch.rand(n, generator=self.generator) < 0.5

    def holes(self, epoch, samples):
        return torch.randint(0, 32, (2, len(samples)), generator=self.generator)


class DtrainDraws:
    """What src/model and src/data draw, by the generator of proofs/golden.py."""

    def __init__(self, seed, augment):
        sys.path.insert(0, str(ROOT / "proofs"))
        import golden
        self.golden, self.seed = golden, seed
        self.pad, _, self.alternates = AUGMENT[augment]

    def weights(self, model, recipe):
        kinds, tensor = {"resnet50": recipe["variant"], "airbench": "airbench"}, 0
        variant = kinds.get(recipe["net"], "")
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
        if self.alternates:
            bits[2] = self.golden.philox(self.seed, STREAM_AUGMENT, 0, samples.numpy())[2]
        places = 2 * self.pad + 1
        top, left, flip = (torch.from_numpy(self.golden.below(b, n).astype(np.int64))
                           for b, n in zip(bits, (places, places, 2)))
        return top, left, (flip == 1) ^ (self.alternates and epoch % 2 == 1)

    def holes(self, epoch, samples):
        bits = self.golden.philox(self.seed, STREAM_AUGMENT, epoch, samples.numpy(), draw=1)
        return [torch.from_numpy(self.golden.below(b, 32).astype(np.int64)) for b in bits[:2]]


DRAWS = {"torch": TorchDraws, "dtrain": DtrainDraws}


def augmented(images, top, left, flip, pad=4, mirrors=False):
    """Crops of the images with black pixels or their own mirrored ones around them, flipped or not."""
    n, at = len(images), torch.arange(32)
    columns = torch.where(flip[:, None], 31 - at, at) + left[:, None]
    rows = at + top[:, None]
    if mirrors:  # edges are there once
        inside = 31 - (31 - torch.arange(-pad, 32 + pad).abs()).abs()
        padded = images[:, :, inside][..., inside]
    else:
        padded = F.pad(images, (pad,) * 4)
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


def whitening(images, mean, std):
    """Filters of either sign that whiten patches of 5,000 images: src/data/patches.c, src/model/whiten.c."""
    count = min(5000, len(images))
    chosen = images[torch.arange(count) * len(images) // count]
    patches = (F.unfold((x.double() / 255 - mean.double()) / std.double(), 2).transpose(0, 1).flatten(1)
               for x in chosen.split(500))
    value, vector = torch.linalg.eigh(sum(p @ p.T for p in patches) / (count * 31 * 31))
    value, rows = value.flip(0), vector.T.flip(0)
    signs = rows.gather(1, rows.abs().argmax(1, keepdim=True)).sign()
    filters = rows * signs / (value[:, None] + 5e-4).sqrt()
    return torch.cat((filters, -filters)).view(-1, 3, 2, 2)


def make_optimizer(model, recipe):
    """As src/train/optim.c: batch norm's biases have a rate of their own, decay may be apart from rates."""
    assert recipe["decay"] in ("all", "decoupled"), "decay all and decoupled only"
    biases = {id(m.bias) for m in model.modules() if isinstance(m, nn.BatchNorm2d)}
    for p in getattr(model, "frozen", list)():
        p.requires_grad_(False)
    groups = {}
    for p in (p for p in model.parameters() if p.requires_grad):
        groups.setdefault(recipe["norm_bias_rate"] if id(p) in biases else 1.0, []).append(p)
    apart = recipe["lr"] if recipe["decay"] == "decoupled" else 0
    return torch.optim.SGD(
        [{"params": ps, "lr": recipe["lr"] * rate,
          "weight_decay": recipe["weight_decay"] / (apart * rate or 1)} for rate, ps in groups.items()],
        momentum=recipe["momentum"], nesterov=recipe["nesterov"])


def triangle(step, steps, peak):
    """schedule_triangle of src/train/schedule.c, of a rate of 1."""
    step, top = min(step, steps - 1), math.floor(peak * steps)
    up, down = step / top if top else 1, (step - top) / (steps - top)
    return 0.2 * (1 - up) + up if step < top else 1 - down + 0.07 * down


def make_schedule(optimizer, recipe, steps, cycle_momentum):
    if recipe["schedule"] == "constant":
        return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1, total_iters=0)
    if recipe["schedule"] == "triangle":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: triangle(k, steps, recipe["peak"]))
    assert recipe["schedule"] == "onecycle", "constant, triangle and onecycle only"
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe["lr"], total_steps=steps, pct_start=recipe["peak"],
        cycle_momentum=cycle_momentum)


class Training:
    def __init__(self, args, recipe):
        self.args, self.recipe = args, recipe
        folder = pathlib.Path(args.data)
        images = read_images(sorted(folder.glob("data_batch_*.bin")))
        self.images, self.labels = (x[:args.subset or len(x)] for x in images)
        self.test = read_images([folder / "test_batch.bin"])
        mean, std = NORMALIZE[recipe["normalize"]]
        self.mean, self.std = (torch.tensor(x).view(3, 1, 1) for x in (mean, std))
        torch.manual_seed(args.seed)
        self.draws = DRAWS[args.draws](args.seed, recipe["augment"])
        self.model = networks.network(recipe["net"], recipe["variant"], recipe["stem"],
                                      divisor=args.width_divisor)
        self.draws.weights(self.model, recipe)
        if recipe["net"] == "airbench":
            self.model.whiten.weight.data.copy_(whitening(self.images, self.mean, self.std))
        self.dtype = torch.float64 if args.precision == "fp64" else torch.float32
        self.model.to(self.dtype, memory_format=torch.channels_last)
        self.statistics = Statistics(self.model, args.shards)
        self.numbers = [x for x in self.model.state_dict().values() if x.is_floating_point()]
        self.average = [x.clone() for x in self.numbers] if recipe["lookahead"] else []
        self.optimizer = make_optimizer(self.model, recipe)
        whole = len(self.images) // recipe["global_batch"]
        rest = len(self.images) % recipe["global_batch"] and not recipe["drop_remainder"]
        self.steps = whole + bool(rest)
        self.done, whole = 0, self.steps * recipe["epochs"]
        self.total = min(whole, recipe["max_steps"] if recipe["max_steps"] >= 0 else whole)
        self.length = recipe["schedule_steps"] or whole
        self.schedule = make_schedule(self.optimizer, recipe, self.length, args.cycle_momentum)

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
            crops = augmented(self.images[shard], *windows, *AUGMENT[self.recipe["augment"]][:2])
            logits = self.logits(crops, mask)
            loss = F.cross_entropy(logits, self.labels[shard], reduction="sum",
                                   label_smoothing=self.recipe["label_smoothing"])
            (loss / len(sample)).backward()
            loss_sum += loss.item()
        self.statistics.update()
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        if self.average and self.done % self.recipe["lookahead"] == 0:
            self.look_ahead()
        return loss_sum / len(sample)

    def look_ahead(self):
        """The average takes in a part of the numbers, which become the average (src/train/step.c)."""
        part = 1 - 0.95**5 * min(self.done / self.length, 1)**3
        for average, x in zip(self.average, self.numbers):
            x.copy_(average.lerp_(x, part))

    def epoch(self, epoch, losses):
        self.model.train()
        if self.recipe["net"] == "airbench" and epoch == 3:
            self.model.whiten.bias.requires_grad_(False)
        order = self.draws.order(epoch, len(self.images))
        most = min(self.steps, self.total - self.done)
        for sample in order.split(self.recipe["global_batch"])[:most]:
            losses.append(self.step(epoch, sample))
            if not math.isfinite(losses[-1]):
                raise SystemExit(f"the loss is {losses[-1]} at step {len(losses)}")

    def evaluate(self, views=1):
        """Loss and accuracy of the average, if there is one; the accuracy over all views."""
        self.model.eval()
        own = [x.clone() for x in self.numbers] if self.average else []
        loss, right, viewed = 0.0, 0, 0
        with torch.no_grad():
            for x, average in zip(self.numbers, self.average):
                x.copy_(average)
            for x, y in zip(*(t.split(500) for t in self.test)):
                logits = self.logits(x)
                loss += F.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
                total = VIEWS[0][2] * logits
                for shift, flip, weight in VIEWS[1:views]:
                    place = torch.full_like(y, 1 + shift)
                    window = augmented(x, place, place, torch.full_like(y, flip, dtype=torch.bool), 1, True)
                    total += weight * self.logits(window)
                viewed += (total.argmax(1) == y).sum().item()
            for x, kept in zip(self.numbers, own):
                x.copy_(kept)
        count = len(self.test[1])
        return loss / count, 100 * right / count, 100 * viewed / count


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--config", required=True)
    p.add_argument("--data", default="cifar-10-batches-bin")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--shards", type=int, help="instead of the recipe's, or 2")
    p.add_argument("--subset", type=int, default=0, help="only the first training images (0: all)")
    p.add_argument("--epochs", type=int, help="instead of the recipe's")
    p.add_argument("--precision", choices=("bf16", "fp32", "fp64"), default="bf16")
    p.add_argument("--width-divisor", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--draws", choices=DRAWS, default="torch")
    p.add_argument("--max-steps", type=int, help="of the whole run, instead of the recipe's")
    p.add_argument("--global-batch", type=int, help="instead of the recipe's")
    p.add_argument("--tta", choices=TTA, default="none", help="at the end test with more views of an image, too")
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
    for name in ("epochs", "shards", "max_steps", "global_batch"):
        if getattr(args, name) is None:
            setattr(args, name, recipe[name])
        recipe[name] = getattr(args, name)
    torch.set_num_threads(args.threads)
    training = Training(args, recipe)
    began, spent, epoch = time.perf_counter(), 0.0, 0
    while training.done < training.total:
        losses, start = [], time.perf_counter()
        training.epoch(epoch, losses)
        seconds = time.perf_counter() - start
        spent += seconds
        epoch += 1
        test_loss, accuracy, _ = training.evaluate()
        wall = time.perf_counter() - began
        if args.losses:
            with open(args.losses, "a") as f:
                f.writelines(f"{x:.9g}\n" for x in losses)
        windows = [losses[:1], losses[1:40]]
        windows += [losses[k:k + 40] for k in range(40, len(losses), 40)]
        end = training.done == training.total and args.tta != "none"
        viewed = {f"tta_{args.tta}_accuracy": round(training.evaluate(TTA[args.tta])[2], 2)} if end else {}
        print(json.dumps({
            "framework": f"PyTorch {torch.__version__}", **vars(args), "epoch": epoch, "steps": len(losses),
            "train_loss": round(sum(losses) / len(losses), 4), "test_loss": round(test_loss, 4),
            "test_accuracy": round(accuracy, 2), **viewed, "seconds": round(seconds, 1),
            "training_seconds": round(spent, 1), "wall_seconds": round(wall, 1),
            "windows": [round(sum(w) / len(w), 3) for w in windows if w]}), flush=True)


if __name__ == "__main__":
    main()
