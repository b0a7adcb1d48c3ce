"""Runs an ONNX file by the operators' definitions: onnx_run.py FILE IMAGE.png... prints a line of
logits for each image, which the network takes as RGB in 0 to 1."""
import math
import struct
import sys
import zlib

from protobuf import fields, floats


def png(path):
    """[3][height][width] in 0 to 1; of what tests write: 8-bit RGB, no filter, one IDAT."""
    data = open(path, "rb").read()
    width, height = struct.unpack(">II", data[16:24])
    size = struct.unpack(">I", data[33:37])[0]
    rows = zlib.decompress(data[41:41 + size])
    return [[[rows[y * (3 * width + 1) + 1 + 3 * x + c] / 255 for x in range(width)] for y in range(height)]
            for c in range(3)]


def attributes(node):
    found = {}
    for a in map(fields, node.get(5, [])):
        kind = a[20][0]
        found[a[1][0].decode()] = a[2][0] if kind == 1 else a[3][0] if kind == 2 else a[8]
    return found


def windows(x, a, outside):
    """For each output pixel: the pixels of one channel under the kernel, row by row."""
    (top, left, bottom, right), (kh, kw), (sh, sw) = a["pads"], a["kernel_shape"], a["strides"]
    wide = [outside] * (left + len(x[0]) + right)
    rows = [wide] * top + [[outside] * left + row + [outside] * right for row in x] + [wide] * bottom
    return [[[rows[y + i][x0 + j] for i in range(kh) for j in range(kw)] for x0 in range(0, len(wide) - kw + 1, sw)]
            for y in range(0, len(rows) - kh + 1, sh)]


def conv(a, x, w, b=None):
    (dims, w), kernel = w, math.prod(a["kernel_shape"])
    seen = [windows(channel, a, 0.0) for channel in x]
    out = []
    for o in range(dims[0]):
        of = [w[(o * dims[1] + i) * kernel:(o * dims[1] + i + 1) * kernel] for i in range(dims[1])]
        out.append([[math.fsum(math.fsum(map(float.__mul__, k, s[y][i])) for k, s in zip(of, seen)) + (b[1][o] if b else 0)
                     for i in range(len(seen[0][0]))] for y in range(len(seen[0]))])
    return out


def each(f, *maps):
    """f over the numbers of maps of one shape, and of tensors [1, c, 1, 1]."""
    return [[[f(*(m[c][y][x] for m in maps)) for x in range(len(maps[0][0][0]))] for y in range(len(maps[0][0]))]
            for c in range(len(maps[0]))]


def per_channel(f, x, t):
    assert t[0] == [1, 3, 1, 1]
    return [[[f(p, v) for p in row] for row in channel] for channel, v in zip(x, t[1])]


def norm(a, x, gamma, beta, mean, var):
    return [[[(p - m) / math.sqrt(v + a["epsilon"]) * g + b for p in row] for row in channel]
            for channel, g, b, m, v in zip(x, gamma[1], beta[1], mean[1], var[1])]


def gemm(a, x, w, b=None):
    assert a["transB"] == 1 and w[0][1] == len(x)
    return [math.fsum(map(float.__mul__, x, w[1][o * len(x):(o + 1) * len(x)])) + (b[1][o] if b else 0) for o in range(w[0][0])]


OPS = {
    "Sub": lambda a, x, t: per_channel(lambda p, v: p - v, x, t),
    "Div": lambda a, x, t: per_channel(lambda p, v: p / v, x, t),
    "Conv": conv,
    "BatchNormalization": norm,
    "Relu": lambda a, x: [max(p, 0.0) for p in x] if isinstance(x[0], float) else each(lambda p: max(p, 0.0), x),
    "Add": lambda a, x, y: each(lambda p: p + y[1][0], x) if isinstance(y, tuple) else each(lambda p, q: p + q, x, y),
    "Erf": lambda a, x: each(math.erf, x),
    "MaxPool": lambda a, x: [[[max(w) for w in row] for row in windows(c, a, -math.inf)] for c in x],
    "GlobalAveragePool": lambda a, x: [[[math.fsum(map(math.fsum, c)) / (len(c) * len(c[0]))]] for c in x],
    "Mul": lambda a, x, t: ([p * t[1][0] for p in x] if isinstance(x[0], float) else
                            each(lambda p: p * t[1][0], x) if isinstance(t, tuple) else each(lambda p, q: p * q, x, t)),
    "Flatten": lambda a, x: x if isinstance(x[0], float) else [p for c in x for row in c for p in row],
    "Gemm": gemm,
}


def main():
    model = fields(open(sys.argv[1], "rb").read())
    assert model[1] == [7] and fields(model[8][0])[2] == [13], "IR 7, opset 13"
    graph = fields(model[7][0])
    tensors = {}
    for t in map(fields, graph[5]):
        assert t[2] == [1] and math.prod(t.get(1, [])) * 4 == len(t[9][0])
        tensors[t[8][0].decode()] = (t.get(1, []), floats(t[9][0]))
    for path in sys.argv[2:]:
        values = dict(tensors, image=png(path))
        for node in map(fields, graph[1]):
            inputs = [values[name.decode()] for name in node[1]]
            (out,) = node[2]
            assert out.decode() not in values, "one node makes a value"
            values[out.decode()] = OPS[node[4][0].decode()](attributes(node), *inputs)
        print(*(f"{x:.9g}" for x in values["logits"]))


main()
