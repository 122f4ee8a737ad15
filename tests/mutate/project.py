# SPDX-License-Identifier: MIT
"""The project that is mutated: its rooms, how it is configured, what git calls its state."""

import subprocess
import sys
from pathlib import Path


class Project:
    def __init__(self, root, rooms, configure=()):
        self.root, self.rooms, self.configure = Path(root), rooms, list(configure)

    def flags(self, *compiler):
        return [*self.configure, f"CFLAGS={' '.join(compiler)}"]

    def commit(self):
        """The commit's hash, with a + where the tree holds changes."""
        done = subprocess.run(["git", "-C", self.root, "describe", "--always", "--abbrev=12", "--dirty=+"],
                              stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout.strip()


def tombola():
    root = Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root / "tests/layering"))
    from rooms import ROOMS

    return Project(root, ROOMS, ["--without-cuda"])
