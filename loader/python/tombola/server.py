# SPDX-License-Identifier: MIT
"""A sampler that runs as long as a program or a notebook needs it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from tombola.errors import SamplerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from tombola.loader import Loader

# Ends the sampler when the pipe that it waits at has a line, from close(), or is closed: by the end of this process, however
# it comes, and of its children by fork(), which have the pipe too.
_GUARD = """exec 3<&0 </dev/null
"$@" 3<&- & child=$!
(read -r _ <&3; kill "$child") >/dev/null 2>&1 & guard=$!
exec 3<&-
wait "$child"; status=$?
kill -9 "$guard" 2>/dev/null  # SIGTERM may be blocked here
exit "$status"
"""
_SCHEME = re.compile("(csv|idx|parquet|rows|sqlite|range|postgres(ql)?):")
_WARNING = re.compile(r"\S+ (warning|error) ")
_ANY_LINE = re.compile(r"\S+ (debug|info|warning|error) ")  # of the log; what ends its start is in the exception
_SLICE_MS = 50
_DRAIN_S = 0.1  # nobody needs to notice that it ends; an ack may be on its way from another process
_PARAMETERS = ("id", "label", "weight", "group", "features", "missing", "onehot", "unseen", "header", "delimiter", "longest", "table",
               "element")  # of a store's URI


def program() -> str:
    """The path of tombola-sampler: TOMBOLA_SAMPLER, the package's own, or the one in PATH."""
    bundled = Path(__file__).with_name("bin") / "tombola-sampler"
    path = os.environ.get("TOMBOLA_SAMPLER") or (os.fspath(bundled) if bundled.exists() else shutil.which("tombola-sampler"))
    if not path:
        raise UsageError("there is no tombola-sampler: install it, or name it by TOMBOLA_SAMPLER")
    return path


def _item(value: Any) -> str:
    """Of a list: a column's name with a comma is quoted as in CSV."""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text


def _word(value: Any) -> str:
    """As the URI of a store, or an option of `serve`, has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return json.dumps(value)
    return ",".join(map(_item, value)) if isinstance(value, list | tuple) else str(value)


def store_uri(store: str | os.PathLike[str], parameters: Mapping[str, Any]) -> str:
    """A path or URI with `parameters` appended."""
    try:
        uri = os.fsdecode(store)
    except TypeError:
        raise UsageError(f"store is {store!r:.80}; give a path, or a URI such as sqlite:train.db") from None
    texts = {name: _word(value) for name, value in parameters.items() if value is not None}
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in texts.items())
    if not query:
        return uri
    # A bare path may contain question marks.
    has_some = "?" in uri if _SCHEME.match(uri) else "=" in uri.rpartition("?")[2] and "?" in uri
    return f"{uri}{'&' if has_some else '?'}{query}"


def without_password(uri: str) -> str:
    """For messages: only PostgreSQL's URIs have one."""
    return re.sub(r"(?<=://)([^/@:]*):[^@?]*(?=@)|(?<=[?&])(password=)[^&]*", r"\1\2", uri)


class Server:
    """A tombola-sampler that ends with close(), with the `with` block, or with this process, even if that is killed."""

    def __init__(self, store: str | os.PathLike[str], *, listen: str = "127.0.0.1:0", **options: Any) -> None:
        parameters = {name: options.pop(name) for name in _PARAMETERS if name in options}
        self.store = store_uri(store, parameters)
        words = [program(), "serve", "--store", self.store, "--listen", listen]
        for name, value in {"drain": _DRAIN_S, **options}.items():
            if value is None or value is False:
                continue
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(_word(value))
        self._said: list[str] = []
        self._shows = _ANY_LINE if options.get("log_level") else _WARNING
        self._lessees: weakref.WeakSet[Loader] = weakref.WeakSet()
        self._started, self._is_given_up = threading.Event(), False
        self._failure: BaseException | None = None
        self._closes: Callable[[], object] = lambda: None
        self._reader = threading.Thread(target=self._run, args=(words,), name="tombola-serve", daemon=True)
        try:
            self._reader.start()
            self.url = self._address()
        except BaseException:  # Ctrl-C, too
            self._is_given_up = True
            self.close()
            raise

    def _run(self, words: list[str]) -> None:
        """On a thread, since Ctrl-C in the middle of Popen() would leave a process and its pipes to nobody."""
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "tombola", *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace",
                start_new_session=True)
            self._closes = weakref.finalize(self, _end, self._process, os.getpid())
        except BaseException as error:  # noqa: BLE001, it is raised by _address()
            self._failure = error
        self._started.set()
        if self._is_given_up:
            self.close()
        if self._failure is None:
            self._read()

    def _address(self) -> str:
        """Waits until it listens; in slices, since a signal that came just before a wait is only noticed after it."""
        while not self._started.wait(_SLICE_MS / 1000):
            pass
        if self._failure is not None:
            raise self._failure
        assert self._process.stdout is not None
        said = select.poll()
        said.register(self._process.stdout)
        while not said.poll(_SLICE_MS):
            pass
        line = self._process.stdout.readline()
        found = re.search(r"listening on (https?://\S+)", line)
        if not found:
            self.close()
            self._reader.join(1)
            raise SamplerError("".join(self._said).strip() or f"tombola-sampler said {line!r}, and no address")
        return found[1]

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                self._said.append(line)
                del self._said[:-100]
                if self._shows.match(line):
                    with contextlib.suppress(OSError):
                        os.write(2, line.encode(errors="replace"))  # as libtombola's; sys.stderr may end before this thread

    @property
    def log(self) -> str:
        """The last lines of its standard error."""
        return "".join(self._said)

    def close(self) -> None:
        """Ends the sampler and waits for its exit. Loaders that lease from it are closed first, as at the end of a program."""
        for loader in list(self._lessees):
            loader._at_exit()
            loader.close()
        self._closes()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Server ends with its process, and is neither copied nor pickled: give others its url and its store")

    def __repr__(self) -> str:
        return f"<tombola.Server of {without_password(self.store)} at {self.url}>"


def _end(process: subprocess.Popen[str], owner: int) -> None:
    """Leaves it alone in a child of fork()."""
    assert process.stdin is not None and process.stdout is not None
    if os.getpid() != owner:
        return
    with contextlib.suppress(BrokenPipeError):  # it has ended
        process.stdin.write("\n")
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:  # also after Ctrl-C
        process.stdout.close()


def serve(store: str | os.PathLike[str], **options: Any) -> Server:
    """Starts a sampler over `store` on a free port of this machine: tombola.serve("train.csv", label="species").

    `label`, `id`, `weight`, `group`, `features`, `missing`, `onehot`, `unseen`, `header`, `delimiter`, `longest`, `table` and
    `element` are parameters of the store's URI: features=["a", "b"], missing="mean". All others are options of
    `tombola-sampler serve`: seed=1, epochs=10, splits=[0.8, 0.1, 0.1], state="state" (None or False: omitted). A Loader
    accepts the server instead of a URL, and uses its store. The sampler's warnings go to standard error; log_level="info" adds
    the progress of long work, "error" leaves warnings out.
    """
    return Server(store, **options)
