# SPDX-License-Identifier: MIT
"""make distcheck: the tarball has every file that git has, compiles without a warning, also for (emulated) GPUs and
with the module that reads Parquet, installs, reads a Parquet file by what it installed, and cleans up; made again, it
is the same bytes.
"""

import subprocess
import tarfile
from pathlib import Path

from builds import PLAIN, SHELL
from places import ROOT
from selection import all_tests

# What reads files of the tarball, or links the installed library's symbols; that the others compile from it is seen,
# what they say is what they said in build/.
RUN = f"tests/unit/test_tombola {' '.join(all_tests('fuzz'))}"
FASTER = {"XZ_OPT": "-1", **dict(word.split("=", 1) for word in SHELL if "=" in word)}


def tarball_path():
    (path,) = PLAIN.folder.glob("tombola-*.tar.xz")
    return path


def left_out():
    """Files that git tracks and the tarball lacks; a Python module that is missing compiles well."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).is_file()} - {".gitignore"}
    with tarfile.open(tarball_path()) as tarball:
        return sorted(tracked - {name.partition("/")[2] for name in tarball.getnames()})


def with_parquet():
    """Words for make and for configure, by Arrow of Python's pyarrow; none where PyPI, which has it, is out of reach."""
    made = subprocess.run([ROOT / "tests/pypi", "pyarrow"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return [], ""
    tool, table = Path(made.stdout.strip()), PLAIN.folder / "installcheck.parquet"
    write = ("import sys, pyarrow, pyarrow.parquet\n"
             "pyarrow.parquet.write_table(pyarrow.table({'x': [1, 2], 'label': ['a', 'b']}), sys.argv[1])")
    subprocess.run([tool / "bin/python", "-c", write, table], check=True)
    (arrow,) = tool.glob("lib/python3*/site-packages/pyarrow")
    return [f"PARQUET={table}"], f" --with-arrow={arrow}"


def is_the_same_again(step):
    before = tarball_path().read_bytes()
    return PLAIN.make(step, "dist", "AM_MAKEFLAGS=-s", env=FASTER) == 0 and tarball_path().read_bytes() == before


def check(step):
    toolkit = PLAIN.folder / "emulated-cuda"
    if step.compute([ROOT / "tests/cuda/toolkit", toolkit]) != 0:
        step.broken("the emulated CUDA toolkit does not compile")
        return
    table, arrow = with_parquet()
    flags = f"DISTCHECK_CONFIGURE_FLAGS=--enable-werror --with-cuda={toolkit}{arrow}"
    quick = f"AM_MAKEFLAGS=-s check_PROGRAMS='{RUN}' TESTS='{RUN}'"
    if PLAIN.make(step, "distcheck", quick, flags, *table, env=FASTER) != 0:
        step.broken("make distcheck failed")
    elif missing := left_out():
        step.broken(f"not in the tarball: {', '.join(missing)}")
    elif not is_the_same_again(step):
        step.broken("make dist made another tarball than before")
    else:
        step.count(1, 0, 0)
