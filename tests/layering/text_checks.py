# SPDX-License-Identifier: MIT
"""What the text of the sources must keep to: rooms, includes, headers, names."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from rooms import DOORS, ROOMS, TOPS, may_use, room_of, rule
from tree import code_of, comments_of, is_cuda, is_source

GENERATED = {"config.h", "trainer/events/event.pb-c.h", "trainer/onnx/onnx.pb-c.h"}
ROOM_LIMIT = 40  # a name.c and its name.h are one
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|curand|cusparse|nccl|nvrtc|device_launch)[\w/.]*$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
CALLED = re.compile(r"(?<![\w.>-])([A-Za-z_]\w*)\(\)")  # as `word()`, nothing between the parentheses
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
OF_OTHERS = {"exit", "exp", "fork", "pow"}  # functions that comments name and no source calls
COMMENT_WIDTH = 100  # clang-format's, which leaves comments alone
NAMED_FILE = re.compile(r"(?<![\w/.<*])(?:\w+/)*[\w*]+\.(?:\[ch\]|cu|inc|md|[ch])(?![\w(])")  # not <system.h>
LICENCE = "SPDX-License-Identifier: MIT"
LICENSED = (".c", ".h", ".cu", ".inc", ".js", ".py", ".sh", ".am", ".ac")
COVERS = re.compile(r"/\* SPDX.*\n/\*\s+(?:\* )?Covers ([\w/]+)[.:]")
COMPILERS = {"c": ["gcc", "-std=gnu11", "-x", "c"], "c++": ["g++", "-std=c++11", "-x", "c++"]}
PUBLIC_HEADERS = {"loader/tombola.h": "TOMBOLA_H"}  # installed without its folder


def check_rooms(tree):
    for top in TOPS:
        for path in sorted((tree.root / top).rglob("*")):
            if is_source(path) and room_of(tree.name(path)) not in ROOMS:
                yield f"{tree.name(path)} is in none of the rooms that tests/layering/rooms.py lists"
    for room in ROOMS:
        count = len({path.stem for path in tree.sources() if room_of(tree.name(path)) == room})
        if count > ROOM_LIMIT:
            yield f"{room} holds {count} source files, {ROOM_LIMIT} at most are right"
    for door in DOORS:
        if not (tree.root / f"{door}.c").is_file() and not (tree.root / f"{door}.h").is_file():
            yield f"tests/layering/rooms.py lists {door}, which is neither a room nor a file"


def check_includes(tree):
    for path in tree.sources():
        name = tree.name(path)
        for bracket, header in INCLUDE.findall(path.read_text()):
            if bracket == "<" or header in GENERATED:
                continue
            if room_of(header) not in ROOMS:
                yield f'{name} includes "{header}": write it from the root, "room/file.h"'
            elif not (tree.root / header).is_file():
                yield f'{name} includes "{header}", which is not there'
            elif not may_use(name, header):
                yield f'{name} includes "{header}": {rule(room_of(name))}'
            elif header.endswith("_private.h") and room_of(header) != room_of(name):
                yield f'{name} includes "{header}", which is private to {room_of(header)}'


def prose_of(tree):
    """File, line number and text of comments and READMEs of the rooms."""
    for path in tree.sources():
        yield from ((path, number, line) for number, line in comments_of(path))
    for path in sorted(path for top in TOPS for path in (tree.root / top).rglob("*.md")):
        yield from ((path, number, line) for number, line in enumerate(path.read_text().splitlines(), 1))


def check_functions(tree):
    """`word()` in a comment or a README: renames leave it behind."""
    known = OF_OTHERS.union(*(IDENTIFIER.findall(code_of(path)) for path in tree.sources()))
    known.update(*(re.findall(r"^ *def (\w+)", path.read_text(), re.MULTILINE) for path in tree.root.glob("loader/python/**/*.py")))
    for path, number, line in prose_of(tree):
        for name in CALLED.findall(line):
            if name not in known and not name.startswith("_"):  # _free(): whichever object's
                yield f"{tree.name(path)}:{number} names {name}(), which is not there"


def check_comment_widths(tree):
    for path in tree.sources():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COMMENT_WIDTH and re.match(r"\s*(/\*|\*|//)", line):
                yield f"{tree.name(path)}:{number} has {len(line)} characters, {COMMENT_WIDTH} at most are right"


def check_comments(tree):
    files = list(tree.files())
    for path in tree.sources():
        for number, line in comments_of(path):
            for name in NAMED_FILE.findall(line):
                if name not in GENERATED and not any(file.match(name) for file in files):
                    yield f"{tree.name(path)}:{number} names {name}, which is not there"


def check_cuda(tree):
    for path in tree.sources():
        if path.suffix == ".cu" and not is_cuda(path):
            yield f"{tree.name(path)} must be called *_cuda.cu"
        for _, header in INCLUDE.findall(path.read_text()):
            if CUDA_HEADER.match(header) and not is_cuda(path):
                yield f"{tree.name(path)} includes <{header}>: only *_cuda files may"


def check_guards(tree):
    for path in tree.sources(".h"):
        guard = PUBLIC_HEADERS.get(tree.name(path)) or re.sub(r"\W", "_", tree.name(path)).upper()
        code = code_of(path).split()
        if code[:4] != ["#ifndef", guard, "#define", guard] or code[-1:] != ["#endif"]:
            yield f"{tree.name(path)} must have the guard {guard} around everything"


def check_typedefs(tree):
    for path in tree.sources():
        for found in re.finditer(r"\btypedef\s+(struct|union|enum)\b\s*\w*\s*(\{|\w+\s*;)", code_of(path)):
            yield f"{tree.name(path)} has a typedef of a {found[1]}: write `{found[1]} name`"


def check_exit(tree):
    for path in tree.sources(".c", ".cu", ".inc"):
        if path.name != "main.c" and re.search(r"(?<![\w.>])(exit|abort|quick_exit)\s*\(", code_of(path)):
            yield f"{tree.name(path)} ends the process: return an enum error instead"


def flags_of(tree, name):
    """What setup.py compiles the Python package's headers with, and nothing for others."""
    if room_of(name) != "loader/python":
        return []
    done = subprocess.run(["pkg-config", "--cflags-only-I", "python3"], capture_output=True, text=True, check=False)
    return [f"-I{tree.root}/loader", *(flag.replace("-I", "-isystem", 1) for flag in done.stdout.split())]


def compile_alone(tree, name, language):
    """The header between nothing, twice; a compiler's complaints, or ''."""
    text = f'#include "{name}"\n#include "{name}"\nint tombola_layering_test;\n'
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{tree.root}", *flags_of(tree, name), "-"]
    done = subprocess.run(COMPILERS[language] + flags, input=text, cwd=tree.root, capture_output=True, text=True,
                          check=False)
    return f"{name} does not compile alone as {language}:\n{done.stderr[:1500]}" if done.returncode else ""


def check_headers(tree):
    jobs = [(tree, tree.name(path), "c") for path in tree.sources(".h") if not is_cuda(path)]
    jobs += [(tree, name, "c++") for name in sorted(PUBLIC_HEADERS) if (tree.root / name).is_file()]
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield from filter(None, pool.map(lambda job: compile_alone(*job), jobs))


def check_unit_tests(tree):
    for path in sorted((tree.root / "tests/unit").glob("test_*.c")):
        named = COVERS.match(path.read_text())
        if not named:
            yield f'{tree.name(path)} does not begin with a comment "Covers room/object"'
        elif room_of(named[1]) not in ROOMS or not list(tree.root.glob(f"{named[1]}.*")):
            yield f"{tree.name(path)} covers {named[1]}, which is not there"


def check_licences(tree):
    """In the first line, or below the one that names the interpreter."""
    folders = [tree.root / top for top in (*TOPS, "deploy", "tests", "m4")]
    for path in sorted([*tree.root.glob("*.a[cm]"), *(path for folder in folders for path in folder.rglob("*"))]):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        with open(path, "rb") as file:
            first = file.readline(200)
            is_script = first.startswith(b"#!")
            line = file.readline(200) if is_script else first
        if (is_script or path.suffix in LICENSED) and LICENCE.encode() not in line:
            yield f"{tree.name(path)} does not begin with {LICENCE}"
