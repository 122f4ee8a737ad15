# SPDX-License-Identifier: MIT
"""What each program of `make check` is made of: the objects that the linker takes for it, by their symbols, and the
files that make read for those objects. Complete rather than exact: where several objects define a symbol, all count.
"""

import re
import sys
from collections import defaultdict

from places import ROOT

sys.path.append(str(ROOT / "tests/layering"))
from object_checks import symbols_of  # noqa: E402
from tree import Tree  # noqa: E402

THREADS = {"pthread_create", "thrd_create"}


def object_of(program):
    """A test program's own object, as make names it."""
    return f"{program}.o"


class Links:
    """Of a build that has been made, with the objects of `programs` (tests/unit/test_X, tests/fuzz/fuzz_X)."""

    def __init__(self, build, programs):
        self.folder = build.folder
        self.objects = Tree(ROOT, self.folder).objects()
        self.objects.update({program: self.folder / object_of(program) for program in programs})
        defined, lacked = symbols_of(self.objects)
        self.defined, self.lacks = defined, defaultdict(set)
        for symbol, users in lacked.items():
            for user in users:
                self.lacks[user].add(symbol)

    def linked(self, name):
        """The names of all objects that a program consists of, or that an object brings with it."""
        found, left = {name}, [name]
        while left:
            user = left.pop()
            for symbol in self.lacks[user]:
                new = self.definers(symbol, user) - found
                found |= new
                left += new
        return found

    def definers(self, symbol, user):
        """Programs have main() and some commands each: an object needs that of its own program."""
        found = {name for name in self.defined[symbol] if not name.startswith("tests/")}
        return {name for name in found if name.split("/")[0] == user.split("/")[0]} or found

    def starts_threads(self, program):
        return any(not THREADS.isdisjoint(self.lacks[name]) for name in self.linked(program))

    def rooms(self, program):
        return {name.rpartition("/")[0] for name in self.linked(program)}

    def files_of_program(self, name):
        """The same of tombola-NAME: what is linked begins with its main()."""
        return self.files("loader/tool/main" if name == "loader" else f"{name}/main")

    def files(self, program):
        """Every file of the tree that make read for the program: sources and headers, relative to the root."""
        return {file for name in self.linked(program) for file in self.read_for(name)}

    def read_for(self, name):
        """From the note that automake keeps beside an object."""
        path = self.objects[name]
        folder = path.parent.parent if path.parent.name == ".libs" else path.parent
        for ending in (".Plo", ".Po"):
            note = folder / ".deps" / f"{path.stem}{ending}"
            if note.exists():
                words = re.split(r"[\s\\]+", note.read_text())
                paths = {(self.folder / word.rstrip(":")).resolve() for word in words if word}
                return {path.relative_to(ROOT).as_posix() for path in paths
                        if path.is_relative_to(ROOT) and not path.is_relative_to(self.folder)}
        return set()
