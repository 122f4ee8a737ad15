# SPDX-License-Identifier: MIT
"""The shape of the tree: tests/layering, and its own test."""

import sys

from places import BUILD, ROOT


def check(step):
    command = [sys.executable, "-B", ROOT / "tests/layering"]
    statuses = [step.compute(command, env={"TOMBOLA_BUILD": str(BUILD)}), step.compute([*command, "--self-test"])]
    said = step.log_path.read_text().splitlines()
    step.show([line for line in said if not line.startswith(("ok", "1.."))])
    failed = sum(line.startswith("not ok") for line in said)
    if sum(line.startswith("1..") for line in said) != 2:
        step.broken("the layering test did not run")
    elif any(statuses) and not failed:
        step.broken(f"the layering test ended with exit status {max(statuses)}")
    else:
        step.count(sum(line.startswith("ok") for line in said), failed, 0)
