# SPDX-License-Identifier: MIT
"""Verdicts, kept line by line as they come, and what is said of them at the end."""

import json
from collections import Counter
from threading import Lock

from judge import BROKEN, EQUIVALENT, KILLED, LISTED, SURVIVED, Verdict

REAL = (KILLED, SURVIVED)


class Results:
    """`path`: a JSON object a line; the last of a name counts."""

    def __init__(self, path, keep):
        self.lock, self.verdicts = Lock(), {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if keep and path.exists() else []:
            one = Verdict(**json.loads(line))
            self.verdicts[one.name] = one
        self.file = open(path, "a" if keep else "w", buffering=1, encoding="utf-8")

    def add(self, verdict):
        with self.lock:
            self.verdicts[verdict.name] = verdict
            self.file.write(json.dumps(verdict.note()) + "\n")

    def survivors(self):
        return [one for one in self.verdicts.values() if one.verdict == SURVIVED]

    def table(self, rooms):
        """By room; the score is of the real ones: those that are neither equivalent nor did not compile."""
        rows = []
        for room in rooms:
            count = Counter(one.verdict for one in self.verdicts.values() if one.room == room)
            if count:
                rows.append((room, count))
        rows.append(("all", sum((count for _, count in rows), Counter())))
        lines = ["| room | mutants | killed | survivors | equivalent | score |", "|---|---|---|---|---|---|"]
        for room, count in rows:
            real = count[KILLED] + count[SURVIVED]
            score = f"{100 * count[KILLED] / real:.0f} %" if real else "-"
            same = count[EQUIVALENT] + count[LISTED]
            lines.append(f"| {room} | {real} | {count[KILLED]} | {count[SURVIVED]} | {same} | {score} |")
        return "\n".join(lines)

    def describe(self, one):
        ran = ", ".join(one.ran) if one.ran else "no test runs this line"
        unrun = f", and {one.unrun} more for which the time was over" if one.unrun else ""
        return (f"{one.file}:{one.line} {one.function} ({one.kind}, {one.name})\n"
                f"    - {one.before}\n    + {one.after}\n    ran: {ran}{unrun}\n")

    def report(self, rooms):
        count = Counter(one.verdict for one in self.verdicts.values())
        text = f"{self.table(rooms)}\n\nEquivalent: {count[EQUIVALENT]} by their object code, {count[LISTED]} listed."
        text += f" {count[BROKEN]} did not compile and do not count.\n"
        late = sum(one.verdict == KILLED and "no end" in one.by for one in self.verdicts.values())
        text += f"Killed by a time limit: {late}.\n" if late else ""
        survivors = sorted(self.survivors(), key=lambda one: (rooms.index(one.room), one.file, one.line))
        if survivors:
            text += f"\n{len(survivors)} survivors:\n\n" + "\n".join(map(self.describe, survivors))
        return text
