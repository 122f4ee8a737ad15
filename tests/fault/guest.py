# SPDX-License-Identifier: MIT
"""A small machine with a kernel of its own, for what only a real kernel, file system and disk can show.

QEMU translates (no /dev/kvm needed), Debian's cloud kernel boots in seconds, and its root is an
initramfs of programs and libraries of this machine. Disks are files; a script is all it runs. Its
clock counts instructions, since on a loaded machine the kernel would miss its timer, and panic. It
jumps ahead while all wait for a disk, so nothing in a script may wait for a time.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from service import PATIENCE_S

MODULES = ("virtio_pci", "virtio_blk", "dm_log_writes")
TOOLS = ("qemu-system-x86_64", "cpio", "modprobe", "busybox", "dmsetup", "mke2fs", "ldd", "strip")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules); do insmod "/modules.d/$module"; done
ip link set lo up
echo GUEST-READY
. /script
echo GUEST-END
poweroff -f
"""


def missing():
    """What keeps a guest from starting here; nothing: None."""
    tools = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    if tools:
        return f"{', '.join(tools)}: not installed"
    return None if kernel() else "no cloud kernel is installed (linux-image-cloud-amd64)"


def kernel():
    """The version of the newest kernel of which both image and modules are there, or None."""
    found = [path.name for path in Path("/lib/modules").glob("*-cloud-amd64") if Path(f"/boot/vmlinuz-{path.name}").exists()]
    return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], default=None)


def libraries(program):
    """Files that the program loads when it starts."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+)(?= \(0x)", listed)


def module_files(modules):
    """Paths of the modules, and of those that they need, in the order in which they load."""
    found = []
    for module in modules:
        listed = subprocess.run(["/sbin/modprobe", "-S", kernel(), "--show-depends", module], capture_output=True, text=True,
                                check=True).stdout
        found += [line.split()[1] for line in listed.splitlines() if line.startswith("insmod")]
    return list(dict.fromkeys(found))


class Guest:
    """What all boots of a test share: kernel and root."""

    def __init__(self, folder, *programs, modules=MODULES):
        self.folder, self.boots = folder, 0
        self.root = root = folder / "root"
        for name in ("bin", "proc", "sys", "dev", "modules.d"):
            (root / name).mkdir(parents=True)
        tools = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") for name in ("busybox", "dmsetup")]
        for path in (*tools, *programs):
            subprocess.run(["strip", "-o", str(root / "bin" / Path(path).name), path], check=True)  # 20 MB less to load
            for library in libraries(path) if "busybox" not in path else []:
                (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, root / library[1:])
        paths = module_files(modules)
        for path in paths:
            shutil.copy(path, root / "modules.d")
        (root / "modules").write_text("".join(f"{Path(path).name}\n" for path in paths))
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)

    def boot(self, script, disks):
        """Runs the script to its end; what it wrote to the console."""
        self.boots += 1
        (self.root / "script").write_text(script)
        names = "\n".join(str(path.relative_to(self.root)) for path in self.root.rglob("*"))
        initrd = self.folder / "initrd"
        with open(initrd, "wb") as out:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=self.root, input=names.encode(), stdout=out, check=True)
        drives = [word for disk in disks for word in ("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe")]
        console = self.folder / f"console{self.boots}"  # a file, so that somebody can look at it meanwhile
        with open(console, "wb") as out:
            subprocess.run(
                ["qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=2,sleep=off", "-cpu", "Nehalem", "-m", "512",
                 "-nographic", "-no-reboot", "-net", "none",
                 "-kernel", f"/boot/vmlinuz-{kernel()}", "-initrd", str(initrd), "-append", "console=ttyS0 quiet panic=-1", *drives],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=5 * PATIENCE_S, check=False)
        said = console.read_text(errors="replace").replace("\r", "")
        assert "GUEST-END" in said, f"the guest did not get to its end\n{said[-3000:]}"
        return said[said.index("GUEST-READY"):]
