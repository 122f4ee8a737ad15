# SPDX-License-Identifier: MIT
"""make distcheck: the tarball has every file that git has, compiles without a warning, also for (emulated) GPUs,
installs and cleans up.
"""

import subprocess
import tarfile

from builds import PLAIN, SHELL
from places import ROOT
from selection import all_tests

# What reads files of the tarball, or links the installed library's symbols; that the others compile from it is seen,
# what they say is what they said in build/.
RUN = f"tests/unit/test_tombola {' '.join(all_tests('fuzz'))}"
FASTER = {"XZ_OPT": "-1", **dict(word.split("=", 1) for word in SHELL if "=" in word)}


def left_out():
    """Files that git tracks and the tarball lacks; a Python module that is missing compiles well."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).is_file()} - {".gitignore"}
    (path,) = PLAIN.folder.glob("tombola-*.tar.xz")
    with tarfile.open(path) as tarball:
        return sorted(tracked - {name.partition("/")[2] for name in tarball.getnames()})


def check(step):
    toolkit = PLAIN.folder / "emulated-cuda"
    if step.compute([ROOT / "tests/cuda/toolkit", toolkit]) != 0:
        step.broken("the emulated CUDA toolkit does not compile")
        return
    flags = f"DISTCHECK_CONFIGURE_FLAGS=--enable-werror --with-cuda={toolkit}"
    quick = f"AM_MAKEFLAGS=-s check_PROGRAMS='{RUN}' TESTS='{RUN}'"
    if PLAIN.make(step, "distcheck", quick, flags, env=FASTER) != 0:
        step.broken("make distcheck failed")
    elif missing := left_out():
        step.broken(f"not in the tarball: {', '.join(missing)}")
    else:
        step.count(1, 0, 0)
