# SPDX-License-Identifier: MIT
"""What a change can touch: the files that differ from where this branch left main (on main itself: from the commit
before), and the parts and tests that depend on one of them. What is not known here depends on everything.
"""

import re
import subprocess
from fnmatch import fnmatchcase

from places import ROOT
from selection import KINDS, all_programs, all_tests, stem

PROGRAM = re.compile(r'["\'](sampler|loader|trainer)["\']|\b(sampler)\(')  # what a test of tests/service runs
CODE = (".c", ".h", ".inc", ".cu")
# pattern of a path -> the parts it can touch, and tests of tests/service; the first that matches counts.
RULES = [
    ("tests/service/test_*.py", None, []),
    ("tests/fault/test_*.py", None, []),
    ("tests/service/*", ["service", "fault", "asan", "tsan"], []),
    ("tests/fault/*", ["fault"], []),
    ("tests/fuzz/corpus/*", ["unit", "fuzz"], []),
    ("tests/bench/*", ["lint"], []),
    ("tests/k8s/*", ["lint"], []),
    ("tests/debian", ["lint", "debian"], []),
    ("tests/images", ["lint", "images"], []),
    ("tests/engine", ["lint", "images"], []),
    ("tests/layering/*", ["layering"], []),
    ("tests/lint/*", ["lint"], []),
    ("tests/cuda/*", ["lint", "asan"], ["test_emulated_gpu"]),
    ("deploy/*", ["lint", "layering"], []),
    ("loader/README.md", ["layering"], ["test_libtombola"]),
    ("loader/python/README.md", ["layering"], ["test_python"]),
    ("CHANGELOG.md", ["layering"], ["test_release"]),
    ("*.md", ["layering"], []),
    (".clang-tidy", ["lint"], []),
    (".clang-format", ["lint"], []),
]


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def base():
    """The commit to compare with; empty where there is none, as in a clone of one commit."""
    head, main = git("rev-parse", "HEAD"), git("merge-base", "main", "HEAD")
    return "".join(main if main and main != head else git("rev-parse", "--quiet", "--verify", "HEAD~"))


def changes(since):
    """(path, whether it appeared or went away) of every difference, committed or not."""
    found = [line.split("\t") for line in git("diff", "--no-renames", "--name-status", since)]
    return [(path, kind != "M") for kind, path in found] + [(path, True) for path in
                                                            git("ls-files", "--others", "--exclude-standard")]


def take_changes(chosen, links, all_parts):
    """Adds to a selection what the changes can touch; returns a line that says what that is."""
    since = base()
    if not since:
        chosen.take_all(all_parts)
        return "git knows no commit to compare with"
    found = changes(since)
    for path, came_or_went in found:
        if came_or_went:
            chosen.take_part("dist", "layering")
        if path.endswith(CODE) and (ROOT / path).exists():
            continue  # below, all at once
        if not take_by_rule(chosen, path):
            chosen.take_all(all_parts)
            return f"{path} can touch everything"
    if any(path.endswith(".cu") for path, _ in found):
        chosen.take_part("asan", "cuda")
    take_code(chosen, links, {path for path, _ in found if path.endswith(CODE)})
    return f"{len(found)} files differ from {since[:12]}"


def take_by_rule(chosen, path):
    for pattern, parts, tests in RULES:
        if fnmatchcase(path, pattern):
            if parts is None:
                chosen.take(path.split("/")[1], [path] if (ROOT / path).exists() else [])
            else:
                chosen.take_part(*parts)
                for part in KINDS.keys() & set(parts):
                    chosen.take(part, [] if tests else all_tests(part))
                chosen.take("service", [test for test in all_tests("service") if stem(test) in tests])
            if path.startswith("deploy/"):
                chosen.take_named("deploy")
            return True
    return False


def take_code(chosen, links, changed):
    """Programs of `make check` that are made of a changed file, and tests that run a program that is."""
    if not changed:
        return
    chosen.take_part("lint", "layering")
    touched = [test for test in all_programs() if changed & links.files(test)]
    chosen.take("unit", touched)
    chosen.take("fuzz", [test for test in touched if test in all_tests("fuzz")])
    programs = {name for name in ("sampler", "loader", "trainer") if changed & links.files_of_program(name)}
    for part in ("service", "fault"):
        chosen.take(part, [test for test in all_tests(part) if programs & runs(test)])
    if touched or programs:
        chosen.take_part("asan", "tsan")


def runs(test):
    """The programs that a test of tests/service or tests/fault runs, by its text."""
    text = (ROOT / test).read_text()
    return {name for found in PROGRAM.findall(text) for name in found if name}
