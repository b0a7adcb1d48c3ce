"""A reader of protobuf messages that knows nothing of dtrain: fields by number, in their order."""
import struct


def varint(data, at):
    x = shift = 0
    while True:
        x |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return x, at


def fields(data):
    """{number: [value...]}; bytes for what has a length, ints for varints, floats for fixed ones."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            assert at + length <= len(data), "a field is longer than what holds it"
            value, at = data[at:at + length], at + length
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            (value,), at = struct.unpack_from(form, data, at), at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def floats(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))
