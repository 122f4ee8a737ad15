# SPDX-License-Identifier: MIT
"""Each benchmark for some seconds. One whose table has no peer in it fails."""

import re

from places import BUILD, ROOT

VERDICT = re.compile(r"([a-z]+): (?:\d+ s|(failed))")


def check(step, names=()):
    """`names`: of benchmarks; none: all."""
    status = step.compute([ROOT / "tests/bench/run", "--quick", *names], env={"TOMBOLA_BUILD": str(BUILD)})
    said = step.log_path.read_text(errors="replace").splitlines()
    verdicts = [found for line in said if (found := VERDICT.fullmatch(line))]
    bad = [name for name, failed in (found.groups() for found in verdicts) if failed]
    if not verdicts or status not in ((1,) if bad else (0,)):
        step.broken(f"tests/bench/run ended with {status} after {len(verdicts)} benchmarks")
        return
    for number, line in enumerate(said):
        if line.endswith(": failed"):
            step.show(said[max(0, number - 12) : number + 1])
    step.count(len(verdicts) - len(bad), len(bad), 0, bad)
    step.repeat = lambda second: check(second, bad)
