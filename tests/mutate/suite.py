# SPDX-License-Identifier: MIT
"""The tests that can catch a mutation, and how one of them is run."""

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from build import environment, execute

# These build the tree themselves, or never start a program of it.
LEFT_OUT = {"test_install", "test_packages", "test_quickstart"}


@dataclass(frozen=True)
class Test:
    name: str  # unit/test_X, fuzz/fuzz_X, service/test_X
    path: str  # of its source, from the tree

    @property
    def is_service(self):
        return self.name.startswith("service/")

    def programs(self, build):
        """Those of which a mutation could be seen by this test."""
        shared = [program for program in build.links if ".so" in program]
        if self.is_service:
            return shared + [program for program in build.links if not program.startswith("tests/")]
        own = f"tests/{self.name}"
        return shared if own not in build.links else [own]


def all_tests(tree):
    paths = [*tree.glob("tests/unit/test_*.c"), *tree.glob("tests/fuzz/fuzz_*.c"), *tree.glob("tests/service/test_*.py")]
    tests = [Test(f"{path.parent.name}/{path.stem}", str(path.relative_to(tree))) for path in paths if path.stem not in LEFT_OUT]
    return sorted(tests, key=lambda test: (test.is_service, test.name))


def sanitizer_options(tree):
    """As tests/run sets them."""
    folder = tree / "tests/sanitizers"
    return {
        "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=0",
        "LSAN_OPTIONS": f"suppressions={folder}/lsan.supp:print_suppressions=0",
    }


def run_test(test, tree, build, log, limit, without=(), all_of_it=False, **more):
    """(exit status, seconds); None: it ran into the limit. `build`: the folder with the programs; `without`: names
    of single service tests. It stops at the first failure unless `all_of_it`."""
    if test.is_service:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-m", "not heavy", tree / test.path]
        command += [] if all_of_it else ["-x"]
        command += ["-k", " and ".join(f"not {name}" for name in without)] if without else []
    else:
        libtools = build / "tests" / Path(test.name).parent / ".libs" / Path(test.name).name
        command = [libtools if libtools.exists() else build / "tests" / test.name]
        more["LD_LIBRARY_PATH"] = f"{build}/loader/.libs"
    started = time.monotonic()
    # A short path: a socket of PostgreSQL lies below it.
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as scratch, open(log, "wb") as output:
        os.chmod(scratch, 0o755)
        env = environment(TMPDIR=scratch, TOMBOLA_BUILD=build, srcdir=os.path.relpath(tree, build), **more)
        status = execute(command, limit, cwd=build, env=env, stdout=output, stderr=subprocess.STDOUT)
    return status, time.monotonic() - started


def failed_tests(log):
    """Names of the single tests that failed, in pytest's summary."""
    return re.findall(r"^(?:FAILED|ERROR) [^ ]*::(\w+)", log.read_text(errors="replace"), re.MULTILINE)
