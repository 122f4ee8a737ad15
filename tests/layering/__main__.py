# SPDX-License-Identifier: MIT
"""Checks the shape of the source tree and prints TAP: rooms, who includes and calls whom, headers, names.

usage: python3 tests/layering [--self-test]

rooms.py lists the rooms and what each stands on; *_checks.py say what is checked. Objects are those of
build/, or of the folder that TOMBOLA_BUILD names. --self-test breaks each rule in a small tree of its own
and sees that its check finds that, and nothing else. Exit status: 0 all hold, 1 some do not.
"""

import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # `make dist` ships this folder whole

from object_checks import check_built, check_calls, check_rings
from readme_checks import check_documents, check_readmes, check_tables
from text_checks import (check_comment_widths, check_comments, check_cuda, check_exit, check_functions, check_guards,
                         check_headers, check_includes, check_licences, check_rooms, check_typedefs, check_unit_tests)
from tree import Tree

CHECKS = [
    ("every source file is in a room, and no room is too full", check_rooms),
    ("a file includes only its own room and those below", check_includes),
    ("the build has an object of every source file", check_built),
    ("an object needs only its own room and those below", check_calls),
    ("no objects need each other in a ring", check_rings),
    ("every folder has a README that is not too short", check_readmes),
    ("no line of a document is too long", check_documents),
    ("a README's table of files has every source file, and no other", check_tables),
    ("a comment names files that are there", check_comments),
    ("a comment or a document names functions that are there", check_functions),
    ("comments are as narrow as code", check_comment_widths),
    ("CUDA headers stay in *_cuda files", check_cuda),
    ("every header compiles alone", check_headers),
    ("guards are named after the file", check_guards),
    ("structs, unions and enums have no typedefs", check_typedefs),
    ("nothing below main ends the process", check_exit),
    ("a unit test begins with the object and room that it covers", check_unit_tests),
    ("a source file names its licence", check_licences),
]


def run_checks(tree):
    failures = 0
    print(f"1..{len(CHECKS)}")
    for number, (name, check) in enumerate(CHECKS, 1):
        problems = list(check(tree))
        failures += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems:
            print("\n".join(f"# {line}" for line in problem.splitlines()))
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        import self_test

        return self_test.run([check for _, check in CHECKS])
    if sys.argv[1:]:
        sys.exit(__doc__)
    root = Path(__file__).resolve().parents[2]
    return run_checks(Tree(root, os.environ.get("TOMBOLA_BUILD", root / "build")))


if __name__ == "__main__":
    sys.exit(main())
