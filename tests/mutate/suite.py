# SPDX-License-Identifier: MIT
"""The tests that can catch a mutation, and how one of them is run."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePath

from build import environment, execute

HERE = Path(__file__).resolve().parent
FAILED = re.compile(rb"(?m)^not ok \d+ (?!# SKIP)")  # in TAP as cmocka writes it
# These build the tree themselves, or never start a program of it.
LEFT_OUT = {"test_install", "test_packages", "test_quickstart"}


@dataclass(frozen=True)
class Test:
    name: str  # unit/test_X, fuzz/fuzz_X, service/test_X.py, fault/test_X.py
    path: str  # of its source, from the tree

    @property
    def is_service(self):
        return is_service(self.name)


def is_service(name):
    """One of pytest's: fault tests are service tests here."""
    return name.startswith(("service/", "fault/"))


def programs_of(name, build):
    """Those of which a mutation could be seen by the tests of this name."""
    shared = [program for program in build.links if ".so" in program]
    if is_service(name):
        return shared + [program for program in build.links if not program.startswith("tests/")]
    return [f"tests/{name}"] if f"tests/{name}" in build.links else shared


def all_tests(tree, fault=False):
    paths = [*tree.glob("tests/unit/test_*.c"), *tree.glob("tests/fuzz/fuzz_*.c"), *tree.glob("tests/service/test_*.py")]
    paths += tree.glob("tests/fault/test_*.py") if fault else []
    names = [(f"{path.parent.name}/{path.stem if path.suffix == '.c' else path.name}", path) for path in paths if path.stem not in LEFT_OUT]
    tests = [Test(name, str(path.relative_to(tree))) for name, path in names]
    return sorted(tests, key=lambda test: (test.is_service, test.name))


def sanitizer_options(tree, flags):
    """As tests/run sets them, where there are flags."""
    options = {
        "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=0:intercept_tls_get_addr=0",
        "LSAN_OPTIONS": f"suppressions={tree}/tests/sanitizers/lsan.supp:print_suppressions=0",
    }
    return options if flags else {}


def execute_in(build, command, log, limit, **more):
    """(exit status, seconds); None: it ran into the limit. It is ended at the first test that fails."""
    started = time.monotonic()
    # A short path: a socket of PostgreSQL lies below it.
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as scratch, open(log, "wb") as output:
        os.chmod(scratch, 0o755)
        env = environment(TMPDIR=scratch, TOMBOLA_BUILD=build, **more)
        status = execute(command, limit, lambda: FAILED.search(Path(log).read_bytes()), cwd=build, env=env, stdout=output,
                         stderr=subprocess.STDOUT)
    return status, time.monotonic() - started


def run_program(name, tree, build, log, limit, **more):
    """A unit test or fuzz corpus: as execute_in()."""
    libtools = build / "tests" / Path(name).parent / ".libs" / Path(name).name
    command = [libtools if libtools.exists() else build / "tests" / name]
    return execute_in(build, command, log, limit, srcdir=os.path.relpath(tree, build), LD_LIBRARY_PATH=f"{build}/loader/.libs", **more)


def run_service(what, tree, build, log, limit, all_of_it=True, **more):
    """Service tests, `what` as pytest is given them from tests/: (exit status or None, seconds, name -> its report of
    single_tests.py). It ends with the first failure unless `all_of_it`."""
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "single_tests", "-m", "not heavy"]
    command += [] if all_of_it else ["-x"]
    command += [tree / "tests" / one for one in what]
    folder_of = {PurePath(one.partition("::")[0]).name: one.partition("/")[0] for one in what}
    status, seconds = execute_in(build, command, log, limit, PYTHONPATH=HERE, MUTATE_REPORT=report, **more)
    tests = json.loads(report.read_text()) if report.exists() else {}
    name_of = lambda node: re.sub(r"^.*?(\w+\.py)(?=::)", lambda found: f"{folder_of[found[1]]}/{found[1]}", node, count=1)
    return status, seconds, {name_of(node): one for node, one in tests.items()}
