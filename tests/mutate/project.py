# SPDX-License-Identifier: MIT
"""The project that is mutated: its rooms, how it is configured, what git calls its state."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


class Project:
    def __init__(self, root, rooms, configure=()):
        self.root, self.rooms, self.configure = Path(root), rooms, list(configure)

    def flags(self, *compiler):
        return [*self.configure, f"CFLAGS={' '.join(compiler)}"]

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, *words], stdout=subprocess.PIPE, check=True, text=True).stdout

    def lines_since(self, commit):
        """file -> its lines of today that `commit` has not."""
        found, lines = defaultdict(set), set()
        for line in self.git("diff", "--no-color", "--no-ext-diff", "-U0", "--dst-prefix=b/", commit, "--", "*.c").splitlines():
            if line.startswith("+++ "):
                lines = found[line.removeprefix("+++ b/")]
            elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
                lines.update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
        return found

    def commit(self):
        """The commit's hash, with a + where the tree holds changes."""
        return self.git("describe", "--always", "--abbrev=12", "--dirty=+").strip()


def tombola():
    root = Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root / "tests/layering"))
    from rooms import ROOMS

    return Project(root, ROOMS, ["--without-cuda"])
