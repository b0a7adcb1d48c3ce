#!/usr/bin/env python3
"""How others save, as far as the order of their system calls goes, and one protocol that is sound:
what the replayer must find fault with, and what it must not.

  imitate.py PROTOCOL FOLDER FIRST COUNT   saves; prints "saved STEP HASH" after each
  imitate.py PROTOCOL --load [FOLDER]      prints "loaded STEP HASH" or "none"; without a FOLDER
                                           once for each line of stdin

done       the model, no fsync, then an empty DONE file, then the older model and its DONE are
           deleted (llm.c, train_gpt2.cu: write_checkpoint)
rename     a temporary file, no fsync, then renamed (safetensors, src/tensor.rs:
           buffered_write_to_file; timm, checkpoint_saver.py: _replace)
overwrite  the data file in place and fsync, then the metadata through a temporary file, fsync and
           rename (torch.distributed.checkpoint, filesystem.py); here with fsync of the folder
           after each, so that only the mixture is left
sound      a temporary file, fsync, rename, fsync of the folder
"""
import hashlib
import os
import random
import sys

PIECE = 6000
MODEL = 3 * PIECE


def say(word, step, data):
    print(word, step, hashlib.md5(data).hexdigest(), flush=True)


def write(name, data, sync=False, in_place=False):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | (0 if in_place else os.O_TRUNC), 0o644)
    for at in range(0, len(data), PIECE):
        os.write(fd, data[at:at + PIECE])
    if sync:
        os.fsync(fd)
    os.close(fd)


def sync_folder():
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def remove(name):
    if os.path.exists(name):
        os.unlink(name)


def read(name):
    """Whatever is there is taken, as they do."""
    try:
        with open(name, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def save_done(step, model):
    write(f"model_{step:08}.bin", model)
    write(f"DONE_{step:08}", b"")
    remove(f"model_{step - 2:08}.bin")
    remove(f"DONE_{step - 2:08}")


def load_done():
    for step in range(64, 0, -1):
        if read(f"DONE_{step:08}") is not None:
            return step, read(f"model_{step:08}.bin") or b""
    return None, None


def save_rename(_, model):
    write("last.tmp", model)
    os.rename("last.tmp", "last")


def save_sound(_, model):
    write("last.tmp", model, sync=True)
    os.rename("last.tmp", "last")
    sync_folder()


def load_last():
    model = read("last")
    return None if model is None else int.from_bytes(model[:8], "little"), model


def save_overwrite(step, model):
    write("data", model, sync=True, in_place=True)
    sync_folder()
    write("metadata.tmp", b"%d\n" % step, sync=True)
    os.rename("metadata.tmp", "metadata")
    sync_folder()


def load_overwrite():
    step = read("metadata")
    return (None, None) if step is None else (int(step or -1), read("data") or b"")


PROTOCOLS = {"done": (save_done, load_done), "rename": (save_rename, load_last),
             "overwrite": (save_overwrite, load_overwrite), "sound": (save_sound, load_last)}


def main():
    save, load = PROTOCOLS[sys.argv[1]]
    if sys.argv[2] == "--load":
        for folder in sys.argv[3:] or sys.stdin:
            os.chdir(folder.rstrip("\n"))
            step, model = load()
            if step is None:
                print("none", flush=True)
            else:
                say("loaded", step, model)
            os.chdir("/")
        return
    os.chdir(sys.argv[2])
    first, count = map(int, sys.argv[3:])
    for step in range(first, first + count):
        model = step.to_bytes(8, "little") + random.Random(step).randbytes(MODEL - 8)
        save(step, model)
        say("saved", step, model)


if __name__ == "__main__":
    main()
