# SPDX-License-Identifier: MIT
"""A file system whose reads fail or hang when a test says so, as those of a file server that is away: FUSE, spoken to
the kernel without a library. It shows the files of one folder, read only."""

import ctypes
import errno
import os
import struct
import threading

import pytest

LOOKUP, GETATTR, OPEN, READ, STATFS, RELEASE, GETXATTR, FLUSH, INIT, ACCESS, INTERRUPT = 1, 3, 14, 15, 17, 18, 22, 25, 26, 34, 36
ROOT = 1
DIRECT_IO = 1  # nothing comes from the page cache
CACHE_S = 3600  # stat() needs no answer: only reads meet what is wrong


class StallingFiles:
    """`mode`: "right"; "fail", with EIO; "hang", until end(); "dead": as "hang", and nothing is opened."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.names = sorted(os.listdir(source))
        self.mode = "right"
        self.asked = 0  # reads that did not go right
        self.spared = 0  # so many bytes are read before the mode begins
        self.libc = ctypes.CDLL(None, use_errno=True)
        try:
            self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as problem:
            pytest.skip(f"no FUSE: {problem}")
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self.libc.mount(b"tombola", os.fsencode(folder), b"fuse", 0, options.encode()):
            os.close(self.device)
            pytest.skip(f"no FUSE: {os.strerror(ctypes.get_errno())}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def end(self):
        """Whoever hangs in a read comes back with an error; before, even SIGKILL does not end it."""
        self.libc.umount2(os.fsencode(self.folder), 1)  # MNT_FORCE

    def close(self):
        self.end()
        self.libc.umount2(os.fsencode(self.folder), 2)  # MNT_DETACH
        self.thread.join()
        os.close(self.device)

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError as problem:
                if problem.errno in (errno.ENOENT, errno.EINTR):  # it was interrupted before it was read
                    continue
                return  # unmounted
            _, what, unique, node = struct.unpack_from("<IIQQ", request)
            answer = self.answer(what, node, request[40:])
            if answer is not None:
                status, body = (answer, b"") if isinstance(answer, int) else (0, answer)
                os.write(self.device, struct.pack("<IiQ", 16 + len(body), -status, unique) + body)

    def attributes(self, node):
        if node == ROOT:
            status, mode = os.stat(self.source), 0o40755
        else:
            status, mode = os.stat(os.path.join(self.source, self.names[node - 2])), 0o100444
        return struct.pack("<QQQQQQIIIIIIIIII", node, status.st_size, 1, int(status.st_atime), int(status.st_mtime),
                           int(status.st_ctime), 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, what, node, body):
        """The bytes of an answer, an errno, or None: there is none."""
        if what == INIT:
            return struct.pack("<IIIIHHIIHH", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0) + bytes(28)
        if what == LOOKUP:
            name = body.split(b"\0")[0].decode()
            if name not in self.names:
                return errno.ENOENT
            node = 2 + self.names.index(name)
            return struct.pack("<QQQQII", node, 0, CACHE_S, CACHE_S, 0, 0) + self.attributes(node)
        if what == GETATTR:
            return struct.pack("<QII", CACHE_S, 0, 0) + self.attributes(node)
        if what == OPEN:
            if self.mode == "dead":
                self.asked += 1
                return None
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        if what == READ:
            return self.read(node, *struct.unpack_from("<QQI", body)[1:])
        if what in (RELEASE, FLUSH):
            return b""
        return None if what == INTERRUPT else errno.ENOSYS

    def read(self, node, offset, size):
        path = os.path.join(self.source, self.names[node - 2])
        if self.mode != "right" and self.spared <= 0:
            self.asked += 1
            return errno.EIO if self.mode == "fail" else None
        with open(path, "rb") as file:
            data = os.pread(file.fileno(), size, offset)
        self.spared -= len(data)
        return data
