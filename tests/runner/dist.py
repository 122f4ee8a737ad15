# SPDX-License-Identifier: MIT
"""make distcheck: the tarball is complete, compiles without a warning, installs and cleans up."""

from builds import PLAIN
from selection import all_tests

# What reads files of the tarball, or links the installed library's symbols; that the others compile from it is seen,
# what they say is what they said in build/.
RUN = f"tests/unit/test_tombola {' '.join(all_tests('fuzz'))}"


def check(step):
    quick = f"AM_MAKEFLAGS=-s check_PROGRAMS='{RUN}' TESTS='{RUN}'"
    if PLAIN.make(step, "distcheck", quick, "DISTCHECK_CONFIGURE_FLAGS=--enable-werror") == 0:
        step.count(1, 0, 0)
    else:
        step.broken("make distcheck failed")
