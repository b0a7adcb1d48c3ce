"""No two files of a folder need each other. Called by circles.sh.

A file is a .c with the private header of its name; it needs those whose headers either includes.
The public header of a folder is its manual, and no file's own; a .c that others include is a text
of theirs.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)

texts = {path: INCLUDE.findall(path.read_text()) for root in ("src", "extra") for path in pathlib.Path(root).rglob("*.[ch]")}
included = {name for names in texts.values() for name in names}
needs = {}
for path, names in texts.items():
    if path.name == f"{path.parts[1]}.h" or path.suffix == ".c" and path.name in included:
        continue
    unit = needs.setdefault(path.with_suffix(""), set())
    for name in names:
        header = pathlib.Path(path.parent, name)
        while ".." in header.parts:
            at = header.parts.index("..")
            header = pathlib.Path(*header.parts[: at - 1], *header.parts[at + 1 :])
        if header.exists() and header.name != f"{header.parts[1]}.h":
            unit.add(header.with_suffix(""))

done, bad = set(), 0


def visit(unit, trail):
    global bad
    if unit in trail:
        circle = trail[trail.index(unit) :] + [unit]
        print("these need each other: " + " -> ".join(map(str, circle)))
        bad = 1
    elif unit not in done:
        for other in sorted(needs.get(unit, ())):
            if other != unit:
                visit(other, trail + [unit])
        done.add(unit)


for unit in sorted(needs):
    visit(unit, [])
sys.exit(bad)
