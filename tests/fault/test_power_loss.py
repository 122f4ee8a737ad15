# SPDX-License-Identifier: MIT
"""Promise 5 on a real kernel, file system and disk: the power goes at any moment, and what was answered holds.

In a guest the sampler keeps its state on ext4 above dm-log-writes, which notes each block that reaches the disk, and each flush.
Between flushes a disk may keep any of the blocks that it was given. So one boot gives as many cuts as are wanted: the image up to
some entry of the log, without some of what was not flushed by then. A second boot mounts each of them, as after a power cut, and
starts the sampler there.

test_power_replay.py cuts more, and without a kernel; this shows that a real one keeps what is asked of it there.
"""

import json
import random
import re
import struct
import subprocess

import pytest

import guest
from service import LONG, SEED, program

CUTS = 40 if LONG else 3
CUTS_A_BOOT = 10
ROUNDS = 40 if LONG else 4
DISK_BYTES, LOG_BYTES = 24 << 20, 256 << 20
UNITS = 1000000
IN_SUPERBLOCK = 1024 + 512  # ext4 takes it for written whole: it mounts none that is torn

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
ENTRY = struct.Struct("<4Q")

# One program asks for all: starting one takes long here.
TALK = r"""
ask() { printf 'GET %s HTTP/1.1\r\nHost: guest\r\n\r\n' "$1"; }
last() { printf 'GET /healthz HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n'; }
leased() { for seq in $(seq $1 $2); do ask "/batch?worker=w&seq=$seq&size=7"; done; }
plain() { for size in 1 2 3 4 5 6 7 8 9; do ask "/batch?size=$size"; done; }
talk() { nc 127.0.0.1 80 | grep -o '{.*}'; }
start() {
    : >/log  # not what the one before said
    tombola-sampler serve --store 'range:UNITS?labels=10' --seed 5 --lease 3000 --listen 127.0.0.1:80 --state /disk/new/state >>/log 2>&1 &
    until grep -q 'listening on' /log || ! kill -0 $!; do sleep 0.1; done
    cat /log
}
""".replace("UNITS", str(UNITS))

RECORD = TALK + f"""
dmsetup --noudevsync create logged --table "0 $(blockdev --getsz /dev/vda) log-writes /dev/vda /dev/vdb"
mkdir /disk
mount -t ext4 /dev/dm-0 /disk
start
for round in $(seq 0 {ROUNDS - 1}); do
    (leased $((round * 5)) $((round * 5 + 4)); last) | talk >/leased &
    (plain; last) | talk
    wait $!
    cat /leased
    dmsetup message logged 0 mark round$round
    echo "ROUND $round"
done
umount -l /disk
sync
dmsetup message logged 0 mark end
"""

JUDGE = TALK + f"""
mkdir /disk
for disk in $DISKS; do
    echo "DISK $disk"
    mount -t ext4 /dev/$disk /disk || continue  # the kernel's reason stands on the console
    start
    (ask /streams/default; leased 0 {ROUNDS * 5 - 1}; last) | talk
    kill -9 %1
    wait
    umount /disk
done
"""


def read_log(path):
    """The entries of dm-log-writes: (sector, flags, data); a mark's data is its text."""
    log = path.read_bytes()
    _, version, count, sector_bytes = struct.unpack_from("<3QI", log)
    assert version == 1 and count > 0
    at = sector_bytes
    for _ in range(count):
        sector, sectors, flags, text_bytes = ENTRY.unpack_from(log, at)
        text = log[at + ENTRY.size : at + ENTRY.size + text_bytes]
        at += sector_bytes
        data = b"" if flags & DISCARD else log[at : at + sectors * sector_bytes]
        at += len(data)
        yield sector * sector_bytes, flags, text if flags & MARK else data


def cut(image, entries, position, dice):
    """The disk when the power goes after `position` entries: what was not flushed is there by chance, some of it torn."""
    pending, share = [], dice.choice((0, 0.3, 0.7, 1))
    for at, flags, data in entries[:position]:
        if flags & FLUSH:
            settle(image, pending)
        if flags & (MARK | DISCARD) or not data:
            continue
        if flags & FUA:
            image[at : at + len(data)] = data
        else:
            pending.append((at, data))
    for at, data in pending:
        if dice.random() < share:
            kept = len(data) if dice.random() < 0.7 else dice.randrange(0, len(data) + 1, 512)
            if at + kept == IN_SUPERBLOCK:
                kept -= 512
            image[at : at + kept] = data[:kept]
    return image


def settle(image, pending):
    for at, data in pending:
        image[at : at + len(data)] = data
    pending.clear()


def batches(text):
    return [json.loads(found[0]) for found in re.finditer(r'\{"stream"[^{}]*\}', text)]


def check(console, answered):
    """What the sampler says on a disk after a cut, against what had been answered before."""
    found = re.search(r'^\{"name":"default".*', console, re.M)
    assert found, f"it did not start:\n{console[-3000:]}"
    end = max((batch["first"] + batch["size"] for batch in answered), default=0)
    assert json.loads(found[0])["position"] >= end, f"batches up to {end} were answered: {found[0]}"
    leased = {batch["seq"]: batch["first"] for batch in answered if "worker" in batch}
    again = {batch["seq"]: batch["first"] for batch in batches(console)}
    assert leased.items() <= again.items()
    plain = {batch["first"] for batch in answered if "worker" not in batch}
    assert plain.isdisjoint(again.values()), "a batch was answered twice"


@pytest.mark.heavy
def test_what_was_answered_survives_a_power_cut(tmp_path):
    if guest.missing():
        pytest.skip(f"no guest can be started: {guest.missing()}")
    dice = random.Random(SEED)
    machine = guest.Guest(tmp_path, program("sampler"))
    disk, log = tmp_path / "disk", tmp_path / "log"
    for path, size in ((disk, DISK_BYTES), (log, LOG_BYTES)):
        with open(path, "wb") as out:
            out.truncate(size)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(disk)], check=True)
    empty = disk.read_bytes()
    rounds = re.split(r"^ROUND \d+$", machine.boot(RECORD, [disk, log]), flags=re.M)[:-1]
    assert len(rounds) == ROUNDS
    entries = list(read_log(log))
    marks = [index for index, entry in enumerate(entries) if entry[1] & MARK]
    assert len(marks) == ROUNDS + 1, "a mark for each round, and the end"
    cuts = [dice.randrange(len(entries) + 1) for _ in range(CUTS)]
    for begin in range(0, CUTS, CUTS_A_BOOT):
        some = cuts[begin : begin + CUTS_A_BOOT]
        images = []
        for number, position in enumerate(some):
            images.append(tmp_path / f"cut{number}")
            images[-1].write_bytes(cut(bytearray(empty), entries, position, dice))
        names = [f"vd{chr(ord('a') + number)}" for number in range(len(some))]
        consoles = machine.boot(f"DISKS='{' '.join(names)}'{JUDGE}", images).split("DISK ")[1:]
        for position, console in zip(some, consoles, strict=True):
            heard = sum(mark < position for mark in marks[:-1])
            check(console, [batch for text in rounds[:heard] for batch in batches(text)])
    print(f"{len(entries)} entries of the disk's log, {CUTS} cuts, {machine.boots} boots")
