# SPDX-License-Identifier: MIT
"""Builds of a copy of the tree, and what one mutation makes of them.

A Build is made by configure and make like any other and never changed by a mutation. make's log tells how each
object is compiled and each program linked, and a Bench repeats the two commands that a mutation needs: make
itself would pack every archive that holds the object again, which takes longer than the tests.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from functools import lru_cache
from pathlib import Path

JOBS = max(1, len(os.sched_getaffinity(0)))
LOOK_S = 0.5  # after which a program that runs is looked at
LINKER = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []  # a third of the time of GNU ld


class BuildError(Exception):
    pass


def environment(**more):
    """As of whoever runs it, without what would change how programs of the project behave."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TOMBOLA_", "MAKE"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **{key: str(value) for key, value in more.items()}}


def execute(command, limit, has_failed=lambda: False, **options):
    """Exit status, seconds are the caller's; None: it ran into the limit and was killed with all that it started.
    What `has_failed` meanwhile is ended as well: 1."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    ends = time.monotonic() + limit
    try:
        while (left := ends - time.monotonic()) > 0:
            try:
                return process.wait(min(left, LOOK_S))
            except subprocess.TimeoutExpired:
                if has_failed():
                    return 1
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def copy_tree(root, target, only=""):
    """Brings a copy up to date: what git knows or would take, below `only`. What is the same keeps its time."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard", "--", only or "."],
                            stdout=subprocess.PIPE, check=True, text=True).stdout
    names = {name for name in listed.split("\0") if name and (root / name).is_file()}
    noted = target / ".copied"
    for name in set(noted.read_text().splitlines() if noted.exists() else []) - names:
        if name.startswith(only):
            (target / name).unlink(missing_ok=True)
    for name in names:
        path = target / name
        if not path.is_file() or path.read_bytes() != (root / name).read_bytes():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, path)
    noted.write_text("\n".join(sorted(names)))
    if not (target / "configure").exists():
        subprocess.run(["autoreconf", "-fi"], cwd=target, check=True, stderr=subprocess.DEVNULL)


class Build:
    """`tree` beside `folder`, configured with `flags`."""

    def __init__(self, tree, folder, flags):
        self.tree, self.folder, self.flags = tree, folder, flags
        self.compiles = {}  # source -> command; paths are from the tree, commands run in `folder`
        self.links = {}  # program or shared library -> command

    def make(self, progress):
        """Complete and up to date. What cannot be built is missing in `links`, which a caller sees."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "make.log"
        if not (self.folder / "Makefile").exists():
            progress(f"configuring {self.folder.name}")
            self.command([f"../{self.tree.name}/configure", *compilers(), *self.flags], "w")
        progress(f"building {self.folder.name}")
        # Not "all" beside it: two makes would write the same objects at the same time.
        self.command(["make", "-k", "-j", str(JOBS), "V=1", "check", "TESTS="], "a")
        self.read_log(log.read_text(errors="replace"))

    def command(self, command, mode):
        with open(self.folder / "make.log", mode) as log:
            made = subprocess.run(command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, check=False,
                                  env=environment(CCACHE_NOHASHDIR="1"))
        if made.returncode and command[0] != "make":
            raise BuildError(f"{command[0]} failed: see {self.folder}/make.log")

    def read_log(self, text):
        """The last command that made a thing is how it is made."""
        for line in text.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("libtool: compile:").removeprefix("libtool: link:").strip()
            if not re.match(r"(ccache )?\S*g?cc ", line) or " -o " not in line:
                continue
            words = shlex.split(line.split(" &&")[0].split(" `")[0])
            words = words[1:] if words[0] == "ccache" else words
            if "-c" not in words:
                self.links[words[words.index("-o") + 1]] = words
            else:
                source = next((word for word in words if word.endswith(".c")), None)
                if source:
                    self.compiles[os.path.relpath(self.folder / source, self.tree)] = words

    def object_of(self, source):
        words = self.compiles[source]
        return words[words.index("-o") + 1]

    def parse_arguments(self, source):
        """What libclang must know to read it."""
        words = [word for word in self.compiles[source] if re.match(r"-[DIU]|-std|-m", word)]
        return [f"-I{self.folder / word[2:]}" if word.startswith("-I") else word for word in words]

    @lru_cache
    def files_in(self, program):
        """Names without folder of the sources that are in a program."""
        symbols = subprocess.run(["readelf", "-sW", program], cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                 check=False).stdout
        return {words[-1] for words in map(str.split, symbols.splitlines()) if len(words) == 8 and words[3] == "FILE"}

    def programs_with(self, source, programs):
        return [program for program in programs if Path(source).name in self.files_in(program)]


def compilers():
    prefix = "ccache " if shutil.which("ccache") else ""
    return [f"CC={prefix}gcc", f"CXX={prefix}g++"]


class Bench:
    """One worker's view of a build: the same programs, but for those that hold the mutated object."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.objects = {}  # source -> its object as it is
        self.source = None
        self.flags = []  # of compiler and linker, for the mutation at hand
        self.linked = {}  # program -> whether it could be linked with this mutation
        shutil.rmtree(folder, ignore_errors=True)
        self.show(build.folder, folder)

    def show(self, real, shown):
        """A folder of links to what is in the real one; those that hold programs are folders here too."""
        shown.mkdir(parents=True)
        deep = {str(parent) for program in self.build.links for parent in Path(program).parents}
        for path in real.iterdir():
            if str(path.relative_to(self.build.folder)) in deep:
                self.show(path, shown / path.name)
            elif path.is_symlink():
                (shown / path.name).symlink_to(os.readlink(path))
            else:
                (shown / path.name).symlink_to(path)

    def restore(self):
        for program in self.linked:
            (self.folder / program).unlink(missing_ok=True)
            (self.folder / program).symlink_to(self.build.folder / program)
        self.linked = {}

    def compile(self, source, text):
        """The object's bytes; None: it does not compile. Programs of another text are forgotten."""
        self.restore()
        path = self.folder / "mutant" / Path(source).name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        words, drop = [], False
        for word in self.build.compiles[source]:
            if drop:
                drop = False
            elif word in ("-MT", "-MF", "-o"):
                drop = True
            elif word not in ("-MD", "-MP", "-g") and not word.startswith("-W"):
                words.append(str(path) if word.endswith(".c") else word)
        self.object = path.with_suffix(".o")
        self.object.unlink(missing_ok=True)
        self.source = source
        execute([*words, *self.flags, "-w", "-o", self.object], 300, cwd=self.build.folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
        return self.object.read_bytes() if self.object.exists() else None

    def is_equivalent(self, source, text):
        """Whether this text compiles to the object that the file as it is compiles to; None: not at all.
        Without -g an object holds nothing but code, data and names."""
        if source not in self.objects:
            self.objects[source] = self.compile(source, (self.build.tree / source).read_bytes())
        made = self.compile(source, text)
        return None if made is None else made == self.objects[source]

    def link(self, program):
        """The program with the object that was compiled last; False: it cannot be linked."""
        if program not in self.linked:
            output = self.folder / program
            words = list(self.build.links[program])
            at = words.index("-o")
            words[at + 1] = str(output)
            own = self.build.object_of(self.source)
            if own in words:
                words[words.index(own)] = str(self.object)
            else:  # what comes first is taken, the archive's member is left out or, in a shared library, not called
                words[at + 2 : at + 2] = [str(self.object), "-Wl,-z,muldefs"]
            output.unlink(missing_ok=True)
            status = execute([*words, *LINKER, *self.flags], 300, cwd=self.build.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.linked[program] = status == 0
        return self.linked[program]
