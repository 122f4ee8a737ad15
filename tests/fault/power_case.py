# SPDX-License-Identifier: MIT
"""Records a program's writes and syncs, cuts the power at many points, and has what is left judged.

A case is a folder that a program changes, and a promise. Recording.find_broken() goes through the
disks that a cut may leave, writes each as files, and calls check(folder, position): position is how
many events had happened, so the case knows what had been answered or announced by then.

TOMBOLA_SEED repeats a run's choices, though not what happened while it was recorded.
"""

import copy
import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

from power_disk import ENDED, HINT, RENAME, SAID, SENT, SYNC_BEGIN, SYNC_END, Choice, Dice, Disk, Keys, materialise, name_sites, read_log, same_as
from service import SEED, preloaded, program

NOTHING = (Choice, (False,))  # of what is pending is kept
RECORDER = Path(__file__).resolve().with_name("recorder.c")


class Recording:
    """One folder, everything that programs did to it one after the other, and how it began."""

    def __init__(self, recorder, folder, log):
        self.recorder, self.folder, self.log = recorder, Path(os.path.realpath(folder)), log
        self.start = Disk(self.folder).load()
        self.events, self.sound = [], None  # the disks of misses() with all syncs

    def environment(self, **more):
        """What makes a program write the log; `more`: kill=N, sync_us=N (recorder.c)."""
        return {**preloaded(self.recorder), "RECORDER_FOLDER": str(self.folder), "RECORDER_LOG": str(self.log),
                **{f"RECORDER_{name.upper()}": str(value) for name, value in more.items()}}

    def finish(self, name):
        """Reads the log; nothing of what tombola-`name` did may be missing in it."""
        self.events = name_sites(read_log(self.log), program(name))
        disk = copy.deepcopy(self.start)
        for event in self.events:
            disk.happen(event)
        same_as(disk.seen(), self.folder)
        return self

    # ---- cuts -----------------------------------------------------------------------------------

    def replay(self, without=None):
        """(position, disk, does a sync end here) before each event that changes the disk, and at the end."""
        disk = copy.deepcopy(self.start)
        disk.without = without
        for position, event in enumerate(self.events):
            if event.kind in (SENT, SAID, HINT, ENDED, SYNC_BEGIN):
                disk.happen(event)
                continue
            yield position, disk, event.kind == SYNC_END
            disk.happen(event)
        yield len(self.events), disk, True

    def disks(self, kinds, without=None):
        """{key: (last position, choice)} of the disks that differ, by the kinds of choice: n(othing kept), e(verything), k(ept: a single
        change), l(ost: a single change), d(ice)."""
        found = {}
        for position, disk, settles in self.replay(without):
            choices = [NOTHING] * ("n" in kinds) + [(Choice, (True,))] * ("e" in kinds)
            if settles:  # then most is pending
                choices += [(Choice, (all_kept, number)) for kind, all_kept in (("k", False), ("l", True)) if kind in kinds
                            for number in disk.pending()]
            choices += [(Dice, (f"{SEED}.{position}",))] * ("d" in kinds)
            keys = Keys(disk)
            for make, arguments in choices:
                found[keys.of(make(*arguments))] = (position, make, arguments)
        return found

    def find_broken(self, check, scratch, kinds="nekld", most=None):
        """(disks judged, what was wrong with some). `most`: as many of them, by chance, and as many of which nothing was kept."""
        wanted = sorted(self.disks(kinds).values(), key=lambda one: one[0])
        sure = [one for one in wanted if one[1:] == NOTHING]
        others = [one for one in wanted if one[1:] != NOTHING]
        if most is not None:
            sure, others = (random.Random(SEED).sample(some, min(most, len(some))) for some in (sure, others))
        wanted = [*self.overtaking(), *self.lost_at_the_end(), *sure, *others]
        return len(wanted), list(self.problems(check, scratch, wanted))

    def overtaking(self):
        """The disks on which a rename comes before all that was not synced by then; few, so they are all judged."""
        renames = [index + 1 for index, event in enumerate(self.events) if event.kind == RENAME]
        positions = [position for position, _, _ in self.replay()] if renames else []
        return [(next(position for position in positions if position >= rename), Choice, (False, 2 * rename)) for rename in renames]

    def lost_at_the_end(self):
        """The disks that lack one change when all that was promised stands: most has been synced by then."""
        *_, (position, disk, _) = self.replay()
        return [(position, Choice, (True, number)) for number in disk.pending()]

    def misses(self, check, scratch, site, most=None):
        """(disks judged, what was wrong with one), without the syncs of one place. Only disks that these syncs prevent count, or that they
        prevent from so late a moment on; the later, the sooner it shows."""
        kinds = "nkl"
        before = self.sound = self.sound or self.disks(kinds)
        late = {}
        for key, one in self.disks(kinds, site).items():
            if key not in before or one[0] > before[key][0]:
                late[one] = one[0] - before.get(key, (0,))[0]
        wanted = sorted(late, key=late.get, reverse=True)
        sure = [one for one in wanted if one[1:] == NOTHING][: most and most // 2]
        wanted = sure + [one for one in wanted if one[1:] != NOTHING][: most and most - len(sure)]
        return len(wanted), next(self.problems(check, scratch, wanted, site), None)

    def problems(self, check, scratch, wanted, without=None):
        """What is wrong with the wanted disks: (position, choice's class and arguments)."""
        chosen = {}
        for position, make, arguments in wanted:
            chosen.setdefault(position, []).append((make, arguments))
        for position, disk, _ in self.replay(without):
            for make, arguments in chosen.get(position, []):
                problem = self.judge(check, scratch, disk, position, make(*arguments))
                if problem:
                    yield f"cut before event {position} of {len(self.events)}, {make(*arguments)}: {problem}"

    def torn(self, dice, count):
        """(number, position, {path: bytes}) of disks on which a write is there in part."""
        found = []
        for position, disk, _ in self.replay():
            left = disk.after_cut(Dice(f"{SEED}.{position}"))
            if left not in (disk.after_cut(Choice(False)), disk.after_cut(Choice(True))):
                found.append((position, left))
        for number, (position, left) in enumerate(dice.sample(found, min(count, len(found)))):
            yield number, position, left

    def judge(self, check, scratch, disk, position, choice):
        folder = scratch / "cut"
        materialise(disk.after_cut(choice), folder)
        try:
            check(folder, position)
        except AssertionError as problem:
            return str(problem)
        finally:
            shutil.rmtree(folder)
        return None

    # ---- what was promised ----------------------------------------------------------------------

    def answers(self):
        """[(position from which it was heard, client's port, status, body)] of the HTTP responses."""
        found, streams = [], {}
        for position, event in enumerate(self.events, 1):
            if event.kind == SENT:
                text = streams.pop(event.number, b"") + event.data
                head, end, rest = text.partition(b"\r\n\r\n")
                while end:
                    length = int((re.search(rb"(?i)\r\ncontent-length: (\d+)", head) or [0, 0])[1])
                    if len(rest) < length:
                        break
                    body = rest[:length]
                    found.append((position, event.number, int(head.split()[1]), body))
                    text = rest[length:]
                    head, end, rest = text.partition(b"\r\n\r\n")
                streams[event.number] = text
        return found

    def said(self, pattern):
        """[(position from which it was heard, match)] of lines on standard output and error."""
        return [(position, match) for position, event in enumerate(self.events, 1) if event.kind == SAID
                for match in re.finditer(pattern, event.data.decode(errors="replace"))]

    def syncs(self):
        """The places in the program from which syncs came, each with how many."""
        return Counter(event.text[0] for event in self.events if event.kind == SYNC_BEGIN)

    def changes(self):
        """The events at which RECORDER_KILL can kill, in its count."""
        return [event for event in self.events if event.kind not in (SENT, SAID, HINT, ENDED, SYNC_END)]
