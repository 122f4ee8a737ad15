# SPDX-License-Identifier: MIT
"""The record of the last whole `tests/run --long`, which the run writes into tests/README.md."""

import re
import subprocess
import time

from places import JOBS, ROOT

README = ROOT / "tests/README.md"
SECTION = re.compile(r"(?<=^## The last long run\n).*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def write(report):
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    passed, failed, skipped = report.sums()
    words = [time.strftime("%Y-%m-%d"), f"commit {done.stdout.strip() or 'unknown'}", f"{JOBS} processors",
             f"{report.wall_s / 60:.0f} minutes", f"{passed} passed", f"{failed} failed", f"{skipped} skipped"]
    words += [f"{step.name} {'/'.join(map(str, step.counts))}" for step in report.ended if step.counts]
    README.write_text(SECTION.sub(lambda _: f"{wrapped(words)}\n\n", README.read_text()))


def wrapped(phrases, width=115):
    lines = [""]
    for phrase in phrases:
        if len(lines[-1]) + len(phrase) > width:
            lines.append("")
        lines[-1] += f"{phrase}, "
    return "\n".join(map(str.rstrip, lines)).rstrip(",") + "."
