# SPDX-License-Identifier: MIT
"""The builds: which there are, how each is configured, and ccache in front of their compilers where it is.

Objects in ccache are found again from any clone: paths in commands and debug information are relative to the tree.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from places import BUILD, LOGS, ROOT
from step import Step

CCACHE = Path("/usr/lib/ccache")  # compilers' names, each a link to ccache
RELATIVE = f"-ffile-prefix-map={ROOT}=."
# libtool is a shell script: one that a small shell runs takes half the time.
SHELL = ["env", "CONFIG_SHELL=/bin/dash", "/bin/dash"] if Path("/bin/dash").exists() else []
# Of the sanitizers' hundred programs each takes a third of the time to link that GNU ld needs.
LINKER = next((f"LDFLAGS=-fuse-ld={name}" for name in ("lld", "gold") if shutil.which(f"ld.{name}")), "LDFLAGS=")
# A program starts thousands of times, and spends that in page faults: those of 100,000 relocations of descriptions that
# the sanitizers read when something is wrong, and those of libubsan's empty tables, which the leak checker looks through.
QUICK_START = f"{LINKER} -no-pie -static-libubsan"
GENERATED = ("configure", "Makefile.in", "config.h.in", "build-aux/ltmain.sh")


def compiler_environment():
    if not CCACHE.is_dir():
        return {}
    return {"PATH": f"{CCACHE}:{os.environ['PATH']}", "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1",
            "LC_ALL": "C.UTF-8"}


class Build:
    """A folder, how it is configured, and what a program of it needs to run."""

    def __init__(self, name, arguments, flags="-g1 -O1", targets=("all",), before=None):
        self.name, self.folder, self.targets, self.before = name, ROOT / name, targets, before
        self.arguments = [*arguments, f"CFLAGS={flags} {RELATIVE}"]
        self.environment, self.prefix = {}, []

    def step(self):
        return Step(self.name, self.work, needs=["autoreconf"])

    def work(self, step):
        self.folder.mkdir(exist_ok=True)
        if self.before and self.before(step, self) != 0:
            step.fail(f"{self.name} cannot be prepared")
        elif self.configure(step) != 0:
            step.fail(f"{self.name} cannot be configured")
        elif self.make(step, *self.targets) != 0:
            step.fail(f"{self.name} does not compile")

    def is_configured(self):
        """With other arguments it is configured again; so it is when it knew of no cmocka."""
        note, makefile = self.folder / "configured-with", self.folder / "Makefile"
        if not makefile.exists() or "\nCMOCKA_LIBS = -" not in makefile.read_text():
            return False
        return note.exists() and note.read_text() == self.note()

    def note(self):
        return " ".join(self.arguments)

    def configure(self, step):
        if self.is_configured():
            return 0
        status = step.compute([*SHELL, "../configure", *self.arguments], cwd=self.folder, env=compiler_environment())
        if status == 0:
            (self.folder / "configured-with").write_text(self.note())
        return status

    def make(self, step, *targets, env=None, **more):
        return step.make(self.folder, *targets, env={**(env or {}), **compiler_environment()}, **more)


class PlainBuild(Build):
    """build/ belongs to the person, too: however it was configured, it stays so."""

    def is_configured(self):
        makefile = self.folder / "Makefile"
        return makefile.exists() and "\nCMOCKA_LIBS = -" in makefile.read_text()


def emulate_cuda(step, build):
    """What is written for a GPU runs there on an emulated one, where the sanitizers see it too."""
    toolkit = build.folder / "cuda"
    toolkit.mkdir(exist_ok=True)
    return step.compute([ROOT / "tests/cuda/toolkit", toolkit, "-fsanitize=address,undefined,float-cast-overflow",
                         "-fno-sanitize-recover=all", "-static-libubsan"])


def autoreconf(step):
    """Only a tree from version control lacks these; afterwards make keeps them fresh itself."""
    if not all((ROOT / name).exists() for name in GENERATED) and step.compute(["autoreconf", "-fi", ROOT]) != 0:
        step.fail("autoreconf failed")


PLAIN = PlainBuild("build", ["--enable-werror", LINKER], "-g -O2")
ASAN = Build("build-asan", ["--enable-sanitizers=address,undefined", f"--with-cuda={ROOT}/build-asan/cuda", QUICK_START],
             before=emulate_cuda)
ASAN.environment = {"LD_LIBRARY_PATH": f"{ROOT}/build-asan/cuda/lib64"}
TSAN = Build("build-tsan", ["--enable-sanitizers=thread", "--without-cuda", LINKER])
COVERAGE = Build("build-coverage", ["--enable-coverage", "--without-cuda", LINKER])
FUZZ = Build("build-fuzz", ["CC=clang", "CXX=clang++", "--enable-fuzz", "--without-cuda", LINKER], targets=["fuzz"])
if subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode == 0:
    TSAN.prefix = ["setarch", "-R"]  # where the kernel spreads addresses widely, the sanitizer only works without

BUILDS = [PLAIN, ASAN, TSAN, FUZZ, COVERAGE]
SANITIZED = [build.name for build in (ASAN, TSAN, FUZZ, COVERAGE)]  # the other parts go on without them


def steps():
    return [Step("autoreconf", autoreconf), *(build.step() for build in BUILDS)]


def objects_step():
    """The objects of what `make check` runs, not linked: links.py reads them."""
    def work(step):
        if PLAIN.make(step, "test-objects") != 0:
            step.fail("the tests do not compile")

    return Step("objects", work, needs=[PLAIN.name])


def claim():
    """The lock on build/, kept until the process ends; None where another run has it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = open(LOGS / "lock", "w", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return lock
