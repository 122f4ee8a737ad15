# SPDX-License-Identifier: MIT
"""Tests of running programs, by pytest: those of tests/service and tests/fault.

More workers than processors: a test mostly waits for its programs. They are niced less than what compiles beside.
"""

import json
import re
import shutil
import subprocess
import sys

import inputs
from kept import Kept, nothing_kept
from places import CACHE, JOBS, LOGS, ROOT, shown
from selection import all_tests

WORKERS = JOBS + 1  # of each part; two run side by side
# Not beside the sources; without it each worker compiles every file again, for four of five seconds that it needs.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(CACHE / "python")}
# Behind a name xdist may say @ and a group that stays together.
FAILED = re.compile(r"(?:FAILED|ERROR) ((\S+?\.py(?:::\w+(?:\[.*?\](?=@| - |$))?)*)(?:@\w+)?(?: - .*)?)$")
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|error)")
NONE_COLLECTED = 5
FOLDERS = ("tests/service", "tests/fault")


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def python_with_pytest():
    return sys.executable if has(sys.executable, "pytest") else "python3"


def each_file(words):
    """tests/service -> its files."""
    return [test for word in words for test in (all_tests(word.removeprefix("tests/")) if word in FOLDERS else [word])]


def counts(outcomes, word):
    """(passed, failed, skipped) of the tests in a file, or of one test; behind its name xdist may say a group."""
    begins = tuple(word + mark for mark in ("::", "[", "@"))
    found = [outcome for name, outcome in outcomes.items() if name == word or name.startswith(begins)]
    return tuple(found.count(kind) for kind in ("passed", "failed", "skipped"))


def test(step, build, files, *more, env=None, keeps=False):
    """pytest on these files with the programs of that build. `keeps`: without those that have passed."""
    kept, folders = nothing_kept(), sorted({word.split("/")[1] for word in files if "/" in word})
    if keeps:
        kept = Kept("\n".join(inputs.setting(build, folder, more, env) for folder in folders),
                    lambda words: inputs.of_tests(build, words))
        files = kept.left(each_file(files))
        if not files:
            kept.count(step)
            return
    outcomes = LOGS / f"{step.name}.json"
    outcomes.unlink(missing_ok=True)
    base = build.folder / f"{step.name}-tests"
    python = python_with_pytest()
    spread = ["-n", WORKERS, "--dist", "loadgroup"] if has(python, "xdist") else []
    command = [*build.prefix, python, "-m", "pytest", "-q", "-rfEs", "--tb=short", "-p", "no:cacheprovider",
               "--basetemp", base, *spread, *more, *files]
    status = step.run(command, cwd=ROOT, env={**build.environment, "TOMBOLA_BUILD": str(build.folder),
                                              "TOMBOLA_OUTCOMES": str(outcomes), **BYTECODE, **(env or {})})
    shutil.rmtree(base, ignore_errors=True)
    said = step.log_path.read_text(errors="replace").splitlines()
    step.show(said)
    number = dict.fromkeys(("passed", "failed", "skipped", "error"), 0)
    number.update({kind: int(count) for count, kind in COUNTED.findall(said[-1] if said else "")})
    bad = number["failed"] + number["error"]
    if bad == 0 and status != NONE_COLLECTED and (status != 0 or not any(number.values())):
        step.broken(f"pytest ended with {status}, and its last line counts no failure; {shown(step.log_path)}")
    else:
        found = [match for line in said if (match := FAILED.match(line))]
        if outcomes.exists() and status in (0, 1, NONE_COLLECTED) and not number["error"]:
            noted = json.loads(outcomes.read_text())
            counted = {word: counts(noted, word) for word in kept.texts if word not in kept.found}
            if sum(map(sum, counted.values())) == sum(number.values()):
                kept.add(counted)
        kept.count(step, number["passed"], bad, number["skipped"], [match.group(1) for match in found])
        tests = dict.fromkeys(match.group(2) for match in found)  # one may have failed and left something behind
        step.repeat = lambda second: test(second, build, tests, *more, *(["-n", 0] if spread else []), env=env)
