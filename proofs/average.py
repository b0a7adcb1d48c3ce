#!/usr/bin/env python3
"""--ema against PyTorch: what each step trained, from the checkpoints of a run, goes through
torch.optim.swa_utils.AveragedModel; its averages are those of the run. Needs torch.

    proofs/average.py ./dtrain [DECAY]
"""
import glob, json, subprocess, sys, tempfile

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 20


def tensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = bytearray(f.read())
    header.pop("__metadata__")
    return {n: torch.frombuffer(data[slice(*t["data_offsets"])], dtype=torch.float32).view(t["shape"])
            for n, t in header.items() if t["dtype"] == "F32"}


def main():
    decay = float(sys.argv[2]) if len(sys.argv) > 2 else 0.9
    with tempfile.TemporaryDirectory() as run:
        subprocess.run([sys.argv[1], "--net", "resnet9", "--width-divisor", "8", "--data", "synthetic:256",
                        "--global-batch", "32", "--batch", "auto", "--max-steps", str(STEPS), "--epochs", "9",
                        "--lr", "0.05", "--ema", str(decay), "--save-every", "1", "--keep-last", str(STEPS + 1),
                        "--out", run + "/run"], check=True, stdout=subprocess.DEVNULL)
        step = [max(glob.glob(f"{run}/run/checkpoints/step-{k:010}*")) for k in range(1, STEPS + 1)]
        model = torch.nn.Module()
        first = tensors(step[0] + "/trained.safetensors")
        names = {name: name.replace(".", "_") for name in first}
        for name, x in first.items():
            model.register_buffer(names[name], x.clone())
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
        worst = apart = 0.0
        for folder in step:
            with torch.no_grad():
                for name, x in tensors(folder + "/trained.safetensors").items():
                    getattr(model, names[name]).copy_(x)
            average.update_parameters(model)
            for name, x in tensors(folder + "/model.safetensors").items():
                want, scale = getattr(average.module, names[name]), x.abs().max().item() or 1.0
                worst = max(worst, (want - x).abs().max().item() / scale)
                apart = max(apart, (getattr(model, names[name]) - x).abs().max().item() / scale)
    print(f"{STEPS} steps, decay {decay}: the averages differ by {worst:.1e} of a tensor's largest number, "
          f"and from what is trained by {apart:.1e}")
    return worst > 1e-6 or apart < 1e-3


if __name__ == "__main__":
    sys.exit(main())
