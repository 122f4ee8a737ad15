# SPDX-License-Identifier: MIT
"""Records in tests/README.md of what is not part of every run: what each part found when it last ran whole with
`--long`, each written as soon as the part ends; branch coverage."""

import functools
import re
import subprocess
import time

from places import JOBS, ROOT

README = ROOT / "tests/README.md"
OTHER_FILES = ":(exclude)tests/README.md"  # whose records make no difference to what was tested
HEAD = """| part | date, commit | minutes | processor minutes | processors | passed | failed | skipped |
|---|---|---|---|---|---|---|---|
"""


def section(title):
    return re.compile(rf"(?<=^## {title}\n).*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@functools.lru_cache(maxsize=None)
def where_and_when():
    """The state of the tree when this was asked first, which is to be before anything runs."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", OTHER_FILES)
    return f"{time.strftime('%Y-%m-%d')}, commit {git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed and '-dirty'}"


def replace(title, text):
    README.write_text(section(title).sub(lambda _: f"{text}\n\n", README.read_text()))


def write(title, phrases):
    replace(title, wrapped(phrases))


def read(title):
    return section(title).search(README.read_text())[0].strip()


def write_long(name, counts, wall_s, cpu_s):
    """The row of a part, or of `all`, in place of its last one."""
    cells = [where_and_when(), f"{wall_s / 60:.1f}", f"{cpu_s / 60:.1f}", JOBS, *counts]
    rows = dict(re.findall(r"^\| ([\w-]+) \| (\d.*)$", read("The last long run"), re.MULTILINE))
    rows[name] = " | ".join(map(str, cells)) + " |"
    replace("The last long run", HEAD + "\n".join(f"| {part} | {row}" for part, row in sorted(rows.items())))


def wrapped(phrases, width=115):
    lines = [""]
    for phrase in phrases:
        if len(lines[-1]) + len(phrase) > width:
            lines.append("")
        lines[-1] += f"{phrase}, "
    return "\n".join(map(str.rstrip, lines)).rstrip(",") + "."
