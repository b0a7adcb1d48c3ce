#!/usr/bin/env python3
"""Prints the rows of `mindspore_pixels` in tests/unit/data_augment.c.

    python3 -m pip install mindspore==2.10.0 xxhash==4.1.0
    proofs/golden-resize.py

Each row is the hash of an image that MindSpore's vision.Resize, as the Ascend tutorial
calls it, made of one that the test draws again.
"""
import mindspore.dataset.vision as vision
import numpy as np
import xxhash

CASES = [(32, 32, 64), (32, 32, 224), (32, 32, 32), (32, 32, 33), (32, 32, 300),
         (32, 32, 16), (32, 32, 25), (20, 12, 48), (12, 20, 64), (1, 1, 5), (3, 300, 17)]


def image(height, width, kind):
    """0: noise; 1: black and white; 2: a slope."""
    i = np.arange(height * width * 3, dtype=np.uint64)
    byte = (i * i + 7 * i + 1) * np.uint64(2654435761) >> np.uint64(24) & np.uint64(255)
    byte = [byte, np.where(byte > 127, 255, 0), i % np.uint64(256)][kind]
    return byte.astype(np.uint8).reshape(height, width, 3)


for height, width, size in CASES:
    resize, h = vision.Resize((size, size)), xxhash.xxh3_128()
    for kind in range(3):
        h.update(np.ascontiguousarray(resize(image(height, width, kind))).tobytes())
    print(f'    {{{height}, {width}, {size}, "{h.hexdigest()}"}},')
