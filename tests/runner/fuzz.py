# SPDX-License-Identifier: MIT
"""Each fuzz target for a second. New inputs are kept in build-fuzz/corpus; what made a target fail, too."""

import re
from concurrent.futures import ThreadPoolExecutor

from builds import FUZZ
from places import JOBS, LOGS, LONG, ROOT, shown

SECONDS = 300 if LONG else 1  # `make check` runs the corpora whole; what is random is --long's


def run_one(step, target):
    name = target.name.removeprefix("fuzz_")
    found, failures = FUZZ.folder / "corpus" / name, FUZZ.folder / "failures" / name
    for folder in (found, failures):
        folder.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{target.name}.log"
    log.write_bytes(b"")
    status = step.compute([target, f"-max_total_time={SECONDS}", "-timeout=120", "-rss_limit_mb=2048",
                           f"-artifact_prefix={failures}/", "-print_final_stats=1", found,
                           ROOT / "tests/fuzz/corpus" / name], log=log,
                          limit=(SECONDS + 600, target.name))
    if status == 0:
        runs = re.search(r"^stat::number_of_executed_units: *(\d+)", log.read_text(errors="replace"), re.MULTILINE)
        step.say(f"{target.name:<17} {runs[1] if runs else '?'} runs in {SECONDS} s")
    else:
        step.say(f"failed: {target.name}; what did it is in {shown(failures)}")
        step.show_end(log)
    return status == 0


def test(step, targets):
    """`targets`: tests/fuzz/fuzz_X."""
    targets = [FUZZ.folder / target for target in targets]
    with ThreadPoolExecutor(JOBS) as team:
        good = list(team.map(lambda target: run_one(step, target), targets))
    step.count(sum(good), good.count(False), 0)
