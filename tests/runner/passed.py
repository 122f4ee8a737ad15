# SPDX-License-Identifier: MIT
"""What has passed before, files at checkers and tests: by a hash of everything that is read for it, outside of the tree,
so that a fresh clone need not check again what did not change. Only passes are kept. Safe to remove.
"""

import hashlib
import os
import time

from places import CACHE

KEEP_S = 60 * 86400  # since it was last asked for


class Passed:
    def __init__(self, checker, *setting, keep_s=KEEP_S):
        """`setting`: texts that hold for every file: version, options, configuration. `keep_s`: for forget_old()."""
        self.keep_s = keep_s
        self.folder = CACHE / checker
        self.setting = hashlib.sha256("\0".join(setting).encode()).digest()

    def path(self, text):
        return self.folder / hashlib.sha256(self.setting + text).hexdigest()

    def note(self, text):
        """What was noted of it when it passed; None: it has not passed."""
        try:
            os.utime(self.path(text))
            return self.path(text).read_text()
        except OSError:
            return None

    def has(self, text):
        return self.note(text) is not None

    def add(self, text, note=""):
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(text)
        aside = path.with_name(f"{path.name}.{os.getpid()}")  # another run reads beside this one
        aside.write_text(note)
        aside.replace(path)

    def forget_old(self):
        for path in self.folder.glob("*"):
            if path.stat().st_mtime < time.time() - self.keep_s:
                path.unlink(missing_ok=True)
