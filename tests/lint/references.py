"""What comments and documents name exists: files, sections of documents, functions.

Called by references.sh. Looks at
  everywhere           paths that begin with a folder of this repository
  comments, documents  names of files alone, such as plan.c: some folder has one
                       "NAME.md section 3": the document has a heading "## 3. ..."
                       words that begin with dt_: the code has them
  documents            links: what they lead to, and its heading
  C files              their first line: "name.c - what it is"
<name>, NAME and * in a name stand for anything; what a shell, a test or a user makes is not looked at.
"""
import os
import pathlib
import re
import sys
from fnmatch import fnmatch

FOLDERS = "src extra tests docs scripts proofs bench configs cmake packaging examples .ci".split()
ALONE = """README.md SECURITY.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md data/README.md CMakeLists.txt
    CMakePresets.json quickstart runtests""".split()
LEFT_OUT = ("tests/fuzz/corpus", "tests/golden/data")  # what tests read
PAST = {"CHANGELOG.md"}  # may name what is gone
# Files of others, and files that programs write.
FOREIGN = set("""program.c resnet.py filesystem.py checkpoint_saver.py part1.py llm.c resize.cpp commit.h
    tensor.rs mpi.h stb_image.h report.md run_grad_accu.sh""".split())

PATH = re.compile(r"(?<![\w./$}>*-])(?:\./)?((?:src|extra|tests|docs|scripts|proofs|bench|configs|cmake|packaging|examples|"
                  r"\.ci)/[\w./*<>-]*)(?=(.?))")
NAME = re.compile(r"(?<![\w./$}*>-])((?:[\w<>*-]+/)*[\w<>*-]{2,}\.(?:c|h|md|sh|bash|py|cmake))(?![\w(/])")
SECTION = re.compile(r"([\w./-]+\.md),? section (\d+)")
WORD = re.compile(r"(?<![\w/.$-])dt_[a-z0-9_]+(?![\w]*[*<$/{])")
LINK = re.compile(r"\]\(([^)\s]*)\)")
C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#(?![!{]).*", re.M)


def kind_of(path, text):
    if path.endswith((".c", ".h")):
        return "c"
    if path.endswith(".md"):
        return "md"
    if path.endswith((".sh", ".bash", ".py", ".cmake", "CMakeLists.txt", ".yaml", ".sbatch")):
        return "hash"
    return "hash" if text.startswith("#!") else None


def read_all():
    files, kinds = {}, {}
    names = list(ALONE)
    for folder in FOLDERS:
        for at, folders, here in os.walk(folder):
            folders[:] = [d for d in folders if d != "__pycache__"]
            names += [os.path.join(at, f) for f in here]
    for name in names:
        files[name] = ""
        if name.startswith(LEFT_OUT) or name in PAST:
            continue
        try:
            with open(name, encoding="utf-8") as f:
                text = f.read()
        except (UnicodeDecodeError, OSError):
            continue
        kind = kind_of(name, text)
        if kind:
            files[name], kinds[name] = text, kind
    return files, kinds


def split(kind, text):
    """What people read, as (place, text) pairs, and what compilers and shells read."""
    if kind == "md":
        return [(0, text)], ""
    comments = [m for m in (HASH_COMMENT if kind == "hash" else C_TEXT).finditer(text)
                if kind == "hash" or m.group()[0] == "/"]
    code, at = [], 0
    for m in comments:
        code.append(text[at:m.start()])
        at = m.end()
    return [(m.start(), m.group()) for m in comments], " ".join(code) + text[at:]


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


files, kinds = read_all()
folders = {str(p) for f in files for p in pathlib.PurePath(f).parents}
bases = {os.path.basename(f) for f in files}
headings = {f: re.findall(r"^#+ (.*)$", t, re.M) for f, t in files.items() if f.endswith(".md")}
parts = {f: split(kind, files[f]) for f, kind in kinds.items()}
known = set()
for code in (c for _, c in parts.values()):
    known.update(re.findall(r"dt_[a-z0-9_]+", code))
bad = 0


def complain(file, at, text):
    global bad
    bad = 1
    print(f"{file}:{files[file].count(chr(10), 0, at) + 1}: {text}")


def matches(pattern, names):
    pattern = re.sub(r"<\w+>|\bNAME\b|(?<=_)NAME\b", "*", pattern)
    return pattern in names if "*" not in pattern else any(fnmatch(n, pattern) for n in names)


def there(path, file):
    """From the root, or from the folder of the file that names it, or as #include has it."""
    for start in ("", os.path.dirname(file), "extra"):
        full = os.path.normpath(os.path.join(start, path))
        if matches(full, files) or matches(full, folders):
            return True
    return False


def look_at_prose(file, at, prose):
    for m in NAME.finditer(prose):
        base = os.path.basename(m.group(1))
        if base in FOREIGN or PATH.match(m.group(1)) or base[0] == "<" and ">" not in base:
            continue
        if not matches(base, bases):
            complain(file, at + m.start(), f"names {m.group(1)}, and there is no such file")
    for m in SECTION.finditer(prose):
        of = [h for f, all_of in headings.items()
              if os.path.basename(f) == os.path.basename(m.group(1)) for h in all_of]
        if not any(h.startswith(m.group(2) + ".") for h in of):
            complain(file, at + m.start(), f"{m.group(1)} has no section {m.group(2)}")
    for m in WORD.finditer(prose):
        word = m.group()
        if word not in known and not (word[-1] == "_" and any(k.startswith(word) for k in known)):
            complain(file, at + m.start(), f"names {word}, which the code does not have")


def look_at_links(file, text):
    for m in LINK.finditer(text):
        path, _, heading = m.group(1).partition("#")
        if path.startswith(("http:", "https:")):
            continue
        to = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
        if to not in files and to not in folders:
            complain(file, m.start(), f"leads to {m.group(1)}, which does not exist")
        elif heading and heading not in map(slug, headings.get(to, [])):
            complain(file, m.start(), f"{to} has no heading #{heading}")


for file, (prose, _) in parts.items():
    for m in PATH.finditer(files[file]):
        path, after = m.group(1).rstrip(".-"), m.group(2)
        if after and after in "$\\{[(?|" and path[-1] != "/":
            continue  # a shell completes it
        if not there(path.rstrip("/"), file) and os.path.basename(path) not in FOREIGN:
            complain(file, m.start(), f"names {path}, which does not exist")
    for at, text in prose:
        look_at_prose(file, at, text)
    if kinds[file] == "md":
        look_at_links(file, files[file])
    if kinds[file] == "c" and not files[file].startswith(f"/* {os.path.basename(file)} - "):
        complain(file, 0, f'does not begin with "/* {os.path.basename(file)} - "')
sys.exit(bad)
