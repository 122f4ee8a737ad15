# SPDX-License-Identifier: MIT
"""What a checker has passed before: results kept by a hash of everything that the checker reads, outside of the
tree, so that a fresh clone need not check again what did not change. Only passes are kept. Safe to remove.
"""

import hashlib
import os
import time

from places import CACHE

KEEP_S = 60 * 86400  # since it was last asked for


class Passed:
    def __init__(self, checker, *setting):
        """`setting`: texts that hold for every file: version, options, configuration."""
        self.folder = CACHE / checker
        self.setting = hashlib.sha256("\0".join(setting).encode()).digest()

    def path(self, text):
        return self.folder / hashlib.sha256(self.setting + text).hexdigest()

    def has(self, text):
        try:
            os.utime(self.path(text))
        except OSError:
            return False
        return True

    def add(self, text):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path(text).touch()

    def forget_old(self):
        for path in self.folder.glob("*"):
            if path.stat().st_mtime < time.time() - KEEP_S:
                path.unlink(missing_ok=True)
