# SPDX-License-Identifier: MIT
"""Mutates a small project of which every survivor is known, and prints TAP: a runner that finds nothing, or kills
what no test sees, would be worse than none."""

import argparse
import subprocess
import tempfile
from pathlib import Path

import judge
import linked
from mutations import KINDS
from project import Project

CONFIGURE = r"""#!/bin/sh
for word; do case $word in CC=*) cc=${word#CC=} ;; CFLAGS=*) flags=${word#CFLAGS=} ;; esac; done
mkdir -p room tests/unit
sed -e "s!@CC@!$cc!; s!@FLAGS@!$flags!" ../tree/Makefile.in >Makefile
"""
MAKEFILE = """VPATH = ../tree
all: room/libroom.a room/tool
check: all tests/unit/test_check tests/unit/test_count
room/libroom.a: room/count.o room/check.o
	rm -f $@; ar cr $@ $^
%.o: %.c
	@CC@ -DHAVE_CONFIG_H -I../tree @FLAGS@ -c -o $@ $<
room/tool: room/tool.o
	@CC@ @FLAGS@ -o $@ $<
tests/unit/%: tests/unit/%.o room/libroom.a
	@CC@ @FLAGS@ -o $@ $< room/libroom.a
.PRECIOUS: %.o
"""
HEADER = """enum error { OK, ERROR_INPUT };
enum error error_set(enum error code, const char *text, int value);
enum error check_range(int value, long low, long high);
int check_never(int value);
void check_ones(const char *text, int *ones);
int count_to(int end);
int count_ones(const char *text);
"""
CHECK = """#include "room/room.h"
#include <assert.h>
#include <stdio.h>

enum error error_set(enum error code, const char *text, int value)
{
    fprintf(stderr, "%s %d", text, value);
    return code;
}

enum error check_range(int value, long low, long high)
{
    assert(low <= high);
    if (value < low || value > high)
        return error_set(ERROR_INPUT, "not in the range", value + 1 - 1);
    return OK;
}

int check_never(int value)
{
    return value * 3;
}

void check_ones(const char *text, int *ones)
{
    for (int i = 0; text[i]; i++) {
        if (text[i] == '1')
            *ones += 1;
    }
}
"""
COUNT = """#include "room/room.h"
#include <stdlib.h>
#include <string.h>

int count_to(int end)
{
    int i = 0;
    while (i != end)
        i = i + 1;
    return i;
}

int count_ones(const char *text)
{
    char *copy = strdup(text);
    int ones = 0;
    check_ones(copy, &ones);
    free(copy);
    return ones;
}
"""
TEST_CHECK = """#include "room/room.h"
int main(void)
{
    return check_range(4, 2, 6) != OK || check_range(1, 2, 6) != ERROR_INPUT || check_range(9, 2, 6) != ERROR_INPUT ||
           check_range(2, 2, 6) != OK;
}
"""
TEST_COUNT = """#include "room/room.h"
int main(void)
{
    return count_to(5) != 5 || count_ones("1+1") != 2;
}
"""
TOOL = """#include <stdio.h>

int main(int count, char **arguments)
{
    (void)count;
    if (!*++arguments)
        return 2;
    while (*arguments)
        puts(*arguments++);
    return 0;
}
"""
TEST_TOOL = """import os
import subprocess

import pytest


def run(*arguments, status=0):
    done = subprocess.run([os.environ["TOMBOLA_BUILD"] + "/room/tool", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status
    return done.stdout.split()


@pytest.fixture(scope="module")
def said():
    return run("one", "two")


def test_count(said):
    assert len(said) == 2


def test_order(said):
    assert said == ["one", "two"]


def test_usage():
    assert run(status=2) == []
"""
EQUIVALENT = """# A comment.

room/check.c check_never
- return value * 3;
+ return value * 4;
not true, but listed

room/check.c check_never
- return value * 5;
+ return value * 6;
stale
"""
FILES = {"configure": CONFIGURE, "Makefile.in": MAKEFILE, "room/room.h": HEADER, "room/check.c": CHECK, "room/count.c": COUNT,
         "room/tool.c": TOOL, "room/README.md": "Tests: test_tool.py\n",
         "tests/service/test_tool.py": TEST_TOOL, "tests/unit/test_check.c": TEST_CHECK,
         "tests/unit/test_count.c": TEST_COUNT, "equivalent": EQUIVALENT, ".gitignore": "/build/\n"}

# file, kind, text after the mutation: all that survive, and no other.
SURVIVORS = {
    ("room/check.c", "comparison", "if (value < low || value >= high)"),
    ("room/check.c", "constant", "return value * 2;"),
    ("room/check.c", "comparison", "if (text[i] >= '1')"),
}
BETTER_TEST = {"tests/unit/test_check.c": TEST_CHECK.replace("check_range(2, 2, 6)", "check_range(6, 2, 6)")}
NEW_TEXT = ["i = i + 2;", "return i - 2;"]
NEW_LINES = {"room/count.c": COUNT.replace("    return i;\n", "".join(f"    {line}\n" for line in NEW_TEXT))}
SURVIVORS_THEN = SURVIVORS - {("room/check.c", "comparison", "if (value < low || value >= high)")}


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


def try_all(new_run, root, *files, **more):
    """The run and its results over all mutations of these files."""

    class Silent(new_run):
        def progress(self, text):
            pass

    choice = dict(count=0, files=files, kinds=KINDS, seed="1", minutes=0, patience=60, workers=2, results=None, resume=False,
                  retry=False, quick=False, tests=[], coverage=False, since=None)
    run = Silent(Project(root, ["room"]), argparse.Namespace(**{**choice, **more}), root / "equivalent", root / "build/mutate")
    run.prepare()
    run.prepare_tests()
    run.choice.count = sum(len(run.chooser.source(name).mutations()) for name in run.chooser.files["room"])
    return run, run.run()


def found(results):
    return {(one.file, one.kind, one.after) for one in results.survivors()}


def checks(new_run, root):
    """(name, what is wrong with it or "")"""
    try_all(new_run, root, "room/c")
    run, results = try_all(new_run, root, "room/tool.c", kinds=["constant"], resume=True)  # pytest takes its time
    all_verdicts = list(results.verdicts.values())
    yield "the survivors are those that are known", difference(found(results), SURVIVORS)
    killed = [one for one in all_verdicts if one.verdict == "killed"]
    ends = {one.by.partition(" ")[2] for one in killed if one.after == "i = i;"}
    yield "an endless loop is killed by the time limit", difference(ends, {"no end after 1 s"})
    yield "a leak is killed by ASan", difference(
        {one.by[-6:] for one in killed if one.kind == "release"}, {"(ASan)"})
    yield "only tests that run the line run", difference(
        {test.split(" ")[0] for one in all_verdicts for test in one.ran if one.function == "check_range"}, {"unit/test_check"})
    yield "only single service tests that run the line run", difference(
        {test for one in all_verdicts for test in one.ran if one.before == "return 2;"}, {"service/test_tool.py::test_usage"})
    yield "what a shared fixture ran was run by its tests", difference(
        set(run.coverage.tests_of("room/tool.c", TOOL, *[TOOL.splitlines().index("    return 0;") + 1] * 2)),
        {"service/test_tool.py::test_count", "service/test_tool.py::test_order"})
    yield "a line that no test runs survives at once", difference(
        {tuple(one.ran) for one in results.survivors() if one.function == "check_never"}, {()})
    yield "what only talks is not mutated", difference({one.after for one in all_verdicts if "assert" in one.before}, set())
    yield "a listed mutation is not tried", difference({one.after for one in all_verdicts if one.verdict == "listed"}, {"return value * 4;"})
    yield "an entry that is stale is found", difference(set(run.equivalents.stale(root)), {"room/check.c check_never: return value * 5;"})
    yield "every kind is there", difference({one.kind for one in all_verdicts}, set(KINDS) - {"sync"})
    before = (root / "build/mutate/results").read_bytes()
    _, results = try_all(new_run, root, "room/c", resume=True)
    yield "--resume tries nothing twice", "" if (root / "build/mutate/results").read_bytes() == before else "it does"
    _, results = try_all(new_run, root, "room/check.c", kinds=["comparison", "constant"], quick=True, results=root / "build/mutate/quick")
    yield "--quick finds the same survivors", difference(found(results), SURVIVORS)
    write(root, BETTER_TEST)
    _, results = try_all(new_run, root, retry=True)
    yield "--retry with a better test kills a survivor", difference(found(results), SURVIVORS_THEN)
    write(root, NEW_LINES)
    _, results = try_all(new_run, root, quick=True, since="HEAD", results=root / "build/mutate/since")
    yield "--since mutates new lines alone", difference({one.before for one in results.verdicts.values()}, set(NEW_TEXT))


def difference(is_so, should_be):
    return "" if is_so == should_be else f"too many: {is_so - should_be}; missing: {should_be - is_so}"


def run(new_run):
    failures = number = 0
    judge.SLACK_S, linked.SERVICE_S = 1, 1
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, FILES)
        subprocess.run("git init -q && git add -A && git -c user.name=x -c user.email=x commit -qm x", shell=True, cwd=root, check=True)
        for number, (name, problem) in enumerate(checks(new_run, root), 1):
            failures += bool(problem)
            print(f"{'not ok' if problem else 'ok'} {number} - {name}" + (f"\n# {problem}" if problem else ""))
    print(f"1..{number}")
    return 1 if failures else 0
