# SPDX-License-Identifier: MIT
"""The Python package of this tree, built once a run, and programs that use it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, SANITIZED, environment

SOURCES = ROOT / "loader" / "python"
# Debian's, which python3-dev and python3-numpy are for; or another that has NumPy and what setup.py needs.
PYTHON = os.environ.get("TOMBOLA_PYTHON") or "/usr/bin/python3"


def build():
    """The folder that holds tombola/, for sys.path."""
    folder, library = BUILD / Path(PYTHON).name, BUILD / "loader" / ".libs" / "libtombola.so.0"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "complete"
        newest = max(path.stat().st_mtime for path in [library, *SOURCES.glob("*.*"), *SOURCES.glob("tombola/*.*")])
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            done = subprocess.run(
                [PYTHON, "setup.py", "-q", "build", "--build-base", folder / "base", "--build-lib", folder / "lib"], cwd=SOURCES,
                env={**os.environ, "TOMBOLA_BUILD": os.fspath(BUILD)}, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            stamp.touch()
    return folder / "lib"


def find_python(module):
    """A Python that has this module: Debian's, or that of the benchmarks' peers; None."""
    peers = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").glob("tombola/peers-*/bin/python")
    for python in (os.environ.get("TOMBOLA_PEER_PYTHON"), PYTHON, *map(os.fspath, peers)):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def python_with(module):
    """As find_python(); skips where there is none."""
    return find_python(module) or pytest.skip(f"no Python has {module}")


@pytest.fixture(scope="module")
def package():
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    return build()


def start(package, script, *words, python=PYTHON, **more):
    """A Python program of these lines, which says `import tombola`."""
    return subprocess.Popen([python, "-c", script, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment({"PYTHONPATH": os.fspath(package), **more}))


def run(package, script, *words, status=0, **more):
    """Its standard output."""
    program = start(package, script, *words, **more)
    try:
        out, err = program.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        out, err = program.communicate()
        raise AssertionError(f"it does not end\n{out}{err}") from None
    assert program.returncode == status, f"{program.returncode}\n{out}{err[-20000:]}"
    return out


if __name__ == "__main__":
    sys.exit(find_python(sys.argv[1]) is None)
