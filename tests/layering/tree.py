# SPDX-License-Identifier: MIT
"""A source tree and its build: which files there are, and which objects were made of them."""

import os
import re
from pathlib import Path

from rooms import ROOMS, room_of

SOURCE_ENDINGS = (".c", ".h", ".cu", ".inc")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


class Tree:
    def __init__(self, root, build):
        self.root = Path(root)
        self.build = Path(build)

    def name(self, path):
        return path.relative_to(self.root).as_posix()

    def files(self):
        """All but those of builds, whose tests make and mount things while this looks; by their path from the root."""
        for folder, below, names in os.walk(self.root):
            if Path(folder) == self.root:
                below[:] = [name for name in below if name == "build-aux" or not name.startswith(("build", "."))]
            yield from (Path(folder, name).relative_to(self.root) for name in names)

    def sources(self, *endings):
        """Files of the rooms with these endings, or all."""
        paths = (path for room in ROOMS for path in (self.root / room).glob("*"))
        return sorted(path for path in paths if is_source(path) and path.suffix in (endings or SOURCE_ENDINGS))

    def objects(self):
        """Names of sources without ending -> their object. Objects of sources that went away do not count,
        nor those that are older than their source."""
        found = {}
        for room in ROOMS:
            for path in [*(self.build / room).glob("*.o"), *(self.build / room).glob(".libs/*.o")]:
                name = f"{room}/{path.stem.split('-')[-1]}"  # libtool: libX_la-NAME.o
                source = self.compiled(name)
                if source and path.stat().st_mtime >= source.stat().st_mtime:
                    found[name] = path
        return found

    def compiled(self, name):
        """The file that this object is compiled from. A generated one is in the build, its header in the tree."""
        generated = self.build / f"{name}.c" if (self.root / f"{name}.h").is_file() else None
        paths = [self.root / f"{name}.c", self.root / f"{name}.cu", generated]
        return next((path for path in paths if path and path.is_file()), None)

    def without_object(self):
        """Sources of which the build must have an object, and has none that is newer."""
        objects = self.objects()
        names = [self.name(path) for path in self.sources(".c", ".cu") if not is_optional(path)]
        return [name for name in names if name.rpartition(".")[0] not in objects]


def is_source(path):
    return path.suffix in SOURCE_ENDINGS and path.name != "Makefile.inc"


def is_cuda(path):
    return path.stem.endswith("_cuda")


def is_optional(path):
    """Compiled only where CUDA or libpq is, or by setup.py."""
    return is_cuda(path) or room_of(path.as_posix()).endswith(("loader/postgres", "loader/python"))


def comments_of(path):
    """Line number and text of each line of a comment."""
    text = path.read_text()
    for found in COMMENT_OR_TEXT.finditer(text):
        if found[0][0] == "/":
            first = text.count("\n", 0, found.start()) + 1
            yield from enumerate(found[0].splitlines(), first)


def code_of(path):
    """The text without comments; strings emptied, lines kept."""
    keep = lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else '""'
    return COMMENT_OR_TEXT.sub(keep, path.read_text())
