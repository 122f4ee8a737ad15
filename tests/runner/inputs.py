# SPDX-License-Identifier: MIT
"""All that the result of a test can depend on, as texts to be hashed: rather too much than too little.

The machine and the day count for every test. A unit program is made of its bytes; a test of pytest of its text, what
tests share, and the programs and files of the tree that its text leads to.
"""

import functools
import hashlib
import importlib.metadata
import os
import re
import subprocess
import time

from places import IN_MEMORY, JOBS, ROOT
from selection import stem

# Variables of the environment that differ from login to login, or from run to run.
PASSING = re.compile(r"_|(OLD)?PWD|SHLVL|TERM.*|COLUMNS|LINES|DISPLAY|SSH_.*|DBUS_.*|XDG_SESSION_.*|INVOCATION_ID|"
                     r"JOURNAL_STREAM|(GITHUB|RUNNER|CI)_.*|TOMBOLA_COSTS")
TEST = re.compile(r"tests/(service|fault)/test_\w+\.py|tests/unit/test_\w+\.c|tests/fuzz/.*")
HARNESS = re.compile(r"tests/([^/]+|(runner|sanitizers|cuda|service|fault)/.*|unit/(tap|unit(_threads)?\.h)|bench/peers\.txt)")
PYTEST = re.compile(r"tests/(service|fault)/")
# Those that only conftest.py uses are no module that a test names.
MODULE = re.compile(r"tests/(service|fault)/(?!(conftest|costs|limits|outcomes|skips)\.py)\w+\.py")
SOURCE = re.compile(r".*\.(c|h|cc|cu|inc|md)")
# Places that HARNESS has; of the others only these two folders, in a test that compiles nothing, go without the sources.
SHARED = re.compile(r'\bROOT / "tests"?(/| / ")(service|fault|preloaded|pypi)\b|\bROOT\.parent / "shared"|'
                    r'__file__\)\.resolve\(\)\.(with_name|parents\[1\] / "service"|parent\.parent / "cuda")')
PLACE = re.compile(r"\bROOT\b|__file__")
NEAR = re.compile(r'(\)\.resolve\(\)\.parents\[2\])?\W{0,3}/ ?"?(deploy|tests)\b')
COMPILES = re.compile(r"[\"'](gcc|cc|g\+\+|make|git|autoreconf)\b|\bconfigure\b|setup\.py|\.md\b")
ANY_PROGRAM = re.compile(r"\bBUILD\b|[(, ]build[,) ]")
MNIST = ROOT.parent / "shared/data/mnist"


def said_by(*command, **more):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, **more).stdout


def first_lines(path, *names):
    """Of a file of /proc: the first line that begins with each name."""
    with open(path, encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    return [next((line for line in lines if line.startswith(name)), "") for name in names]


def day():
    """Since 1970; seeds change with it."""
    return int(time.time() // 86400)


@functools.lru_cache(maxsize=None)
def machine():
    """Kernel, processors, memory, packages of Debian and of Python, environment."""
    python = sorted(f"{each.metadata['Name']} {each.version}" for each in importlib.metadata.distributions())
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if not PASSING.fullmatch(name))
    data = sorted(f"{path.name} {path.stat().st_size}" for path in MNIST.glob("*"))
    return "\n".join([os.uname().release, os.uname().machine, str(JOBS), str(IN_MEMORY),
                      *first_lines("/proc/cpuinfo", "model name", "flags"), *first_lines("/proc/meminfo", "MemTotal"),
                      *first_lines("/proc/self/limits", "Max open files"), said_by("dpkg-query", "-W"),
                      *python, *variables, *data])


def setting(build, folder, *words):
    """What holds for all tests of tests/FOLDER in a build: `words` are those of the command, and its variables."""
    environment = {**os.environ, **IN_MEMORY, "TOMBOLA_BUILD": str(build.folder)}
    skips = said_by(ROOT / "tests/skips", f"{folder}/", env=environment) if folder else ""
    texts = [day(), machine(), skips, build.name, build.note(), build.prefix, build.environment, *words]
    return "\n".join(map(str, texts)).replace(str(ROOT), ".")


@functools.lru_cache(maxsize=None)
def digest_of(path, mode, *_state):
    return hashlib.sha256(b"%o " % mode + path.read_bytes()).digest()


def digest(path):
    """Of a file as it is now; it is read again when it was written."""
    state = path.stat()
    return digest_of(path, state.st_mode & 0o111, state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)


def tree():
    """The files of the tree, relative to the root; none if git does not know them."""
    listed = said_by("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted({name for name in listed.split("\0") if (ROOT / name).is_file()})


def texts_of(paths):
    """The bytes of files, and where they are."""
    return b"".join(os.fsencode(os.path.relpath(path, ROOT)) + b"\0" + digest(path) for path in paths)


def of_tree(files=None):
    return texts_of(ROOT / name for name in (tree() if files is None else files))


def libraries(build):
    return [path for room in ("loader/.libs", "loader/parquet") for path in sorted((build.folder / room).glob("*.so"))]


def shared_text(build, files):
    """Those of `files` that every test has to do with, and how the build is configured."""
    shared = [name for name in files if HARNESS.fullmatch(name) and not name.endswith(".md")]
    return of_tree(shared) + texts_of([build.folder / "config.h"])


def of_programs(build, programs):
    """{program: text}. One that is linked with our library is in .libs, and a script in its place."""
    files, found = tree(), {}
    shared = shared_text(build, [name for name in files if not PYTEST.match(name)])
    for program in programs:
        path = build.folder / program
        real = path.parent / ".libs" / path.name
        corpus = f"tests/fuzz/corpus/{path.name.removeprefix('fuzz_')}/"
        found[program] = shared + texts_of([path, *([real, *libraries(build)] if real.exists() else [])]) + of_tree(
            name for name in files if name.startswith(corpus))
    return found


class Reading:
    """What a test of pytest reads, by its text and that of the modules beside it which it names, tests or not."""

    def __init__(self, test, modules):
        """`modules`: {path: text}."""
        self.modules = [test]
        for path in self.modules:  # which grows
            words = set(re.findall(r"\w+", modules[path]))
            self.modules += [other for other in modules if stem(other) in words and other not in self.modules]
        text = "\n".join(modules[path] for path in self.modules)
        text = SHARED.sub("", re.sub(r"^(from|import) .*", "", text, flags=re.MULTILINE))
        places = [NEAR.match(text, found.end()) for found in PLACE.finditer(text)]
        self.is_of_tree = bool(places)
        self.is_of_all_programs = self.is_of_tree or bool(ANY_PROGRAM.search(text))
        self.is_of_sources = not all(places) or self.is_of_all_programs and bool(COMPILES.search(text))
        self.text = text.lower()

    def programs(self, build):
        """Demo data, and more, is made by the loader for every test."""
        names = [name for name in ("sampler", "trainer") if self.is_of_all_programs or name in self.text]
        return [build.folder / name / f"tombola-{name}" for name in ("loader", *names)] + libraries(build)

    def files(self, files):
        """Those of the tree that count, beside the test and what all tests share."""
        if self.is_of_sources:
            return files
        return [name for name in files if not SOURCE.fullmatch(name)] if self.is_of_tree else []


def of_tests(build, words):
    """{word: text} of tests/service/test_X.py, or one test in it."""
    everything, found = tree(), {}
    files = [name for name in everything if not TEST.fullmatch(name)]
    shared = shared_text(build, files)
    modules = {name: (ROOT / name).read_text() for name in everything if MODULE.fullmatch(name)}
    readings = {test: Reading(test, modules) for test in {word.partition("::")[0] for word in words}}
    for word in words:
        reading = readings[word.partition("::")[0]]
        found[word] = shared + texts_of(reading.programs(build)) + of_tree(reading.modules + reading.files(files))
    return found
