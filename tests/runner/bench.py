# SPDX-License-Identifier: MIT
"""Each benchmark for some seconds. One whose table has no peer in it fails."""

import re

from places import BUILD, ROOT

VERDICT = re.compile(r"[a-z]+: (\d+ s|failed)")


def check(step):
    step.compute([ROOT / "tests/bench/run", "--quick"], env={"TOMBOLA_BUILD": str(BUILD)})
    said = step.log_path.read_text(errors="replace").splitlines()
    verdicts = [found[1] for line in said if (found := VERDICT.fullmatch(line))]
    bad = verdicts.count("failed")
    if not verdicts:
        step.broken("tests/bench/run did not get to its benchmarks")
        return
    for number, line in enumerate(said):
        if line.endswith(": failed"):
            step.show(said[max(0, number - 12) : number + 1])
    step.count(len(verdicts) - bad, bad, 0)
