# SPDX-License-Identifier: MIT
"""What every folder's README must be: there, readable, and complete.

Its table of files is every table whose first heading is `file`. A first cell names files: words with a
dot in them, each a pattern in that folder; `name.[ch]` is name.c and name.h. Each word must match a file,
and each source file must be matched.
"""

import re
from fnmatch import fnmatchcase

from rooms import ROOMS, TOPS
from tree import is_source

HOUSES = TOPS + ["deploy", "tests"]
LEAST_LINES = {True: 40, False: 10}  # of a house, of a room in it
WIDTH = 120
GENERATED = {"RESULTS.md"}  # tables of the benchmarks


def readmes(tree):
    """The folders that must have one, and those that have one."""
    others = (path.parent for house in ["deploy", "tests"] for path in (tree.root / house).glob("*/README.md"))
    return HOUSES + [room for room in ROOMS if room not in HOUSES] + sorted(map(tree.name, others))


def check_readmes(tree):
    for folder in readmes(tree):
        path = tree.root / folder / "README.md"
        if not path.is_file():
            yield f"{folder}/README.md is not there"
            continue
        least = LEAST_LINES[folder in HOUSES]
        count = len(path.read_text().splitlines())
        if count < least:
            yield f"{folder}/README.md has {count} lines, at least {least} are right"


def check_documents(tree):
    """Every .md but those of builds."""
    folders = [path for path in tree.root.iterdir() if path.is_dir() and path.name[0] != "." and not path.name.startswith("build")]
    for path in sorted([*tree.root.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]):
        for number, line in enumerate(path.read_text().splitlines() if path.name not in GENERATED else [], 1):
            if len(line) > WIDTH:
                yield f"{tree.name(path)}:{number} has {len(line)} characters, {WIDTH} at most are right"


def named_files(text):
    """The words of the first cells of all tables of files, `name.[ch]` as two of them."""
    in_table = False
    for line in text.splitlines():
        cell = line.split("|")[1].strip() if line.startswith("|") and line.count("|") > 1 else None
        in_table = cell is not None and (in_table or cell == "file")
        for word in re.split(r"[\s,;`]+", cell) if in_table else []:
            if "." in word:
                yield from (word.replace("[ch]", ending) for ending in ("c", "h")) if "[ch]" in word else [word]


def check_tables(tree):
    for room in ROOMS:
        path = tree.root / room / "README.md"
        if not path.is_file():
            continue  # check_readmes says so
        words = list(named_files(path.read_text()))
        for word in words:
            if not list((tree.root / room).glob(word)):
                yield f"{room}/README.md names {word} in its table of files, which is not there"
        for source in sorted(filter(is_source, (tree.root / room).glob("*"))):
            if not any(fnmatchcase(source.name, word) for word in words):
                yield f"{room}/README.md does not name {source.name} in its table of files"
