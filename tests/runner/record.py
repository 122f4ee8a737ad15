# SPDX-License-Identifier: MIT
"""Records in tests/README.md of what is not part of every run: the last whole `tests/run --long`, branch coverage."""

import re
import subprocess
import time

from places import JOBS, ROOT

README = ROOT / "tests/README.md"


def section(title):
    return re.compile(rf"(?<=^## {title}\n).*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def where_and_when():
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{time.strftime('%Y-%m-%d')}, commit {done.stdout.strip() or 'unknown'}"


def write(title, phrases):
    README.write_text(section(title).sub(lambda _: f"{wrapped(phrases)}\n\n", README.read_text()))


def read(title):
    return section(title).search(README.read_text())[0].strip()


def write_run(report):
    passed, failed, skipped = report.sums()
    words = [where_and_when(), f"{JOBS} processors", f"{report.wall_s / 60:.0f} minutes", f"{passed} passed",
             f"{failed} failed", f"{skipped} skipped"]
    words += [f"{step.name} {'/'.join(map(str, step.counts))}" for step in report.ended if step.counts]
    write("The last long run", words)


def wrapped(phrases, width=115):
    lines = [""]
    for phrase in phrases:
        if len(lines[-1]) + len(phrase) > width:
            lines.append("")
        lines[-1] += f"{phrase}, "
    return "\n".join(map(str.rstrip, lines)).rstrip(",") + "."
