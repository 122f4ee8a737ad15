# SPDX-License-Identifier: MIT
"""Branch coverage: of the conditional branches of the product, those that unit and service tests take, by room.

gcov counts them in a build of its own. A program that is killed by SIGKILL counts nothing. The branch that assert()
takes when it fails is left out: taken, it is the end of the program.
"""

import json
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import record
from builds import COVERAGE
from places import JOBS, ROOT

ROOMS = ("common/", "loader/", "sampler/", "trainer/")
GCOV = ["gcov", "--json-format", "--stdout", "--branch-probabilities"]
AT_ONCE = 20  # objects a gcov


def clear():
    """Forgets what earlier runs counted."""
    for path in COVERAGE.folder.rglob("*.gcda"):
        path.unlink()


def read(notes):
    """What gcov says of these objects: {(file, line, number of the branch): how often it was taken}."""
    done = subprocess.run([*GCOV, *notes], cwd=COVERAGE.folder, capture_output=True, text=True, check=False)
    found = defaultdict(int)
    for line in done.stdout.splitlines():
        for file in json.loads(line)["files"]:
            path = (COVERAGE.folder / file["file"]).resolve()
            for each in file["lines"] if path.is_relative_to(ROOT) else []:
                for number, branch in enumerate(each["branches"]):
                    found[path.relative_to(ROOT).as_posix(), each["line_number"], number] += branch["count"]
    return found


def counted():
    """The same of the whole product; what several objects have from one header counts once."""
    notes = [path for path in COVERAGE.folder.rglob("*.gcno") if path.relative_to(COVERAGE.folder).as_posix().startswith(ROOMS)]
    groups = [notes[first : first + AT_ONCE] for first in range(0, len(notes), AT_ONCE)]
    sums, sources = defaultdict(int), {}
    with ThreadPoolExecutor(JOBS) as team:
        for (file, line, number), count in [item for found in team.map(read, groups) for item in found.items()]:
            if file not in sources:
                sources[file] = (ROOT / file).read_text().splitlines()
            if file.startswith(ROOMS) and "assert(" not in sources[file][line - 1]:
                sums[file, line, number] += count
    return sums


def percent(counts):
    return f"{100 * sum(count > 0 for count in counts) / len(counts):.1f}"


def measure(step):
    rooms, sums = defaultdict(list), counted()
    for (file, _, _), count in sums.items():
        rooms[file.rpartition("/")[0]].append(count)
    if not any(sums.values()):
        step.broken("gcov found nothing that ran")
        return
    words = [f"{percent(list(sums.values()))} % of {len(sums):,} branches", record.where_and_when()]
    record.write("Branch coverage", words + [f"{room} {percent(counts)}" for room, counts in sorted(rooms.items())])
    step.say("tests/README.md has the record")
    step.count(1, 0, 0)
