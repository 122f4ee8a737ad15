# SPDX-License-Identifier: MIT
"""The Python package of this tree, built once a run, and programs that use it."""

import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import costs
from conftest import BUILD, PATIENCE_S, ROOT, SANITIZED, environment

SOURCES = ROOT / "loader" / "python"
# Debian's, which python3-dev and python3-numpy are for; or another that has NumPy and what setup.py needs.
PYTHON = os.environ.get("TOMBOLA_PYTHON") or "/usr/bin/python3"


def build():
    """The folder that holds tombola/, for sys.path."""
    folder, library = BUILD / Path(PYTHON).name, BUILD / "loader" / ".libs" / "libtombola.so.0"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "complete"
        newest = max(path.stat().st_mtime for path in [library, *SOURCES.glob("*.*"), *SOURCES.glob("tombola/*.*")])
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            done = subprocess.run(
                [PYTHON, "setup.py", "-q", "build", "--build-base", folder / "base", "--build-lib", folder / "lib"], cwd=SOURCES,
                env={**os.environ, "TOMBOLA_BUILD": os.fspath(BUILD)}, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            stamp.touch()
    return folder / "lib"


@functools.cache
def find_python(module):
    """A Python that has this module: Debian's, or that of the benchmarks' peers; None."""
    peers = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").glob("tombola/peers-*/bin/python")
    for python in (os.environ.get("TOMBOLA_PEER_PYTHON"), PYTHON, *map(os.fspath, peers)):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def python_with(module):
    """As find_python(); skips where there is none."""
    return find_python(module) or pytest.skip(f"no Python has {module}")


# What most programs import, or all that use torch, which takes three seconds: a process has done so, and forks for each.
# It has not imported tombola, so that this begins as in a process of its own.
FORKING = """
def begin():
    import gc, json, os, socket, sys
    main, requests = globals(), socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        __import__(name)
    gc.freeze()
    while True:
        request, files, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not request:
            os._exit(0)
        child = os.fork()
        if child == 0:
            break
        [os.close(file) for file in files]
        requests.send(str(child).encode())
        _, status, used = os.wait4(child, 0)
        requests.send(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]).encode())
    requests.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    script, sys.argv[1:], environment = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    return compile(script, "<string>", "exec")

exec(begin())
"""
# What torch leaves to be freed at the end takes half a second; what is registered with atexit and threads ends as always.
END = """
import atexit, os, sys, threading
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""
IMPORTS = {"numpy": ("numpy", "json", "urllib.request"), "torch": ("torch.utils.data",)}


def read_all(end):
    with open(end, encoding="utf-8") as file:
        return file.read()


class Forks:
    """That process, of one Python."""

    running = {}

    def __init__(self, package, python, module):
        self.requests, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.requests.settimeout(PATIENCE_S)
        with other:  # no thread may run where one forks
            self.process = subprocess.Popen(
                [python, "-c", FORKING, str(other.fileno()), *IMPORTS[module]], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL,
                env=environment({"PYTHONPATH": os.fspath(package), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}))

    @classmethod
    def of(cls, *words):
        if words not in cls.running or cls.running[words].process.poll() is not None:
            cls.running[words] = cls(*words)
        return cls.running[words]

    @classmethod
    def end_all(cls):
        for one in cls.running.values():
            one.requests.close()
            one.process.wait()
            costs.LIVING_S.pop(one, None)
        cls.running.clear()

    def run(self, script, words, variables):
        """The exit status, standard output and error of one program; None as status of one that does not end."""
        with ThreadPoolExecutor(2) as helpers, open(os.devnull, "rb") as nothing:
            (out, out_end), (err, err_end) = os.pipe(), os.pipe()
            socket.send_fds(self.requests, [json.dumps([script, list(map(str, words)), variables]).encode()],
                            [nothing.fileno(), out_end, err_end])
            os.close(out_end)
            os.close(err_end)
            said = [helpers.submit(read_all, end) for end in (out, err)]
            status, spent_s = self.wait()
            costs.LIVING_S[self] = costs.LIVING_S.get(self, 0) + spent_s
            return status, *(each.result() for each in said)

    def wait(self):
        """The exit status of the program, and its processor seconds."""
        try:
            child = self.requests.recv(64)
            assert child, "the process that forks has ended: what it imports may not be there"
            try:
                return json.loads(self.requests.recv(4096))
            except TimeoutError:
                os.kill(int(child), signal.SIGKILL)
                return None, json.loads(self.requests.recv(4096))[1]
        except BaseException:  # also of limits.py: its next answer would be this one
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(scope="module")
def package():
    if SANITIZED:
        pytest.skip("the library needs the sanitizer's run time in the program")
    yield build()
    Forks.end_all()


def start(package, script, *words, python=PYTHON, **more):
    """A Python program of these lines, which says `import tombola`."""
    return subprocess.Popen([python, "-c", script, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment({"PYTHONPATH": os.fspath(package), **more}))


def run(package, script, *words, status=0, **more):
    """Its standard output."""
    program = start(package, script, *words, **more)
    try:
        out, err = program.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        out, err = program.communicate()
        raise AssertionError(f"it does not end\n{out}{err}") from None
    assert program.returncode == status, f"{program.returncode}\n{out}{err[-20000:]}"
    return out


def fork(package, script, *words, status=0, imports="numpy", **more):
    """The same of a program that is forked: not for one whose start, end or processes are what is tested."""
    python = PYTHON if imports == "numpy" else python_with(imports)
    variables = environment({"PYTHONPATH": os.fspath(package), **more})
    got, out, err = Forks.of(package, python, imports).run(script + END * (imports == "torch"), words, variables)
    assert got is not None, f"it does not end\n{out}{err}"
    assert got == status, f"{got}\n{out}{err[-20000:]}"
    return out


if __name__ == "__main__":
    sys.exit(find_python(sys.argv[1]) is None)
