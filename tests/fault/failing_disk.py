# SPDX-License-Identifier: MIT
"""A disk that fails, for a running server: strace makes its calls fail."""

import contextlib
import os
import re
import subprocess
import time

import pytest

from service import PATIENCE_S


def traces_all(tracer, pid):
    """The first thread that it is attached to is not yet the one that writes."""
    tracers = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            with open(f"/proc/{pid}/task/{task}/status") as status:
                tracers.append(int(re.search(r"TracerPid:\s*(\d+)", status.read())[1]))
    return set(tracers) == {tracer}


@contextlib.contextmanager
def traced(server, strace, trace, *options):
    """strace with these options is attached to the server meanwhile."""
    tracer = subprocess.Popen([strace, "-f", "-q", "-p", str(server.process.pid), "-o", str(trace), *options],
                              stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not traces_all(tracer.pid, server.process.pid):
            if tracer.poll() is not None:
                pytest.skip(f"strace may not attach here: {tracer.stderr.read().strip()}")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        tracer.kill()  # it may not hear SIGTERM once it has killed what it traces
        tracer.communicate()


def failing(server, strace, trace, *injections):
    """The server's calls fail meanwhile, as strace's `inject=` says."""
    words = [word for one in injections for word in ("-e", f"inject={one}")]
    return traced(server, strace, trace, "-e", "trace=fdatasync,fsync,pwrite64,pwritev", *words)
