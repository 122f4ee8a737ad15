"""Promise 5 when the power goes: a Linux of its own (user-mode-linux) whose disk is an image file.

The guest sees the real file system read only, and its own files below /sys, where nobody builds.
In it the sampler keeps its state with --durability fsync on ext4; what it answers goes to the
console, and so to this test. The guest is ended by kill -9 at a random moment: what it had not
written to its disk is gone, as after a power cut. Then it is started again on the same disk.
"""

import json
import os
import random
import re
import shutil
import subprocess
import time

import pytest

from service import LONG, PATIENCE_S, program

CUTS = 20 if LONG else 2
UNITS, EPOCHS, SEED = 1000000, 1, 5

INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs tmpfs /sys
busybox ifconfig lo 127.0.0.1 up
stty -F /dev/console -opost
mkdir /sys/disk
mount -t ext4 /dev/ubda /sys/disk || echo 'GUEST no disk'
cd /sys
{sampler} serve --store 'range:{units}?labels=10' --seed {seed} --epochs {epochs} --lease 3000 \\
    --state /sys/disk/state --durability fsync --listen 127.0.0.1:80 2>/sys/log || {{ cat /sys/log; echo 'GUEST ended'; }} &
tries=0
until curl -sf http://127.0.0.1/readyz >/dev/null || [ $tries = 300 ]; do tries=$((tries + 1)); sleep 0.1; done
curl -sf -w '\\n' http://127.0.0.1/streams/default
echo 'GUEST ready'
from={boot}000000
while :; do
    curl -s -w '\\n' "http://127.0.0.1/batch?worker=w&seq=[$from-$((from + 49))]&size=7"
    from=$((from + 50))
    curl -s -w '\\n' 'http://127.0.0.1/batch?size=[1-40]'
done &
while :; do curl -s -w '\\n' 'http://127.0.0.1/batch?size=[20-60]'; done
"""


class Guest:
    """One boot; answers() are the batches that reached its console."""

    def __init__(self, folder, boot):
        init, self.console = folder / f"init{boot}.sh", folder / f"console{boot}"
        init.write_text(INIT.format(sampler=program("sampler"), units=UNITS, seed=SEED, epochs=EPOCHS, boot=boot + 1))
        init.chmod(0o755)
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(
                ["unshare", "-p", "-f", "--kill-child=KILL", "linux.uml", "mem=192M", "rootfstype=hostfs", "rootflags=/", "ro",
                 f"ubd0={folder / 'disk'}", f"init={init}", "con=null", "con0=fd:0,fd:1", "quiet"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, cwd=folder,
                env={**os.environ, "HOME": str(folder)})

    def text(self):
        return self.console.read_text(errors="replace")

    def wait_for(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while "GUEST" not in self.text() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if "GUEST" not in self.text():
            pytest.skip(f"user-mode-linux does not start here: {self.text()[-300:]}")
        while not condition(self.text()):
            assert time.monotonic() < deadline and self.process.poll() is None, f"{what}\n{self.text()[-3000:]}"
            time.sleep(0.02)

    def cut_power(self):
        """All of its processes are gone when unshare is."""
        self.process.kill()
        self.process.wait()

    def answers(self):
        """Batches; one that the cut shortened is no answer."""
        return [json.loads(found[0]) for found in re.finditer(r'\{"stream"[^{}]*\}', self.text())]

    def first_status(self):
        return next(json.loads(line) for line in self.text().splitlines() if line.startswith('{"name"'))


@pytest.mark.heavy
def test_what_was_answered_survives_a_power_cut(sampler, tmp_path):
    for tool in ("linux.uml", "unshare", "mke2fs", "busybox"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (user-mode-linux, e2fsprogs, busybox-static)")
    if subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a process namespace cannot be made here (needs root)")
    seed = int(os.environ.get("TOMBOLA_FAULT_SEED", time.time_ns() % 2**31))
    print(f"TOMBOLA_FAULT_SEED={seed}")
    dice = random.Random(seed)
    with open(tmp_path / "disk", "wb") as disk:
        disk.truncate(24 << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(tmp_path / "disk")], check=True)
    pure = sampler("--store", f"range:{UNITS}?labels=10", "--seed", SEED, "--epochs", EPOCHS)
    order = pure.batch(f"size={UNITS}&index=0")["ids"]
    given, leases, boots = {}, {}, 0
    for boot in range(CUTS + 1):
        guest = Guest(tmp_path, boot)
        try:
            guest.wait_for(lambda text: "GUEST ready" in text or "GUEST ended" in text, "it never got ready")
            assert "GUEST ended" not in guest.text() and "GUEST no disk" not in guest.text(), guest.text()[-3000:]
            status = guest.first_status()
            assert status["position"] >= max((first + size for first, size in given.items()), default=0)
            wanted = dice.randrange(3, 400)
            guest.wait_for(lambda text: text.count('"ids"') > wanted, "no answers")  # pylint: disable=cell-var-from-loop
            time.sleep(dice.random() * 0.3)
        finally:
            guest.cut_power()
        note(guest.answers(), order, given, leases, status["position"])
        boots += 1
    check_gaps(given, boots)
    print(f"{boots} boots, {len(given)} batches")


def note(answers, order, given, leases, start):
    """Nothing that a boot answers was answered before."""
    for answer in answers:
        first, size = answer["first"], answer["size"]
        assert answer["ids"] == order[first : first + size]
        pair = (answer.get("worker"), answer.get("seq"))
        assert first >= start and first not in given, f"position {first} was answered twice"
        assert answer.get("attempt", 1) == 1
        given[first] = size
        if pair[0]:
            assert pair not in leases
            leases[pair] = first


def check_gaps(given, boots):
    """No overlap; and nothing is skipped but what was on its way, two clients, at each cut."""
    position, gaps = 0, 0
    for first, size in sorted(given.items()):
        assert first >= position, f"position {first} was answered twice"
        gaps += first > position
        position = first + size
    assert gaps <= 2 * boots, f"{gaps} batches were skipped in {boots} boots"
