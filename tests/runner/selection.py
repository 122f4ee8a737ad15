# SPDX-License-Identifier: MIT
"""What a run is to do: parts, and within them the files that were named, or that folders and changes lead to.
No names: everything.
"""

import re
from fnmatch import fnmatchcase

from places import ROOT

KINDS = {"unit": ("tests/unit", ".c"), "service": ("tests/service", ".py"), "fault": ("tests/fault", ".py"),
         "fuzz": ("tests/fuzz", ".c")}
FOLDERS = ("common", "loader", "sampler", "trainer", "deploy")


class BadUsage(Exception):
    pass


def all_tests(part):
    """Paths of the tests of a part from the root: programs without ending, pytest's files with theirs."""
    folder, ending = KINDS[part]
    names = sorted(path.name for path in (ROOT / folder).glob(f"*{ending}") if path.name.startswith(("test_", "fuzz_")))
    return [f"{folder}/{name.removesuffix('.c')}" for name in names]


def all_programs():
    """What `make check` runs."""
    return all_tests("unit") + all_tests("fuzz")


def stem(path):
    return path.rpartition("/")[2].partition(".")[0]


def expand(word):
    """`test_{a,b}.c` -> test_a.c, test_b.c"""
    head, _, rest = word.partition("{")
    inner, brace, tail = rest.partition("}")
    return [head + middle + tail for middle in inner.split(",")] if brace else [word]


def named_tests(part, text):
    """The tests of a part that a README names: test_X, tests/service/test_{X,Y}.py, test_http_*; or tests/fault."""
    if part == "fault" and re.search(r"\btests/fault\b(?!/)", text):
        return all_tests(part)
    words = [each for word in re.findall(r"\btest_[\w*{},]+", text) for each in expand(word.rstrip(","))]
    return [path for path in all_tests(part) if any(fnmatchcase(stem(path), word) for word in words)]


class Selection:
    """`tests`: part -> the tests of it that were chosen; empty: all of them."""

    def __init__(self, arguments, all_parts):
        self.parts, self.folders = [], []
        self.keeps = False  # whether tests that passed before with the same inputs are left out
        self.tests = {part: [] for part in KINDS}
        for argument in arguments:
            folder = argument.rstrip("/")
            if argument in all_parts:
                self.take_part(argument)
            elif folder.split("/")[0] in FOLDERS and (ROOT / folder).is_dir():
                self.folders.append(folder)
            elif not self.take_file(argument):
                raise BadUsage(f"there is no part, no test file and no folder of sources '{argument}'")

    def take_all(self, all_parts):
        self.parts = list(all_parts)
        self.tests = {part: [] for part in KINDS}

    @property
    def is_empty(self):
        return not self.parts and not self.folders

    @property
    def is_of_whole_parts(self):
        return not self.folders and not any(self.tests.values())

    def may_keep(self, options, is_long):
        """Whether tests that passed before may be left out: not where a person named them."""
        return self.is_empty and not is_long and "--fresh" not in options

    def take_part(self, *parts):
        self.parts += [part for part in parts if part not in self.parts]

    def take(self, part, tests):
        self.tests[part] += [test for test in tests if test not in self.tests[part]]
        if tests:
            self.take_part(part)

    def take_file(self, argument):
        """A test file's name, with or without folder and ending."""
        found = [(part, test) for part in KINDS for test in all_tests(part) if stem(test) == stem(argument)]
        for part, test in found[:1]:
            self.take(part, [test])
        return bool(found)

    def take_folders(self, links):
        """What covers the folders: the programs that link an object of theirs, the tests that their READMEs name."""
        for folder in self.folders:
            self.take("unit", [test for test in all_programs() if covers(test, folder, links)])
            self.take_named(folder)
            self.take_part("layering", "lint")

    def take_named(self, folder):
        """The tests that the READMEs of a folder name."""
        for readme in sorted((ROOT / folder).rglob("README.md")):
            for part in ("service", "fault"):
                self.take(part, named_tests(part, readme.read_text()))

    # `asan test_json` runs only that file there: a kind of which no file was named is left out.
    def wants(self, part):
        return bool(self.tests[part]) or not (self.tests["unit"] or self.tests["service"])

    def lints(self, file):
        return not self.folders or file.startswith(tuple(f"{folder}/" for folder in self.folders))


def covers(test, folder, links):
    """Whether a program of `make check` links an object of the folder, or names it in its first line."""
    first = (ROOT / f"{test}.c").read_text().partition("\n")[0]
    return folder in first or any(f"{room}/".startswith(f"{folder}/") for room in links.rooms(test))
