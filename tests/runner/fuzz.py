# SPDX-License-Identifier: MIT
"""Each fuzz target for a second, with --long for its share of BUDGET_S. New inputs are kept in build-fuzz/corpus, for
the next run to start from; what made a target fail, too.
"""

import re
from concurrent.futures import ThreadPoolExecutor

from builds import FUZZ
from places import JOBS, LOGS, LONG, ROOT, shown

BUDGET_S = 20 * 60  # of --long: all targets together, on all processors
MOST_S = 300  # of one target, where few are chosen


def seconds_each(targets, is_long=LONG):
    """`make check` runs the corpora whole; what is random is --long's."""
    return min(BUDGET_S * JOBS // targets, MOST_S) if is_long else 1


def run_one(step, target, seconds):
    name = target.name.removeprefix("fuzz_")
    found, failures = FUZZ.folder / "corpus" / name, FUZZ.folder / "failures" / name
    for folder in (found, failures):
        folder.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{target.name}.log"
    log.write_bytes(b"")
    status = step.compute([target, f"-max_total_time={seconds}", "-timeout=120", "-rss_limit_mb=2048",
                           f"-artifact_prefix={failures}/", "-print_final_stats=1", found,
                           ROOT / "tests/fuzz/corpus" / name], log=log,
                          limit=(seconds + 600, target.name))
    if status == 0:
        runs = re.search(r"^stat::number_of_executed_units: *(\d+)", log.read_text(errors="replace"), re.MULTILINE)
        step.say(f"{target.name:<17} {runs[1] if runs else '?'} runs in {seconds} s")
    else:
        step.say(f"failed: {target.name}; what did it is in {shown(failures)}")
        step.show_end(log)
    return status == 0


def test(step, targets):
    """`targets`: tests/fuzz/fuzz_X."""
    seconds = seconds_each(len(targets))
    with ThreadPoolExecutor(JOBS) as team:
        good = list(team.map(lambda target: run_one(step, FUZZ.folder / target, seconds), targets))
    step.count(sum(good), good.count(False), 0)
