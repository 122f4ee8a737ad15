# SPDX-License-Identifier: MIT
"""What a disk may hold after a power cut: replays the log of recorder.c up to any point.

The program saw one content of each file and folder, the cached one. The disk has for sure what was
synced; everything since then it has or lacks, independently of each other and in any order:

  data    per sector of 512 bytes the content after any of the writes to it; whole writes, whole
          pages or single sectors of a write may be kept or lost
  size    after any of the changes of it; data without its size is not there, size without its data
          is zeros
  names   each create, rename, link, unlink and mkdir by itself; a rename is there whole or not at
          all. An fsync of the folder keeps them; one of the file does not

What fsync() and fdatasync() promise is what had been written when they were called, once they
returned. sync_file_range() promises nothing.
"""

import os
import random
import re
import struct
import subprocess
from collections import namedtuple

CREATE, FOLDER, WRITE, SIZE, RENAME, LINK, UNLINK, SYNC_BEGIN, SYNC_END, SENT, SAID, HINT, ENDED = range(1, 14)
RECORD = struct.Struct("<IIQQQQ")
SECTOR, PAGE = 512, 4096

Event = namedtuple("Event", "kind file offset number text data")


def read_log(path):
    """The events of a log, in the order in which they happened."""
    events, log, at = [], path.read_bytes(), 0
    while at < len(log):
        kind, text_bytes, file, offset, number, data_bytes = RECORD.unpack_from(log, at)
        at += RECORD.size
        text = log[at : at + text_bytes].decode().split("\0")[:-1]
        at += text_bytes + data_bytes
        events.append(Event(kind, file, offset, number, text, log[at - data_bytes : at]))
    return events


# ---- files and what is pending ------------------------------------------------------------------


class Change:
    """Something that the disk may lack: bytes from `at` on (whole sectors), a size, or names."""

    def __init__(self, number, data=None, at=0, size=None, names=None):
        self.number, self.data, self.at, self.size, self.names = number, data, at, size, names
        self.mark = hash((number,))

    def apply_data(self, content, begin=0, end=None):
        """Bytes `begin` to `end` of the change's data into `content`, which grows."""
        end = len(self.data) if end is None else min(end, len(self.data))
        if len(content) < self.at + end:
            content.extend(bytes(self.at + end - len(content)))
        content[self.at + begin : self.at + end] = self.data[begin:end]


class File:
    """A regular file: what programs see (cached), what is on the disk, what lies between (pending)."""

    def __init__(self, number, content=b""):
        self.number, self.mark = number, 0
        self.cached, self.disk, self.disk_size = bytearray(content), bytearray(content), len(content)
        self.pending = []

    def write(self, change_number, offset, data):
        size = len(self.cached)
        end = offset + len(data)
        if end > size:
            self.cached.extend(bytes(end - size))
        self.cached[offset:end] = data
        begin = offset // SECTOR * SECTOR
        image = self.cached[begin : -(-end // SECTOR) * SECTOR]
        self.pending.append(Change(change_number, data=bytes(image), at=begin))
        if end > size:
            self.pending.append(Change(change_number + 1, size=end))

    def resize(self, change_number, size):
        """What is cut off is zeros, should the file grow over it again."""
        before = len(self.cached)
        if size < before:
            del self.cached[size:]
            begin = size // SECTOR * SECTOR
            image = bytes(self.cached[begin:]).ljust(before - begin, b"\0")
            self.pending.append(Change(change_number, data=image, at=begin))
        else:
            self.cached.extend(bytes(size - before))
        if size != before:
            self.pending.append(Change(change_number + 1, size=size))

    def settle(self, changes):
        for change in changes:
            if change.data is not None:
                change.apply_data(self.disk)
            else:
                self.disk_size = change.size
        self.disk.extend(bytes(max(0, self.disk_size - len(self.disk))))
        self.mark ^= mark_of(changes)

    def content(self, kept, choice):
        """The bytes with the pending changes that are kept, as far as `choice` keeps them."""
        content, size = bytearray(self.disk), self.disk_size
        for change in kept:
            if change.data is None:
                size = change.size
            else:
                choice.apply(change, content)
        content.extend(bytes(max(0, size - len(content))))
        return bytes(content[:size])


class Folder:
    """Names, as a file has content."""

    def __init__(self, number):
        self.number, self.mark = number, 0
        self.cached, self.disk, self.pending = {}, {}, []

    def settle(self, changes):
        for change in changes:
            for folder, name, file in change.names:
                set_name(folder.disk, name, file)
                if folder is not self and change in folder.pending:
                    folder.pending.remove(change)
                    folder.mark ^= mark_of([change])
        self.mark ^= mark_of(changes)

    def names(self, kept):
        names = dict(self.disk)
        for change in kept:
            for folder, name, file in change.names:
                if folder is self:
                    set_name(names, name, file)
        return names


def mark_of(changes):
    """One number for a set of changes: contents that come of the same changes have the same mark."""
    mark = 0
    for change in changes:
        mark ^= change.mark
    return mark


def set_name(names, name, file):
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


# ---- which of the pending changes the disk has --------------------------------------------------


class Choice:
    """All pending changes or none, but for one (its number)."""

    mark = 0  # of its own, where it keeps parts of changes

    def __init__(self, all_kept, but=None):
        self.all_kept, self.but = all_kept, but

    def __str__(self):
        what = "everything" if self.all_kept else "nothing"
        return f"{what} pending kept" + (f" but change {self.but}" if self.but is not None else "")

    def keeps(self, change):
        return self.all_kept != (change.number == self.but)

    def apply(self, change, content):
        change.apply_data(content)


class Dice(Choice):
    """Each change by chance, and of those that are kept some pages, and of those some sectors."""

    def __init__(self, seed):
        super().__init__(False)
        self.mark, self.dice = seed, random.Random(seed)
        self.share, self.tear = self.dice.choice((0.1, 0.5, 0.9)), self.dice.choice((0, 0.5))

    def __str__(self):
        return f"dice {self.mark}"

    def keeps(self, change):
        return self.dice.random() < self.share

    def apply(self, change, content):
        if self.dice.random() >= self.tear:
            change.apply_data(content)
            return
        for begin in range(-(change.at % PAGE), len(change.data), PAGE):
            torn = self.dice.random() < 0.5
            for sector in range(max(begin, 0), min(begin + PAGE, len(change.data)), SECTOR if torn else PAGE):
                if self.dice.random() < 0.5:
                    change.apply_data(content, sector, min(sector + (SECTOR if torn else PAGE), begin + PAGE))


# ---- the disk -----------------------------------------------------------------------------------


class Disk:
    """The files below `root` as the log has changed them so far."""

    def __init__(self, root, without=None):
        """`without`: the place in the program whose syncs are taken for missing."""
        self.root, self.without, self.changes, self.syncs = str(root), without, 0, {}
        self.files, self.top = {}, None

    def load(self):
        """The folder as it is now, all of it on the disk."""
        self.top = self.load_folder(self.root)
        return self

    def load_folder(self, path):
        folder = Folder(os.stat(path).st_ino)
        self.files[folder.number] = folder
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                file = self.load_folder(entry.path)
            else:
                with open(entry.path, "rb") as data:
                    file = self.files.setdefault(entry.inode(), File(entry.inode(), data.read()))
            folder.cached[entry.name] = folder.disk[entry.name] = file
        return folder

    # ---- what happened --------------------------------------------------------------------------

    def happen(self, event):
        self.changes += 2  # the second number: of a size beside its data
        if event.kind in (WRITE, SIZE) and event.file not in self.files:
            self.files[event.file] = File(event.file)  # it never had a name
        if event.kind == CREATE:
            self.files[event.file] = File(event.file)
            self.name((event.text[0], self.files[event.file]))
        elif event.kind == FOLDER:
            self.files[event.file] = Folder(event.file)
            self.name((event.text[0], self.files[event.file]))
        elif event.kind == WRITE:
            self.files[event.file].write(self.changes, event.offset, event.data)
        elif event.kind == SIZE:
            self.files[event.file].resize(self.changes, event.offset)
        elif event.kind == RENAME:
            self.name((event.text[0], None), (event.text[1], self.find(event.text[0])))
        elif event.kind == LINK:
            self.name((event.text[1], self.find(event.text[0])))
        elif event.kind == UNLINK:
            self.name((event.text[0], None))
        elif event.kind == SYNC_BEGIN:
            if event.text != [self.without] and event.file in self.files:
                self.syncs[event.number] = list(self.files[event.file].pending)
        elif event.kind == SYNC_END and event.number in self.syncs and event.file in self.files:
            self.settle(self.files[event.file], self.syncs.pop(event.number))

    def settle(self, file, changes):
        done = {id(change) for change in changes}
        file.settle([change for change in file.pending if id(change) in done])
        file.pending = [change for change in file.pending if id(change) not in done]

    def place(self, path):
        """(folder, name) of a path as programs see it."""
        folder, parts = self.top, os.path.relpath(path, self.root).split("/")
        for part in parts[:-1]:
            folder = folder.cached[part]
        return folder, parts[-1]

    def find(self, path):
        folder, name = self.place(path)
        return folder.cached[name]

    def name(self, *entries):
        """One change of names: (path, file), None where the name goes."""
        change = Change(self.changes, names=[(*self.place(path), file) for path, file in entries])
        for folder, name, file in change.names:
            set_name(folder.cached, name, file)
        for folder in {id(folder): folder for folder, _, _ in change.names}.values():
            folder.pending.append(change)

    # ---- what is there after a cut --------------------------------------------------------------

    def pending(self):
        """Numbers of the changes that the disk may lack."""
        return sorted({change.number for file in self.reachable() for change in file.pending})

    def reachable(self):
        """Files and folders that have a name in memory or on the disk."""
        found, ahead = {}, [self.top]
        while ahead:
            file = ahead.pop()
            if file is None or id(file) in found:
                continue
            found[id(file)] = file
            if isinstance(file, Folder):
                ahead += [*file.disk.values(), *(one for change in file.pending for _, _, one in change.names)]
        return found.values()

    def kept(self, choice):
        """[(path, file, its pending changes that are kept)] of all that has a name after a cut."""
        found = [("", self.top, [change for change in self.top.pending if choice.keeps(change)])]
        for path, folder, kept in found:
            if isinstance(folder, Folder):
                for name, file in sorted(folder.names(kept).items()):
                    found.append((f"{path}/{name}", file, [change for change in file.pending if choice.keeps(change)]))
        return found

    def key_after_cut(self, choice):
        """A number that other disks do not have. Keys.of() is the same for many choices."""
        return hash((choice.mark, *((path, file.number, file.mark ^ mark_of(kept)) for path, file, kept in self.kept(choice))))

    def after_cut(self, choice):
        """{path: bytes, None for a folder}."""
        return {path[1:]: None if isinstance(file, Folder) else file.content(kept, choice)
                for path, file, kept in self.kept(choice) if path}

    def seen(self):
        """{path: bytes, None for a folder} as programs see it."""
        return self.after_cut(Choice(True))


class Pending:
    """What is pending of a file that does not change meanwhile, for choices that keep all of it or nothing, but for one."""

    def __init__(self, file):
        self.file, self.mark = file, mark_of(file.pending)
        self.marks = {change.number: change.mark for change in file.pending}
        self.sorted_names = {}  # mark of what is kept: names

    def mark_kept(self, choice):
        return (self.mark if choice.all_kept else 0) ^ self.marks.get(choice.but, 0)

    def names_with(self, choice):
        """Of a folder, with the files that they are of."""
        mark = self.mark_kept(choice)
        if mark not in self.sorted_names:
            kept = [change for change in self.file.pending if choice.keeps(change)]
            self.sorted_names[mark] = sorted(self.file.names(kept).items())
        return self.sorted_names[mark]


class Keys:
    """Disk.key_after_cut() of many choices, while the disk does not change: hundreds of them differ in one change."""

    def __init__(self, disk):
        self.disk, self.pending = disk, {}

    def of(self, choice):
        if type(choice) is not Choice:
            return self.disk.key_after_cut(choice)
        found, parts = [("", self.disk.top)], []
        for path, file in found:
            if file not in self.pending:
                self.pending[file] = Pending(file)
            pending = self.pending[file]
            parts.append((path, file.number, file.mark ^ pending.mark_kept(choice)))
            if isinstance(file, Folder):
                found += [(f"{path}/{name}", one) for name, one in pending.names_with(choice)]
        return hash((choice.mark, *parts))


def materialise(found, folder):
    """Writes what after_cut() found as files; zeros as holes."""
    folder.mkdir(parents=True)
    for path, content in found.items():
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with open(folder / path, "wb") as out:
            for at in range(0, len(content), 1 << 16):
                piece = content[at : at + (1 << 16)]
                if piece.count(0) < len(piece):
                    out.seek(at)
                    out.write(piece)
            out.truncate(len(content))


def same_as(found, folder):
    """Asserts that the log saw everything: the real folder holds what the log says."""
    real = {}
    for path, folders, names in os.walk(folder):
        for name in folders:
            real[os.path.relpath(os.path.join(path, name), folder)] = None
        for name in names:
            with open(os.path.join(path, name), "rb") as data:
                real[os.path.relpath(os.path.join(path, name), folder)] = data.read()
    assert found.keys() == real.keys(), f"the log names {sorted(found)}, the folder holds {sorted(real)}"
    for path, content in real.items():
        assert content == found[path], f"the log does not say all that was written to {path}"


# ---- where in the program a sync is -------------------------------------------------------------


def name_sites(events, program):
    """The events, each SYNC_BEGIN with a text: "function:line of the sync < its caller < ..." of the program's frames."""
    places = {}
    for event in events:
        if event.kind == SYNC_BEGIN:
            places.update(dict.fromkeys(struct.unpack("<8Q", event.data)))
    ordered = [place for place in places if 0 < place < 1 << 40]
    lines = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", program], input="\n".join(map(hex, ordered)),
                           capture_output=True, text=True, check=True).stdout.splitlines()
    frames, at = {}, None
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            at = frames.setdefault(int(line, 16), [])
        else:
            at.append(line)
    return [event._replace(text=[site_of(frames, struct.unpack("<8Q", event.data))]) if event.kind == SYNC_BEGIN else event
            for event in events]


def site_of(frames, stack):
    """The sync's own place and two callers: a helper that only syncs is told apart by who calls it."""
    found = []
    for place in stack:
        names = frames.get(place, [])
        for function, line in zip(names[::2], names[1::2]):
            if function != "??":
                found.append(f"{function}:{line.rsplit(':', 1)[1].split()[0]}")
    return " < ".join(found[:3])
