# SPDX-License-Identifier: MIT
"""The mutations that change nothing anybody could see, each with its reason: the file `equivalent`.

An entry is four lines and more, entries are divided by an empty line:

    common/text.c text_parse [2]        file, function, which of several that read the same
    - if (length < 20)                  the text as it is
    + if (length <= 20)                 and mutated
    why no test can see it, on as many lines as it needs
"""

import re


class EquivalentList:
    def __init__(self, path):
        self.reasons = {}  # (file, function, before, after, nth) -> reason
        text = re.sub(r"(?m)^#.*\n", "", path.read_text() if path.exists() else "")
        for entry in filter(None, map(str.strip, text.split("\n\n"))):
            head, before, after, *reason = entry.splitlines()
            file, function, *nth = head.split()
            if not before.startswith("- ") or not after.startswith("+ ") or not reason:
                raise SystemExit(f"{path}: an entry needs file and function, '- before', '+ after' and a reason: {head}")
            self.reasons[file, function, before[2:], after[2:], int(nth[0]) if nth else 1] = " ".join(reason)

    def __contains__(self, mutation):
        key = (mutation.file, mutation.function, mutation.before, mutation.after, mutation.nth)
        return key in self.reasons

    def stale(self, root):
        """Entries whose text is not in the tree any more."""
        squeeze = lambda text: re.sub(r"\s+", " ", text)
        for file, function, before, after, _ in self.reasons:
            path = root / file
            if not path.is_file() or before not in squeeze(path.read_text()):
                yield f"{file} {function}: {before}"
