# SPDX-License-Identifier: MIT
"""Breaks each rule in a small tree and sees that the check of that rule finds it: a check that cannot
fail would be no test. The tree itself is one that every check accepts."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import object_checks
import readme_checks
import text_checks
from rooms import DOORS, ROOMS, TOPS
from tree import Tree

GUARDED = "#ifndef {0}\n#define {0}\n{1}\n#endif\n"
PROGRAM = "int command_info(void);\nint main(void)\n{\n    return command_info();\n}\n"
COMMAND = "int command_info(void);\nint command_info(void)\n{\n    return 0; /* exit() */\n}\n"


def header(name, text):
    return GUARDED.format(re.sub(r"\W", "_", name).upper(), text)


def define(symbol, *needs):
    """A source that defines one function, which calls others."""
    declared = "".join(f"int {name}(void);\n" for name in (symbol, *needs))
    return f"{declared}int {symbol}(void)\n{{\n    return 0{''.join(f' + {name}()' for name in needs)};\n}}\n"


def readme(lines, cell="part.[ch]"):
    rows = ["# A room", "| file | what it is |", "|---|---|", f"| {cell} | all |", "", "| bytes | x.y |"]
    return "\n".join(rows + ["A line."] * (lines - len(rows))) + "\n"


def good_tree():
    """path -> text"""
    files = {"README.md": "# All\n", "deploy/README.md": readme(40), "tests/README.md": readme(40)}
    for room in ROOMS:
        symbol = f"{room.replace('/', '_')}_part"
        files[f"{room}/README.md"] = readme(40 if room in TOPS else 10)
        files[f"{room}/Makefile.inc"] = "typedef struct { not C"
        files[f"{room}/part.h"] = header(f"{room}/part.h", f"int {symbol}(void);")
        files[f"{room}/part.c"] = f'#include "{room}/part.h"\n#include "common/part.h"\n' + define(symbol)
    for room in ["loader/tool", "sampler"]:  # two programs, both with a main() and a command_info()
        files[f"{room}/main.c"] = PROGRAM
        files[f"{room}/command_info.c"] = COMMAND
        files[f"{room}/README.md"] = readme(40, "part.[ch], `main.c`; command_*.c")
    for door in set(DOORS) - {"loader/store_open"}:  # that one is a source, below
        files[f"{door}.h"] = header(f"{door}.h", "struct part;")
        files[f"{door.rpartition('/')[0]}/README.md"] = readme(10, f"part.[ch] {Path(door).name}.h")
    files["loader/store_open.c"] = '#include "loader/csv/part.h"\n' + define("store_open", "loader_csv_part")
    files["loader/README.md"] = readme(120, "part.[ch] store_open.c store_apart.h")
    files["sampler/build/part.c"] = define("sampler_build_part", "store_open", "sampler_frame_part")
    files["sampler/frame/part_private.h"] = header("sampler/frame/part_private.h", "struct part;")
    files["sampler/frame/part.c"] = '#include "sampler/frame/part_private.h"\n' + define("sampler_frame_part")
    files["sampler/frame/README.md"] = readme(60, "part*.[ch]")
    files["sampler/api/page.h"] = header("sampler/api/page.h", "extern const char page[];")
    files["sampler/api/README.md"] = readme(10, "part.[ch], page.h")
    files["build/sampler/api/page.c"] = "extern const char page[];\nconst char page[] = {0};\n"
    files["tests/unit/test_part.c"] = "/*\n * Covers common/part: all of it. */\n"
    files["build/common/.libs/gone.o"] = "an object of a source that went away"
    return files


# What is broken; the check that must say so; how it says it; files as they are then (None: not there).
CASES = [
    ("a file of a later room", text_checks.check_includes, "includes .*frame stands on sampler/shuffle",
     {"sampler/frame/part.h": header("sampler/frame/part.h", '#include "sampler/build/part.h"')}),
    ("the sampler includes the trainer", text_checks.check_includes, "sampler stands on",
     {"sampler/main.c": '#include "trainer/run/part.h"\n' + PROGRAM}),
    ("the trainer includes the sampler", text_checks.check_includes, "trainer stands on",
     {"trainer/part.c": '#include "sampler/frame/part.h"\n'}),
    ("the sampler includes the feed", text_checks.check_includes, "batch stands on",
     {"sampler/batch/part.c": '#include "loader/feed/part.h"\n'}),
    ("a kind of store includes another", text_checks.check_includes, "sqlite stands on loader/store",
     {"loader/sqlite/part.c": '#include "loader/csv/part.h"\n'}),
    ("a file beside the door", text_checks.check_includes, "build stands on",
     {"sampler/build/part.c": '#include "loader/part.h"\n'}),
    ("another room's private header", text_checks.check_includes, "private to sampler/frame",
     {"sampler/build/part.c": '#include "sampler/frame/part_private.h"\n'}),
    ("an include that is not from the root", text_checks.check_includes, "from the root",
     {"common/part.c": '#include "part.h"\n'}),
    ("an include that is not there", text_checks.check_includes, "which is not there",
     {"common/part.c": '#include "common/parts.h"\n'}),
    ("a file in no room", text_checks.check_rooms, "in none of the rooms", {"sampler/http/part.c": ""}),
    ("a full room", text_checks.check_rooms, "common holds 41 source files",
     {f"common/part_{i}.{ending}": "" for i in range(40) for ending in "ch"}),
    ("a door without a file", text_checks.check_rooms, "neither a room nor a file", {"loader/store_open.c": None}),
    ("a call of a later room", object_checks.check_calls, "part needs loader_csv_part of loader/csv/part",
     {"common/part.c": define("common_part", "loader_csv_part")}),
    ("an extern table of a later room", object_checks.check_calls, "needs kinds of loader/csv/part",
     {"loader/store/part.c": "extern int kinds[];\nint *loader_store_part(void)\n{\n    return kinds;\n}\n",
      "loader/csv/part.c": "extern int kinds[];\nint kinds[2] = {1, 2};\n"}),
    ("the sampler calls the trainer", object_checks.check_calls, "api stands on",
     {"sampler/api/part.c": define("sampler_api_part", "trainer_run_part")}),
    ("the sampler calls beside the door", object_checks.check_calls, "of loader/part",
     {"sampler/build/part.c": define("sampler_build_part", "loader_part")}),
    ("a call of a generated file above", object_checks.check_calls, "needs page of sampler/api/page",
     {"sampler/batch/part.c": "extern const char page[];\nint part(void);\nint part(void)\n{\n    return *page;\n}\n"}),
    ("two objects in a ring", object_checks.check_rings,
     "2 objects .*common/part, common/pool\n.*part -> common/pool: pool\n.*pool -> common/part: common_part$",
     {"common/part.c": define("common_part", "pool"), "common/pool.c": define("pool", "common_part")}),
    ("three objects in a ring", object_checks.check_rings, "3 objects .*common/a, common/b, common/c\n",
     {f"common/{a}.c": define(a, b) for a, b in ["ab", "bc", "ca"]}),
    ("no build", object_checks.check_built, "tests/run layering", {"build": None}),
    ("a source without an object", object_checks.check_built, "no object of common/part.c,",
     {"build/common/.libs/part.o": None}),
    ("an object older than its source", object_checks.check_built, "no object of common/old.c,",
     {"common/old.c": "", "build/common/old.o": "\x7fELF"}),
    ("a folder without README", readme_checks.check_readmes, "deploy/README.md is not there",
     {"deploy/README.md": None}),
    ("a room without README", readme_checks.check_readmes, "csv/README.md is not there",
     {"loader/csv/README.md": None}),
    ("a short README", readme_checks.check_readmes, "39 lines, at least 40", {"common/README.md": readme(39)}),
    ("a room's short README", readme_checks.check_readmes, "9 lines, at least 10", {"loader/csv/README.md": readme(9)}),
    ("a wide README", readme_checks.check_documents, r"^README.md:1 has 121 char", {"README.md": "ü" * 121 + "\n"}),
    ("a wide README of a room", readme_checks.check_documents, r"^sampler/frame/README.md:4 has 1\d\d characters",
     {"sampler/frame/README.md": readme(10, "part*.[ch] " + " " * 110)}),
    ("a wide document", readme_checks.check_documents, r"^deploy/GUIDE.md:2 has 121 characters",
     {"deploy/GUIDE.md": "# A\n" + "x" * 121 + "\n", "tests/bench/RESULTS.md": "x" * 200}),
    ("a source that no README names", readme_checks.check_tables, "does not name more.h",
     {"common/more.h": "", "common/README.md": readme(40)}),
    ("a .c that only its header's name stands for", readme_checks.check_tables, "does not name part.c",
     {"common/README.md": readme(40, "part.h")}),
    ("a .cu that only its header's name stands for", readme_checks.check_tables, "does not name part.cu",
     {"common/part.cu": ""}),
    ("a README that names what is not there", readme_checks.check_tables, "names lost.h .*not there",
     {"common/README.md": readme(40, "part.[ch], lost.h")}),
    ("a README that names a .c that is not there", readme_checks.check_tables, "names page.c .*not there",
     {"sampler/api/README.md": readme(10, "part.[ch] page.[ch]")}),
    ("a file named outside the table", readme_checks.check_tables, r"does not name part\.[ch]",
     {"common/README.md": readme(40).replace("| file |", "| object |")}),
    ("a comment that names what is not there", text_checks.check_comments, r"part.h:5 names lost.h, which",
     {"common/part.h": header("common/part.h", "/* part.c,\n * lost.h */ int common_part(void);")}),
    ("a comment that names a file of another room", text_checks.check_comments, "names csv/parts.c",
     {"common/part.c": "/* main.c, loader/csv/part.c, comm*.[ch], <time.h>; csv/parts.c */\n"}),
    ("a comment that names a function that is not there", text_checks.check_functions,
     r"^common/part.h:5 names gone\(\), which is not there$",
     {"common/part.h": header("common/part.h", "/* common_part(), pow(), f(x),\n * gone() and _free() */ int common_part(void);")}),
    ("a document that names a function that is not there", text_checks.check_functions,
     r"^sampler/frame/PLAN.md:1 names part_gone\(\)", {"sampler/frame/PLAN.md": "part_gone(), sampler_frame_part()\n"}),
    ("a wide comment", text_checks.check_comment_widths, r"^common/part.c:3 has 101 characters",
     {"common/part.c": f"/* {'x' * 97}\n * {'x' * 98}\n{'x' * 101} */\n"}),
    ("a CUDA header", text_checks.check_cuda, "only [*]_cuda files may", {"common/part.c": "#include <cuda_runtime.h>\n"}),
    ("a CUDA file's name", text_checks.check_cuda, "must be called", {"common/part.cu": ""}),
    ("a header that needs another", text_checks.check_headers, "part.h does not compile alone as c:",
     {"common/part.h": header("common/part.h", "size_t common_part(void);")}),
    ("a public header that is not C++", text_checks.check_headers, "does not compile alone as c[+][+]",
     {"loader/tombola.h": header("tombola.h", "int loader(int new);")}),
    ("a wrong guard", text_checks.check_guards, "COMMON_PART_H around", {"common/part.h": header("part.h", "int part;")}),
    ("a typedef", text_checks.check_typedefs, "typedef of a struct", {"common/part.c": "typedef struct {\n    int a;\n} part;\n"}),
    ("a unit test that names no object", text_checks.check_unit_tests, "test_new.c does not begin",
     {"tests/unit/test_new.c": '#include "common/part.h"\n/* Covers common/part. */\n'}),
    ("a unit test of what is not there", text_checks.check_unit_tests, "covers common/lost, which is not there",
     {"tests/unit/test_part.c": "/* Covers common/lost. */\n"}),
    ("a script without a licence", text_checks.check_licences, "run does not begin with SPDX",
     {"tests/run": f"#!/bin/sh\necho {text_checks.LICENCE.split()[0]}\n"}),
    ("a source without a licence", text_checks.check_licences, "part.js does not begin",
     {"sampler/api/part.js": f"\n// {text_checks.LICENCE}\n"}),
    ("an exit", text_checks.check_exit, "ends the process", {"common/part.c": "void part(void)\n{\n    exit(1);\n}\n"}),
]


def write(root, files):
    """Sources of C get the line of the licence first."""
    for name, text in files.items():
        path = root / name
        if text is None:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            licence = f"/* {text_checks.LICENCE} */\n" if path.suffix in (".c", ".h", ".cu", ".inc") else ""
            path.write_text(licence + text)


def compile_sources(root, names):
    for name in names:
        path = root / "build" / Path(name.removeprefix("build/")).parent / ".libs" / f"{Path(name).stem}.o"
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", f"-I{root}", "-c", "-o", path, root / name], check=True)


def tree_of(root, files, compiled):
    write(root, files)
    compile_sources(root, [name for name in compiled if name.endswith(".c") and files[name] is not None])
    if "common/old.c" in files:
        os.utime(root / "build/common/old.o", (0, 0))
    return Tree(root, root / "build")


def run(checks):
    """TAP: the good tree, then every case; then that no check is without a case."""
    failures = []

    def result(name, problems):
        failures.extend(problems)
        results.append(name)
        print(f"{'not ok' if problems else 'ok'} {len(results)} - {name}")
        print("".join(f"# {line}\n" for problem in problems for line in problem.splitlines()), end="")

    results = []
    print(f"1..{len(CASES) + 2}")
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder) / "good"
        files = good_tree()
        tree = tree_of(good, files, files)
        result("a tree that keeps to all rules", [problem for check in checks for problem in check(tree)])
        for number, (name, check, words, changes) in enumerate(CASES):
            root = Path(folder) / str(number)
            shutil.copytree(good, root)
            on_objects = check in (object_checks.check_calls, object_checks.check_rings)
            found = list(check(tree_of(root, changes, changes if on_objects else [])))
            wrong = [f"found instead: {problem}" for problem in found if not re.search(words, problem, re.DOTALL)]
            result(f"found: {name}", wrong if found else ["nothing was found"])
    cased = {check for _, check, _, _ in CASES}
    result("every check has a case", [f"{check.__name__} has none" for check in checks if check not in cased])
    return 1 if failures else 0
