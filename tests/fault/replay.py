#!/usr/bin/env python3
"""Cuts the power at every point of a recorded save, in every way, and asks the program what it
loads then.

The model, after ALICE (Pillai et al., OSDI'14) and CrashMonkey (Mohan et al., OSDI'18), is as weak
as POSIX allows. A cut may come between any two calls. Durable is of a file what was written before
its last fsync, and of a folder the entries made, renamed and removed in it before its last fsync.
Everything else is pending, and each pending thing is kept or lost on its own, whatever its age:
  - a write may be there, not there, there in part, or as zeros or garbage in its range;
  - an entry may be as before or as after. fsync of a file does not make its entry durable. A
    rename is one change: both its entries or neither. Changes of the same entry keep their
    order; nothing else does.

LOADER reads folders, a line each, and answers each with a line: "loaded STEP HASH" or "none". It
must load something that was saved, and nothing older than the newest checkpoint whose "saved STEP
HASH" the program printed before the cut; where its answer ends with "torn NAME", something torn
has a final name. LOG is that of fault_trace, WORK a folder for the states, best in memory.
Exit code 0: no violation; 1: violations; 2: the log or the loader cannot be used.
"""
import argparse
import hashlib
import itertools
import os
import random
import select
import subprocess
import sys

NEVER = sys.maxsize
# Bytes that no program wrote.
GARBAGE = bytes((at * 0x9e3779b97f4a7c15 & (1 << 64) - 1) >> 37 & 255 | 1 for at in range(1 << 16))


def die(text):
    print(f"replay: {text}", file=sys.stderr)
    sys.exit(2)


# ---- The log as changes of entries and edits of files -------------------------------------------


class Node:
    """A file or a folder, whatever its name is."""

    def __init__(self, initial=None):
        self.initial = initial  # bytes of a file before the log; None: a folder
        self.edits = []  # of a file
        self.entries = {}  # of a folder: name to Entry
        self.variants, self.choice, self.made_for = [], 0, None


class Entry:
    """A name in a folder."""

    def __init__(self, initial=None):
        self.initial = initial
        self.turns = []  # (Change, Node or None): what it was made to mean, in order

    def node(self):
        """What it leads to in the state that is looked at."""
        for change, node in reversed(self.turns):
            if change.kept:
                return node
        return self.initial

    def newest(self):
        """What it leads to for the running program."""
        return self.turns[-1][1] if self.turns else self.initial


class Change:
    """Of one entry, or of the two of a rename; `before`: the changes that it stands on."""

    def __init__(self, at, turns):
        self.at, self.durable, self.kept = at, NEVER, True
        self.before = [entry.turns[-1][0] for entry, _ in turns if entry.turns]
        for entry, node in turns:
            entry.turns.append((self, node))


class Edit:
    def __init__(self, at, call, offset, data):
        self.at, self.durable = at, NEVER
        self.call, self.offset, self.data = call, offset, data

    def apply(self, content, low=0, high=64, fill=None):
        """The part [low, high) of a write, in 64ths; its bytes as written, or others."""
        if self.call == "ftruncate":
            del content[self.offset:]
        if self.call != "write":
            content.extend(bytes(max(0, self.offset - len(content))))
            return
        n = len(self.data)
        low, high = n * low // 64, n * high // 64
        start = self.offset + low
        piece = fill(start, high - low) if fill else self.data[low:high]
        if piece:
            content.extend(bytes(max(0, start - len(content))))
            content[start:start + len(piece)] = piece


def zeros(_, size):
    return bytes(size)


def garbage(start, size):
    start %= len(GARBAGE)
    return (GARBAGE * ((start + size) // len(GARBAGE) + 1))[start:start + size]


class History:
    def __init__(self):
        self.root = Node()
        self.files, self.folders, self.changes = [], [self.root], []
        self.calls = []  # as text
        self.in_row = []  # of each call, its place in a row of writes to one file, from 0
        self.saves = []  # (the cut from which on it is acknowledged as durable, step, hash)
        self.syncs, self.printed, self.last_written = 0, b"", None

    def node(self, initial=None):
        node = Node(initial)
        (self.folders if initial is None else self.files).append(node)
        return node

    def read_folder(self, path, folder):
        for item in os.scandir(path):
            if item.is_dir(follow_symlinks=False):
                node = self.node()
                self.read_folder(item.path, node)
            else:
                with open(item.path, "rb") as f:
                    node = self.node(f.read())
            folder.entries[item.name] = Entry(node)

    def read_known(self, path):
        """Lines "saved STEP HASH", acknowledged from the start, and "known STEP HASH"."""
        with open(path, encoding="ascii") as f:
            for word, step, text in map(str.split, f):
                self.saves.append((0 if word == "saved" else NEVER, int(step), text))

    def entry(self, path):
        folder = self.root
        *above, name = path.split("/")
        for part in above:
            folder = folder.entries[part].newest()
        return folder.entries.setdefault(name, Entry())

    def find(self, path):
        return self.entry(path).newest() if path else self.root

    def change(self, *turns):
        self.changes.append(Change(len(self.calls), turns))

    def sync(self, node):
        self.syncs += 1
        pending = node.edits + [c for e in node.entries.values() for c, _ in e.turns]
        for thing in pending:
            thing.durable = min(thing.durable, len(self.calls))

    def add_call(self, call, path, other, offset, made, emptied, data):
        if call in ("create", "open"):
            if made:
                self.change((self.entry(path), self.node(b"")))
            if emptied:
                self.find(path).edits.append(Edit(len(self.calls), "ftruncate", 0, b""))
        elif call == "mkdir":
            self.change((self.entry(path), self.node()))
        elif call in ("unlink", "rmdir"):
            self.change((self.entry(path), None))
        elif call == "rename":
            self.change((self.entry(other), self.find(path)), (self.entry(path), None))
        elif call in ("write", "ftruncate"):
            self.find(path).edits.append(Edit(len(self.calls), call, offset, data))
        elif call == "fsync":
            self.sync(self.find(path))
        elif call == "print":
            *lines, self.printed = (self.printed + data).split(b"\n")
            for words in (line.decode().split() for line in lines):
                if words[:1] == ["saved"]:
                    self.saves.append((len(self.calls) + 1, int(words[1]), words[2]))
        else:
            die(f"the log holds a call that is not modelled: {call} {path} {other}")

    def read_log(self, path):
        with open(path, "rb") as f:
            for line in f:
                call, name, other, *numbers = line.decode().rstrip("\n").split("\t")
                offset, size, made, emptied = map(int, numbers)
                data = f.read(size)
                self.add_call(call, name, other, offset, made, emptied, data)
                written = self.find(name) if call == "write" else None
                again = written is not None and written is self.last_written
                self.in_row.append(self.in_row[-1] + 1 if again else 0)
                self.last_written = written
                more = (f" {name}" if name else "") + (f" to {other}" if other else "")
                self.calls.append(call + more + (f" ({size} bytes)" if written else ""))
        for change in reversed(self.changes):  # what comes before a durable change is durable
            for before in change.before:
                before.durable = min(before.durable, change.durable)

    def is_cut(self, cut, stride):
        """A row of writes to one file may be thinned out: its prefixes are among the states at
        its end."""
        if cut in (0, len(self.calls)):
            return True
        return self.in_row[cut] == 0 or self.in_row[cut - 1] % stride == 0


# ---- What may be in a file, and files by their content ------------------------------------------


class Pool:
    """Every content once, as a file to be linked to."""

    def __init__(self, path):
        self.path, self.numbers = path, {}
        os.mkdir(path)

    def add(self, content):
        key = hashlib.blake2b(content, digest_size=16).digest()
        number = self.numbers.setdefault(key, len(self.numbers))
        if number + 1 == len(self.numbers) and not os.path.exists(self.file(number)):
            with open(self.file(number), "wb") as f:
                f.write(content)
        return number

    def file(self, number):
        return f"{self.path}/{number}"


def recipes(n):
    """How n pending edits may be there: (label, how many of the first, without which of them, how
    many 64ths of the next, and in each write the part that is filled with something else)."""
    yield "all of it", n, None, 0, None
    if n == 0:
        return
    yield "none of it", 0, None, 0, None
    for k in range(n):
        if n > 10 and 1 < k < n - 1 and k % (n // 8):
            continue  # a long row is thinned out to its ends and eight places between
        yield f"{k} of {n}", k, None, 0, None
        yield f"{k} and a half of {n}", k, None, 32, None
        yield f"all but number {k + 1}", n, k, 0, None
    yield "nearly all", n - 1, None, 63, None
    yield "zeros", n, None, 0, (0, 64, zeros)
    yield "zeros at the end", n, None, 0, (32, 64, zeros)
    yield "garbage", n, None, 0, (0, 64, garbage)
    yield "garbage in the middle", n, None, 0, (31, 33, garbage)


def make_variants(file, cut, pool):
    """file.variants at the cut; the first: all is there. Returns whether anything is pending."""
    durable = [e for e in file.edits if e.durable < cut]
    pending = [e for e in file.edits if e.at < cut and e.durable >= cut]
    if file.made_for != (len(durable), len(pending)):
        file.made_for, found = (len(durable), len(pending)), {}
        base = bytearray(file.initial)
        for edit in durable:
            edit.apply(base)
        for label, whole, without, part, filled in recipes(len(pending)):
            content = bytearray(base)
            for k, edit in enumerate(pending[:whole]):
                if k != without:
                    edit.apply(content)
                    if filled:
                        edit.apply(content, *filled)
            if part:
                pending[whole].apply(content, 0, part)
            found.setdefault(pool.add(content), label)
        file.variants = list(found.items())
    file.choice = 0
    return bool(pending)


# ---- Every choice at one cut --------------------------------------------------------------------


def settle(changes):
    """Lose what stands on something lost; whether nothing had to be."""
    legal = True
    for change in changes:
        if change.kept and not all(b.kept for b in change.before):
            change.kept = legal = False
    return legal


def patterns(n):
    """Of n changes: a prefix; all but one; one, as a number, with what it stands on."""
    yield from ([i < k for i in range(n)] for k in range(n + 1))
    yield from ([i != k for i in range(n)] for k in range(n))
    yield from range(n)


def set_changes(changes, pattern):
    if isinstance(pattern, int):
        wanted = {changes[pattern]}
        for change in reversed(changes):
            if change in wanted:
                wanted.update(change.before)
        pattern = [change in wanted for change in changes]
    for change, kept in zip(changes, pattern):
        change.kept = kept
    settle(changes)


def choices(files):
    """All files whole or all as before; then one in each variant, the others as they were."""
    for others in (0, 1):
        base = [min(others, len(f.variants) - 1) for f in files]
        yield base
        for i, file in enumerate(files):
            for k in range(len(file.variants)):
                yield base[:i] + [k] + base[i + 1:]


def set_files(files, choice):
    for file, k in zip(files, choice):
        file.choice = k


def states_at(history, cut, pool, limit, seed):
    """Sets `kept` and `choice` to each state at the cut, and yields after each. Where there are
    more than `limit`, half are the products of patterns and choices, and half are random. The
    last value is whether all were tried."""
    for change in history.changes:
        change.kept = change.durable < cut
    changes = [c for c in history.changes if c.at < cut <= c.durable]
    files = [f for f in history.files if make_variants(f, cut, pool)]
    count = 2 ** len(changes)
    for file in files:
        count *= len(file.variants)
    if count <= limit:
        for kept in itertools.product((False, True), repeat=len(changes)):
            for change, keep in zip(changes, kept):
                change.kept = keep
            if settle(changes):
                for choice in itertools.product(*(range(len(f.variants)) for f in files)):
                    set_files(files, choice)
                    yield None
        yield True
        return
    draw = random.Random(seed << 32 | cut)
    systematic = list(itertools.product(choices(files), patterns(len(changes))))
    if len(systematic) > limit // 2:
        systematic = draw.choices(systematic, k=limit // 2)
    for choice, pattern in systematic:
        set_changes(changes, pattern)
        set_files(files, choice)
        yield None
    for _ in range(limit - len(systematic)):
        odds = draw.choice((2, 4, 6, 7)) / 8  # that a change is kept
        set_changes(changes, [draw.random() < odds for _ in changes])
        set_files(files, [draw.randrange(len(f.variants)) for f in files])
        yield None
    yield False


def tree(folder, above=""):
    """The state as (path, content or None for a folder), folders before what they hold."""
    for name, entry in folder.entries.items():
        node = entry.node()
        if node is None:
            continue
        if node.initial is None:
            yield above + name, None
            yield from tree(node, above + name + "/")
        else:
            yield above + name, node.variants[node.choice][0]


# ---- The program under test ---------------------------------------------------------------------


def write_tree(items, pool, path):
    os.mkdir(path)
    for name, content in items:
        if content is None:
            os.mkdir(f"{path}/{name}")
        else:
            os.link(pool.file(content), f"{path}/{name}")


def remove_tree(items, path):
    try:
        for name, content in reversed(items):
            (os.rmdir if content is None else os.unlink)(f"{path}/{name}")
        os.rmdir(path)
    except OSError as error:
        die(f"the loader changed the folder: {error}")


class Loader:
    def __init__(self, command, pool, path):
        self.command, self.pool, self.path, self.process = command, pool, path, None

    def ask(self, items):
        """The line that it prints for the state; "died" or "hung" where it does not."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        write_tree(items, self.pool, self.path)
        try:
            self.process.stdin.write(self.path + "\n")
            self.process.stdin.flush()
            ready = select.select([self.process.stdout], [], [], 60)[0]
            line = self.process.stdout.readline().rstrip("\n") if ready else "hung"
        except BrokenPipeError:
            line = ""
        if not line or line == "hung":
            self.close()
        remove_tree(items, self.path)
        return line or "died"

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


# ---- Verdict ------------------------------------------------------------------------------------


class Replay:
    def __init__(self, options):
        self.options, self.history = options, History()
        self.pool = Pool(f"{options.work}/contents")
        self.loader = Loader(options.loader, self.pool, f"{options.work}/state")
        self.answers = {}  # of states; their violations are in `bad`
        self.bad = set()
        self.count = dict.fromkeys("cuts complete visited".split(), 0)
        self.acknowledged = None  # the newest save before the cut
        self.examples = options.examples

    def understand(self, line):
        words = line.split()
        if words[:1] == ["none"]:
            return None
        if words[:1] != ["loaded"] or len(words) < 3:
            return "failed"
        key = (int(words[1]), words[2])
        return key[0] if any(key == s[1:] for s in self.history.saves) else "torn"

    def visit(self, cut):
        items = tuple(tree(self.history.root))
        self.count["visited"] += 1
        if items not in self.answers:
            line = self.loader.ask(items)
            self.answers[items] = self.understand(line), " torn " in line
            every, folder = self.options.sample or (0, "")
            if every and len(self.answers) % int(every) == 0:
                write_tree(items, self.pool, f"{folder}/{len(self.answers) // int(every)}")
        loaded, named = self.answers[items]
        kind = loaded if loaded in ("torn", "failed") else None
        if not kind and self.acknowledged is not None:
            kind = "lost" if loaded is None or loaded < self.acknowledged else None
        kind = kind or ("named" if named else None)
        if kind and (kind, items) not in self.bad:
            self.bad.add((kind, items))
            self.explain(cut, kind, loaded)

    def explain(self, cut, kind, loaded):
        history = self.history
        self.examples -= 1
        if self.examples < 0:
            return
        print(f"{kind.upper()}: the power fails after call {cut} of {len(history.calls)}, "
              f"{history.calls[cut - 1] if cut else 'none'}")
        if self.acknowledged is not None:
            print(f"  acknowledged as durable: step {self.acknowledged}")
        for change in history.changes:
            if change.at < cut <= change.durable:
                print(f"  {'kept' if change.kept else 'lost'}: {history.calls[change.at]}")
        for folder in history.folders:
            for name, entry in folder.entries.items():
                node = entry.node()
                if node and node.initial is not None and len(node.variants) > 1:
                    print(f"  in {name}: {node.variants[node.choice][1]}")
        print(f"  loaded: {'nothing' if loaded is None else loaded}")

    def check_end(self, path):
        """What the program left is what the log explains, byte for byte: nothing was missed."""
        left = History()
        left.read_folder(path, left.root)
        for file in self.history.files + left.files:
            make_variants(file, NEVER, self.pool)
        if sorted(tree(left.root)) != sorted(tree(self.history.root)):
            die(f"the log does not explain what is in {path}: a call was not recorded")

    def run(self):
        history, options = self.history, self.options
        for cut in range(len(history.calls) + 1):
            if not history.is_cut(cut, options.stride):
                continue
            self.count["cuts"] += 1
            done = [step for since, step, _ in history.saves if since <= cut]
            self.acknowledged = done[-1] if done else None
            for complete in states_at(history, cut, self.pool, options.limit, options.seed):
                if complete is None:
                    self.visit(cut)
                if options.any and self.bad:
                    return
            self.count["complete"] += complete

    def figures(self):
        loaded = [answer for answer, _ in self.answers.values()]
        kinds = [kind for kind, _ in self.bad]
        figures = {"calls": len(self.history.calls), "fsyncs": self.history.syncs,
                   "saves": len(self.history.saves), **self.count, "states": len(loaded),
                   "loaded": sum(isinstance(x, int) for x in loaded), "none": loaded.count(None)}
        figures.update((k, kinds.count(k)) for k in "torn lost failed named".split())
        return " ".join(f"{name} {value}" for name, value in figures.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--before", metavar="FOLDER", help="what the recorded program found")
    add("--after", metavar="FOLDER", help="what it left")
    add("--known", metavar="FILE", help='"saved" and "known" saves from before the log')
    add("--limit", type=int, default=4096, help="states at one cut; of more a part is tried")
    add("--seed", type=int, default=1)
    add("--stride", type=int, default=1, help="in a row of writes to one file, cut after each N-th")
    add("--examples", type=int, default=1, help="violations to explain")
    add("--any", action="store_true", help="stop at the first violation")
    add("--sample", nargs=2, metavar=("N", "FOLDER"), help="leave every N-th state in FOLDER")
    add("log")
    add("work")
    add("loader", nargs="+")
    replay = Replay(parser.parse_args())
    options, history = replay.options, replay.history
    if options.before:
        history.read_folder(options.before, history.root)
    if options.known:
        history.read_known(options.known)
    history.read_log(options.log)
    if not history.saves:
        die("the log acknowledges no save")
    if options.after:
        replay.check_end(options.after)
    replay.run()
    replay.loader.close()
    print(replay.figures())
    return 1 if replay.bad else 0


if __name__ == "__main__":
    sys.exit(main())
