# SPDX-License-Identifier: MIT
"""What every service test starts from: the built programs, demo data, samplers that run.

The programs are those of the build folder that TOMBOLA_BUILD names (default: build/ beside tests/).
Whatever a test starts is ended when it is over, and a program that crashed or whose sanitizer
complained fails the test, whatever else the test looked at.
"""

import ctypes
import gzip
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from costs import Costs
from outcomes import Outcomes
from limits import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401, hooks
from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401, hooks

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TOMBOLA_BUILD", ROOT / "build")).resolve()
LONG = os.environ.get("TOMBOLA_LONG") == "1"
CONFIGURED = (BUILD / "config.log").read_text(errors="replace") if (BUILD / "config.log").exists() else ""
SANITIZED = "fsanitize" in CONFIGURED
TSAN = "fsanitize=thread" in CONFIGURED
# Where random choices begin: another one each day, so that they see new ground. Printed; TOMBOLA_SEED repeats it.
SEED = int(os.environ.get("TOMBOLA_SEED") or time.time() // 86400)
PATIENCE_S = 300  # for things that take well under a second; a loaded machine must not fail a test
COMPLAINT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|Assertion .* failed")


def pytest_configure(config):
    config.addinivalue_line("markers", "heavy: left out of sanitizer runs, where it would take minutes")
    config.addinivalue_line("markers", "plain: a sanitizer would see nothing of it, or is in its way")
    config.addinivalue_line("markers", "threads: two threads of a program can meet in it, so ThreadSanitizer runs it")
    config.addinivalue_line("markers", "xdist_group(name): these run in one worker of pytest-xdist")
    if not config.pluginmanager.has_plugin("costs"):  # tests/fault has this conftest, too
        config.pluginmanager.register(Costs(), "costs")
        if os.environ.get("TOMBOLA_OUTCOMES") and not hasattr(config, "workerinput"):
            config.pluginmanager.register(Outcomes(config, Path(os.environ["TOMBOLA_OUTCOMES"])), "outcomes")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"TOMBOLA_SEED={SEED} repeats the random choices of this run")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in its own
def pytest_collection_modifyitems(items):
    for item in items:
        if "mnist" in item.fixturenames:
            item.add_marker("heavy")
        if shares_fixtures(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def shares_fixtures(item):
    """Whether a fixture serves several tests of its file, which is then made in one worker only."""
    found = item._fixtureinfo.name2fixturedefs.values()
    return any(definition.scope == "module" for definitions in found for definition in definitions)


def from_pypi(tool):
    """The virtual environment that holds a tool of tests/pypi; skips where PyPI is out of reach."""
    made = subprocess.run([ROOT / "tests" / "pypi", tool], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"{tool} cannot be had: {made.stderr.strip()}")
    return Path(made.stdout.strip())


def program(name):
    """The path of tombola-NAME: program("sampler")."""
    path = BUILD / name / f"tombola-{name}"
    assert path.exists(), f"{path} is not there: make it first, or set TOMBOLA_BUILD"
    return str(path)


def environment(changes=None):
    """The environment without TOMBOLA_* of the person who runs the tests; samplers stop at once, and take a free port."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOMBOLA_")}
    return {**kept, "TOMBOLA_DRAIN": "0", "TOMBOLA_LISTEN": "127.0.0.1:0", **(changes or {})}


def preloaded(library):
    """The environment in which a program finds a library's functions before all others; a sanitizer's run time wants to be first."""
    options = os.environ.get("ASAN_OPTIONS", "")
    first = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return {"LD_PRELOAD": ":".join(first), "ASAN_OPTIONS": f"{options}:verify_asan_link_order=0"}


def check_alive_to_the_end(returncode, stderr, allowed_signals=()):
    assert not COMPLAINT.search(stderr), stderr[-6000:]
    if returncode < 0:
        assert -returncode in allowed_signals, f"died of signal {-returncode}\n{stderr[-6000:]}"


def run(name, *arguments, status=0, stdin=None, env=None, cwd=None, timeout=PATIENCE_S):
    """Runs tombola-NAME to its end; status None takes any exit status but a crash."""
    done = subprocess.run(
        [program(name), *map(str, arguments)], input=stdin, capture_output=True, text=True,
        env=environment(env), cwd=cwd, timeout=timeout, errors="replace", check=False)
    check_alive_to_the_end(done.returncode, done.stderr)
    if status is not None:
        assert done.returncode == status, f"exit {done.returncode}, not {status}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done


# A process begins with the peak of whom it was forked from, which is small here, and not in a test.
PEAK = """
import os, resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_kib(name, *arguments, env=None):
    """Runs tombola-NAME to its end: the most memory that it had resident."""
    done = subprocess.run(["/usr/bin/python3", "-S", "-c", PEAK, program(name), *map(str, arguments)], capture_output=True, text=True,
                          env=environment(env), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def run_fails(name, *arguments, says, status=2, **more):
    """The run must end with `status`, and its message must hold each text of `says`."""
    done = run(name, *arguments, status=status, **more)
    for text in [says] if isinstance(says, str) else says:
        assert text in done.stderr, f"{text!r} is not in: {done.stderr[-4000:]}"
    assert done.stderr.strip(), "a failure without a message"
    return done


def catches(pid, number):
    """Has the process a handler of this signal? A zombie has none."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE).group(1), 16) >> (number - 1) & 1


def wait_for(condition, what):
    """What `condition` returns, as soon as it is true; `what` says what never came."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.005)
    return found


def refuses_more_itself():
    """Is it libmicrohttpd 1.0, some of whose own refusals are HTML, or a closed connection (common/http/README.md, rule 7)?"""
    version = ctypes.CDLL("libmicrohttpd.so.12").MHD_get_version
    version.restype = ctypes.c_char_p
    return not version().startswith(b"0.")


def raw_exchange(server, data, shut=True):
    """Everything the server answers to `data` until it closes the connection. `shut`: nothing more will be sent, and it is told so."""
    with socket.create_connection((server.host, server.port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it may refuse before it has read everything
        answer = b""
        while True:
            try:
                got = connection.recv(65536)
            except ConnectionResetError:
                got = b""
            if not got:
                return answer
            answer += got


HELD_PORTS = []


def free_port():
    """A port of 127.0.0.1 at which nobody listens but whom the test starts there: the system gives it to nobody else any more."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # our programs do so too, and may listen beside it
    holder.bind(("127.0.0.1", 0))
    HELD_PORTS.append(holder)
    return holder.getsockname()[1]


class Answer:
    """One HTTP answer: status, headers (lower-case names), body (bytes)."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Program:
    """A program that runs in the background; its standard error is kept in a file."""

    def __init__(self, name, *arguments, folder, env=None, prefix=()):
        """`prefix`: a program that runs it, with that program's arguments."""
        self.name = name
        self.prefix = prefix
        self.serves = arguments[:1] == ("serve",)
        self.sent = set()  # signals
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*map(str, prefix), program(name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, env=environment(env))

    @property
    def stderr(self):
        return self.log.read_text(errors="replace")

    def wait_for_log(self, pattern, timeout=PATIENCE_S):
        """The first match of `pattern` in what it wrote to standard error."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.stderr)
            if found:
                return found
            assert not ended, f"{self.name} ended with {self.process.returncode}\n{self.stderr[-4000:]}"
            time.sleep(0.01)
        raise AssertionError(f"{self.name} never logged {pattern!r}\n{self.stderr[-4000:]}")

    def read_line(self, timeout=PATIENCE_S):
        """One line of standard output."""
        waiting = select.poll()  # select() ends at 1024 open files, of which a test may have many
        waiting.register(self.process.stdout, select.POLLIN)
        assert waiting.poll(timeout * 1000), f"no line from {self.name}"
        return self.process.stdout.readline().decode()

    def wait_for_line(self, text):
        """Reads standard output until a line holds `text`."""
        while text not in (line := self.read_line()):
            assert line, f"{self.name} ended without {text!r}, with {self.wait()}\n{self.stderr[-4000:]}"

    def terminate(self, number=signal.SIGTERM):
        """Asks it to end, as soon as its handler stands: while its libraries are bound, it would die of the signal. What
        stands before it (`prefix`) has none."""
        if not self.prefix:
            wait_for(lambda: self.process.poll() is not None or catches(self.process.pid, number), f"{self.name} has no handler")
        self.signal(number)

    def stop(self, number=signal.SIGTERM, status=None):
        """Asks it to end and waits until it has, with `status`: 0 of a server, else 128 and the signal."""
        self.terminate(number)
        expected = status if status is not None else 0 if self.serves else 128 + number
        got = self.wait()
        assert got == expected, f"{self.name} ended with {got}, not {expected}, after signal {number}\n{self.stderr[-4000:]}"

    def signal(self, number):
        self.sent.add(number)
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE_S):
        """Its exit status."""
        self.process.communicate(timeout=timeout)
        return self.process.returncode

    def kill(self):
        """kill -9, as a power cut would."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def finish(self):
        """SIGTERM, SIGKILL when that does not help. It must have ended as it should: a server with 0, and nothing by a
        signal that no test sent; a complaint of a sanitizer fails the test."""
        running = self.process.poll() is None
        if running:
            self.terminate()
            try:
                self.process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not end after SIGTERM\n{self.stderr[-4000:]}") from None
        self.process.stdout.close()
        status = self.process.returncode
        check_alive_to_the_end(status, self.stderr, self.sent if self.prefix else self.sent & {signal.SIGKILL})
        if running and status >= 0:  # what is no server may just have been through
            expected = (0,) if self.serves else (0, 128 + signal.SIGTERM)
            assert status in expected, f"{self.name} ended with {status} after SIGTERM\n{self.stderr[-4000:]}"


class Sampler(Program):
    """A sampler on a free port of 127.0.0.1, ready when the constructor returns."""

    def __init__(self, *arguments, folder, env=None, listen="127.0.0.1:0", prefix=()):
        super().__init__("sampler", "serve", "--listen", listen, *arguments, folder=folder, env=env, prefix=prefix)
        self.first_line = line = self.read_line()
        found = re.match(r"listening on (https?://\S+)", json.loads(line)["msg"] if line.startswith("{") else line)
        if not found:
            self.kill()
            raise AssertionError(f"the sampler printed {line!r}, no address\n{self.stderr[-4000:]}")
        self.url = found.group(1)
        self.host, self.port = re.match(r"https?://(.*):(\d+)", self.url).groups()
        self.port = int(self.port)

    def request(self, method, target, body=None, headers=None, timeout=PATIENCE_S):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, target, **more):
        return self.request("GET", target, **more)

    def batch(self, query="size=100"):
        """The JSON of /batch?QUERY, which must be 200."""
        answer = self.get(f"/batch?{query}")
        assert answer.status == 200, f"{answer.status} {answer.text}"
        return answer.json


@pytest.fixture(scope="session")
def build():
    """The build folder."""
    return BUILD


@pytest.fixture
def start(tmp_path):
    """start("trainer", "train", ...) -> Program that runs in the background."""
    started = []

    def start_program(name, *arguments, **more):
        started.append(Program(name, *arguments, folder=tmp_path, **more))
        return started[-1]

    yield start_program
    finish_all(started)


@pytest.fixture
def sampler(tmp_path):
    """sampler("--store", uri, ...) -> Sampler that listens."""
    started = []

    def start_sampler(*arguments, **more):
        started.append(Sampler(*arguments, folder=tmp_path, **more))
        return started[-1]

    yield start_sampler
    finish_all(started)


def finish_all(started):
    problems = []
    for one in started:
        try:
            one.finish()
        except AssertionError as problem:
            problems.append(str(problem))
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """library(C file, ...) -> the shared library to preload that is made of it, once a run."""
    folder = tmp_path_factory.mktemp("library")

    def make(source, *flags):
        made = folder / f"{source.stem}.so"
        if not made.exists():
            subprocess.run([ROOT / "tests/preloaded", source, made, *flags], check=True)
        return made

    return make


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder with mnist_train.csv and mnist_test.csv, small, made once a run. Read only."""
    folder = tmp_path_factory.mktemp("demo")
    run("loader", "demo", folder, "--rows", 2000, "--seed", 1)
    return folder


@pytest.fixture(scope="session")
def demo_database(demo, tmp_path_factory):
    """The training rows of `demo` as URI of a SQLite store. Read only."""
    uri = f"sqlite:{tmp_path_factory.mktemp('database')}/train.db?table=samples"
    run("loader", "import", f"csv:{demo}/mnist_train.csv?label=0&header=no", uri)
    return uri


@pytest.fixture(scope="session")
def demo_rows(demo, tmp_path_factory):
    """The same as URI of a row file. Read only."""
    uri = f"rows:{tmp_path_factory.mktemp('rows')}/train.rows"
    run("loader", "import", f"csv:{demo}/mnist_train.csv?label=0&header=no", uri)
    return uri


@pytest.fixture(scope="session")
def mnist(tmp_path_factory):
    """A folder with the real MNIST as mnist_train.csv and mnist_test.csv; skips where it is not."""
    source = ROOT.parent / "shared" / "data" / "mnist"
    if not source.is_dir():
        pytest.skip("the real MNIST is not beside the source tree (../shared/data/mnist)")
    folder = tmp_path_factory.mktemp("mnist")
    for kind, name in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
        images = gzip.decompress((source / f"{kind}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((source / f"{kind}-labels-idx1-ubyte.gz").read_bytes())[8:]
        texts = [str(value) for value in range(256)]
        with open(folder / name, "w", encoding="ascii") as out:
            for row, label in enumerate(labels):
                pixels = images[row * 784 : (row + 1) * 784]
                out.write(f"{label},{','.join([texts[pixel] for pixel in pixels])}\n")
    return folder
