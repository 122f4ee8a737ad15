# SPDX-License-Identifier: MIT
"""Loader: batches of training rows, in a loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import multiprocessing.util
import os
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from tombola import _core
from tombola.arrays import converter, current_stream
from tombola.errors import Error, UsageError
from tombola.moments import moments
from tombola.options import count, count_or_auto, counts, number, path, single, text
from tombola.server import Server, without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import FrameType, TracebackType
    from typing import SupportsFloat, SupportsIndex

    from tombola.moments import Moment

    Arrays = tuple[Any, ...]  # ids, labels, x; lengths where rows differ in it; weights and groups where they are wanted

_PULLS = {"lease": 0, "index": 1, "draw": 2}
_BAD_ROWS = {"fail": 0, "skip": 1, "replace": 2}
_LABELS = {"int64": "q", "float32": "f", "float64": "d"}
_LABELS_ON_DEVICE = {"float64": 1, "int64": 2, "float32": 3, None: 4}  # enum tombola_labels
_ONE_HOT: dict[bool | str, int] = {True: 5, "float32": 5, "uint8": 6}  # the same
_FLAGS = {False: False, True: True}  # a text such as "no" would be true
_WEIGHTS: dict[bool | str, int] = {False: 0, True: 1, "float32": 1, "float64": 2}  # enum tombola_weights
_LABELS_OF_KIND = (None, "int64", "float64", "int64")  # enum tombola_label_kind
_STATE, _EPOCH = "tombola", "epoch"  # the keys of a state_dict()
_DIMENSIONS = 16  # of a row, as in core.h and in IDX files
_SLICE_MS = 100  # for so long a task that is cancelled waits, or a Ctrl-C while a loader opens
NO_LENGTH = ('how many batches a loop gets is only known with pull="index": leases and draws share the stream with whoever else '
             "pulls from it")
_PEEK_MS = 1000  # for so long state_dict() behind a loop waits for the next one's first batch

_Choice = TypeVar("_Choice")


def _choose(name: str, value: Any, choices: Mapping[Any, _Choice]) -> _Choice:
    try:
        return choices[value]
    except (KeyError, TypeError):  # a list has no hash
        raise UsageError(f"{name} is {value!r}; {', '.join(map(repr, choices))} are possible") from None


class Loader:
    """Batches of rows, drawn by a sampler and fetched from a store, ready in memory or on a GPU ahead of training.

        for ids, labels, x in tombola.Loader("http://127.0.0.1:8080", "sqlite:train.db", batch_size=100):
            train(x, labels)

    `ids` are int64 [B]. `labels` are int64 [B] (for text labels: indexes into `loader.classes`), float64 if the column has
    real numbers, or None without labels. `x` is [B, *shape], uint8, float32 or int32. If rows differ in length (longest=any
    or longest=N in the store's URI or its source's: `loader.varies`), batches are ids, labels, x, lengths: x is as wide as
    the batch's longest row, or N, padded with zeros, and lengths, int64 [B], is each row's number of features. With a GPU,
    labels, x and lengths are on it; ids never are. All are views of memory that is reused once nothing refers to them: you
    may keep them as long as you like (beyond half of `slots`, the loader returns copies).

    A loop is an epoch of the sampler's stream, or the rest of one; the next loop is the next epoch. A batch counts as
    trained when the loop asks for the next one, ends, or is left by `break`. If an exception leaves the loop, it does not:
    it is redelivered (pull="lease"), or missing from state_dict() (pull="index"). done() marks it as trained earlier.

    sampler         URL, or the result of tombola.serve()
    store           csv:PATH?label=0, parquet:PATH, sqlite:PATH, postgresql://..., or a path; default: the store of serve()
    batch_size      rows per batch; an epoch's last one may have fewer
    output          numpy, torch, jax, cupy, dlpack, or a function of an array with the buffer protocol and DLPack
    device          cpu, cuda, cuda:1, auto
    dtype           None: as stored (uint8, float32, or int32 with element=i32 in the URI); "float32": converts bytes,
                    times `scale` (int32 is not converted)
    scale           default: 1/255
    mean, std       x becomes (x - mean) / std, float32, after `scale`: one number, or one for each of the C channels that
                    follow each other in a row (C, H, W), or one per feature
    shape           of a row, such as (28, 28); None: as in the store (IDX), else (F,)
    label_dtype     int64, float32, float64; None: as above
    one_hot         True: `labels` are float32 [B, C], or of the given type ("uint8"), made on the device: 1 at the label's
                    class, else 0. The class of a text is its index in `loader.classes`, that of an integer the integer
    num_classes     C for one_hot; 0: the number of texts, or the largest integer plus one, which requires reading the keys
                    of all rows
    weights         True: batches are ids, labels, x, weights, float32 [B], or of the given type ("float64"), from the
                    column weight=NAME of the store's URI, or as imported
    groups          True: groups come last, int64 [B]: integers, or indexes into `loader.groups`; from group=NAME likewise
    recipe          `loader.recipe` of another loader: converts missing values and text categories as there, for example
                    for a test set as for its training set; None: learns missing= and onehot= of the URI from the store
    pull            lease: shares the stream; untrained batches are redelivered. index: requests batch K of the order; the
                    stream does not move. draw: batches count as trained when drawn. None: index with rank, world, parts or
                    state, else lease
    rank, world     this loader's share of the batches; all ranks get the same number, also in each loop, so that a loop may
                    end with batches of the next epoch. pad=True completes the stream's last round with its first batches
    part, parts     divides one rank's batches among processes, such as a DataLoader's workers
    bucket_window   with pull="index" and rows that differ in length: within each window of this many batches of an epoch,
                    rows are sorted by length and cut into batches, whose order depends on the seed; each row still comes
                    once an epoch. 0: batches as the sampler cuts them
    epochs          per loop; 0: the loop ends with the stream
    stream          the sampler's; None: "default"
    worker          with pull="lease": this loader's name on the sampler's page, 1 to 128 of [A-Za-z0-9._:-], unique among
                    running programs; None: a generated one
    first_index     with pull="index": the first batch's number
    batches         the loader ends after this many; 0: with the stream
    bad_rows        a row that cannot be decoded, or is not in the store: "fail" ends the loop with an error; "skip"
                    leaves it out of its batch, which may have no row left; "replace" makes it zeros, with label 0
    slots           how many batches may be out at once; 0: 8, or up to 16 for leases and 64 by index, fewer if they are large
    fetchers        threads that fetch rows; 0: 1
    patience        seconds after which a loop fails if the sampler does not answer; None: no limit
    trust_labels    True: does not compare the store's labels with the sampler's
    cache           bytes of memory for rows, all or as many as fit, filled while the first batches are fetched; "auto":
                    half of the free memory of the machine or container, or none with a cache_dir; 0: none
    resident        bytes of device memory for rows that stay there as stored: each is copied once. "auto": on a GPU all
                    rows, if they fit into half of the memory that is left there; 0: none
    cache_dir       a folder for a file that caches rows, shared with other and later programs on the machine and written
                    while the first batches are fetched. None: environment variable TOMBOLA_CACHE; "": none
    cache_limit     bytes of all files there; the least recently used are removed. 0: TOMBOLA_CACHE_LIMIT, else until a
                    twentieth of the disk is left
    copy            True: always return copies
    state           a state_dict() to resume from
    token           bearer token for the sampler; None: environment variable TOMBOLA_TOKEN
    authority       PEM file of trusted certificate authorities for an https:// sampler; None: TOMBOLA_CA

    Attributes: `rows` of the store, `features` of a row (the most, if rows differ in length: `varies`), `feature_names`, and of
    a batch `shape` (of a row), `dtype`, `label_dtype`; `classes`, `groups`: what text labels and groups index; `num_classes` with
    one_hot; `device`, in words; `recipe`.
    """

    def __init__(
        self,
        sampler: str | Server,
        store: str | os.PathLike[str] | None = None,
        batch_size: SupportsIndex = 100,
        *,
        output: str | Callable[[Any], Any] = "numpy",
        device: str = "cpu",
        dtype: Literal["float32"] | None = None,
        scale: SupportsFloat | None = None,
        mean: Moment = None,
        std: Moment = None,
        shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
        label_dtype: Literal["int64", "float32", "float64"] | None = None,
        one_hot: bool | Literal["float32", "uint8"] = False,
        num_classes: SupportsIndex = 0,
        weights: bool | Literal["float32", "float64"] = False,
        groups: bool = False,
        recipe: str | None = None,
        pull: Literal["lease", "index", "draw"] | None = None,
        rank: SupportsIndex | None = None,
        world: SupportsIndex | None = None,
        pad: bool = False,
        part: SupportsIndex | None = None,
        parts: SupportsIndex | None = None,
        bucket_window: SupportsIndex = 0,
        epochs: SupportsIndex = 1,
        stream: str | None = None,
        worker: str | None = None,
        first_index: SupportsIndex = 0,
        batches: SupportsIndex = 0,
        bad_rows: Literal["fail", "skip", "replace"] = "fail",
        cache: SupportsIndex | Literal["auto"] = "auto",
        resident: SupportsIndex | Literal["auto"] = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        cache_limit: SupportsIndex = 0,
        slots: SupportsIndex = 0,
        fetchers: SupportsIndex = 0,
        patience: SupportsFloat | None = 60.0,
        trust_labels: bool = False,
        copy: bool = False,
        state: Mapping[str, Any] | None = None,
        token: str | None = None,
        authority: str | os.PathLike[str] | None = None,
    ) -> None:
        url = getattr(sampler, "url", sampler)
        if not isinstance(url, str):
            raise UsageError(f"sampler is {sampler!r}; give a URL, or what tombola.serve() returned")
        store = store if store is not None else getattr(sampler, "store", None)
        if store is None:
            raise UsageError("store is not given; give the URI of the rows, such as sqlite:train.db")
        if dtype not in (None, "float32"):
            raise UsageError(f"dtype is {dtype!r}; give None (as stored) or 'float32'")
        if scale is not None and dtype is None and mean is None and std is None:
            raise UsageError(f"scale is {scale!r} of features as stored; dtype='float32' makes them floats")
        if label_dtype is not None:
            _choose("label_dtype", label_dtype, _LABELS)
        if one_hot is not False and label_dtype is not None:
            raise UsageError(f"label_dtype is {label_dtype!r} beside one_hot; one_hot='uint8' or 'float32' says what those are")
        if one_hot is False and num_classes:
            raise UsageError(f"num_classes is {num_classes} of labels that are not one-hot; one_hot=True makes them so")
        lengths = None if shape is None else counts("shape", shape)
        if lengths is not None and len(lengths) > _DIMENSIONS:
            raise UsageError(f"shape has {len(lengths)} dimensions; at most {_DIMENSIONS} are possible")
        if pull is None:
            pull = "lease" if rank is None and world is None and parts is None and state is None else "index"
        self._convert = converter(output)
        self._output, self._copies, self._epochs = output, _choose("copy", copy, _FLAGS), count("epochs", epochs)
        self._options: dict[str, Any] = {
            "sampler": url,
            "store": path("store", store),
            "batch_size": count("batch_size", batch_size, 1),
            "device": text("device", device),
            "stream": text("stream", stream),
            "pull": _choose("pull", pull, _PULLS),
            "bad_rows": _choose("bad_rows", bad_rows, _BAD_ROWS),
            "first_index": count("first_index", first_index),
            "batches": count("batches", batches),
            "expand": dtype is not None,
            "scale": 0.0 if scale is None else single("scale", scale),
            "slots": count("slots", slots),
            "fetchers": count("fetchers", fetchers),
            "cache_bytes": count_or_auto("cache", cache),
            "resident_bytes": count_or_auto("resident", resident),
            "cache_dir": path("cache_dir", cache_dir),
            "cache_limit": count("cache_limit", cache_limit),
            "patience_ms": -1 if patience is None else max(1, round(min(number("patience", patience, positive=True), 1e12) * 1000)),
            "trust_labels": _choose("trust_labels", trust_labels, _FLAGS),
            "rank": 0 if rank is None else count("rank", rank),
            "world": 0 if world is None else count("world", world, 1),
            "pad": _choose("pad", pad, _FLAGS),
            "part": 0 if part is None else count("part", part),
            "parts": 0 if parts is None else count("parts", parts, 1),
            "bucket_window": count("bucket_window", bucket_window),
            "worker": text("worker", worker),
            "token": text("token", token),
            "authority": path("authority", authority),
            "labels": _LABELS_ON_DEVICE[label_dtype] if one_hot is False else _choose("one_hot", one_hot, _ONE_HOT),
            "classes": count("num_classes", num_classes),
            "weights": _choose("weights", weights, _WEIGHTS),
            "groups": _choose("groups", groups, _FLAGS),
            "recipe": text("recipe", recipe),
            **moments(mean, std),
        }
        for names, one, of in (("rank and world", rank, world), ("part and parts", part, parts)):
            if (one is None) != (of is None):
                raise UsageError(f"{names} are {one} and {of}; both are given, or neither")
        self._lock = threading.RLock()  # a signal handler may save the state while its thread has it
        self._waiting: list[_core.Batch] = []  # what a loop left for the next one
        _loaders.add(self)
        self._loops: weakref.WeakSet[Epoch] = weakref.WeakSet()
        self._newest: Callable[[], Epoch | None] = lambda: None
        self._open(state)
        if pull == "lease" and isinstance(sampler, Server):
            sampler._lessees.add(self)
        described = self._feed.describe()
        self.rows, self.features = described["rows"], described["features"]
        self.device, self.feature_names = described["device"], described["feature_names"]
        self.classes, self.groups = described["label_texts"], described["group_texts"]
        self.recipe = described["recipe"]
        self._weighted, self._grouped = self._options["weights"] > 0, self._options["groups"]
        self.dtype = ("uint8", "float32", "int32")[described["element"]]
        self.label_dtype = _LABELS_OF_KIND[described["label_kind"]] and (label_dtype or _LABELS_OF_KIND[described["label_kind"]])
        self.shape = described["shape"] if lengths is None else lengths
        self.varies = described["lengths"] != 0
        if self.varies and shape is not None:
            self.close()
            raise UsageError(f"shape is {self.shape}, but rows of the store differ in length; a batch is as wide as its longest")
        if math.prod(self.shape) != self.features:
            self.close()
            raise UsageError(f"shape is {self.shape}, {math.prod(self.shape)} elements; a row has {self.features}")
        self._label_format = _LABELS[self.label_dtype] if self.label_dtype else None
        self.num_classes = described["classes"]
        if self.num_classes:
            self.label_dtype = "uint8" if one_hot == "uint8" else "float32"
        self._row_shape = None if self.varies else self.shape
        self._views = max(1, described["slots"] // 2)
        self._gpu = described["device_index"] if described["device_is_cuda"] else None

    def _open(self, state: Mapping[str, Any] | None) -> None:
        """On a thread, so that Ctrl-C interrupts reading a large file at once."""
        text = None if state is None else _parse(state)
        epoch = None if self._options["first_index"] else 0
        if state is not None:
            epoch = state.get(_EPOCH) and count("the state's epoch", state[_EPOCH])
        opened: list[_core.Feed | BaseException] = []

        def run() -> None:
            try:
                opened.append(_core.Feed(**self._options, state=text))
            except BaseException as error:  # noqa: BLE001, it is raised below
                opened.append(error)
            if left.is_set():
                discard()

        def discard() -> None:
            for feed in opened:
                if not isinstance(feed, BaseException):
                    feed.close()

        left, thread = threading.Event(), threading.Thread(target=run, name="tombola-open", daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_SLICE_MS / 1000)  # a signal that comes just before a wait does not end it
        except BaseException:  # Ctrl-C, whose traceback may be kept: a feed in its frames would renew its leases as long
            left.set()
            discard()
            raise
        if isinstance(opened[0], BaseException):
            raise opened[0]
        self._feed, self._state = opened[0], state
        # The epoch that the next loop gets, or the rest of; None: that of its first batch.
        self._epoch = epoch
        self._resumes = state is not None  # with the rest of a loop, even if that is empty
        self._waiting = []
        self._at_exit = weakref.finalize(self, _finish, self._feed, self._waiting, self._loops, _process_frame())
        multiprocessing.util.Finalize(self, self._at_exit, exitpriority=0)  # its processes end without atexit

    # ---- loops

    def __iter__(self) -> Epoch:
        return self._begin(Epoch(self))

    def __aiter__(self) -> AsyncEpoch:
        return self._begin(AsyncEpoch(self))

    def _begin(self, loop: _Loop) -> _Loop:
        self._loops.add(loop)
        self._newest = weakref.ref(loop)
        return loop

    def _take(self, timeout_ms: int = -1) -> _core.Batch | Literal[False] | None:
        """The next batch, or the one left for the next loop. None: the stream has ended; False: timeout."""
        if self._waiting:
            with contextlib.suppress(IndexError):  # a task's thread may take it first
                return self._waiting.pop()
        stream = 0 if self._gpu is None else current_stream(self._output, self._gpu)
        return self._feed.next(timeout_ms, stream)

    def _show(self, batch: _core.Batch) -> Arrays:
        copies = self._copies or self._feed.out > self._views
        try:
            arrays: Arrays = batch.show(self._convert, self._row_shape, self._label_format, copies)
            if self.varies:
                arrays += (self._convert(batch.lengths(copies)),)
            if self._weighted:
                arrays += (self._convert(batch.weights(copies)),)
            if self._grouped:
                arrays += (self._convert(batch.groups(copies)),)
        except BaseException:
            batch.settle(False)  # nobody has seen it, whatever the loop does next
            raise
        return arrays

    def done(self) -> None:
        """Marks the newest loop's current batch as trained, which `break` does not if a generator is in between (tqdm)."""
        loop = self._newest()
        if loop is not None:
            loop.settle(True)

    def __len__(self) -> int:
        """With pull="index": the number of batches of the loop that is under way, or else of the next one, which may be the rest
        of an epoch. It may wait for the first batch. TypeError if the number is not known: leases and draws share the stream with
        whoever else pulls from it, epochs=0 may have no end, and designs such as bernoulli decide it with each batch."""
        if self._options["pull"] != _PULLS["index"]:
            raise TypeError(NO_LENGTH)
        with self._lock:
            loop = self._newest()
            taken, first = (0, None) if loop is None or loop._ended else (loop._taken, loop._first)
            if first is None:
                if not self._waiting and (following := self._take()):
                    self._waiting.append(following)
                if not self._waiting:
                    return 0
                first = self._first_epoch(self._waiting[-1])
            end = first + self._epochs if self._epochs > 0 else -1
            waiting = sum(end < 0 or batch.round_epoch < end for batch in self._waiting)
            try:
                return taken + waiting + self._feed.left(end)
            except UsageError as error:
                raise TypeError(str(error)) from None

    def __bool__(self) -> bool:
        return True  # or `if loader` would ask for its length

    def _first_epoch(self, batch: _core.Batch) -> int:
        """Of a loop that begins with `batch`. A part, or the rest of a state's loop, may have no batch of its epoch."""
        known = self._epoch if self._resumes or self._options["parts"] > 1 else None
        return batch.round_epoch if known is None else min(known, batch.round_epoch)

    # ---- where it is

    def state_dict(self) -> dict[str, Any]:
        """With pull="index": progress, for Loader(state=...) or load_state_dict(), also with another `world`. A loop's current
        batch counts as trained: save after its step, with the model. Batches fetched ahead do not count. A state saved in a
        loop resumes with the rest of that loop, which is empty after its last batch; one saved behind it, with the next loop."""
        self._check_index()
        self.done()
        with self._lock:
            begun = self._feed.stats()["batches"] > 0
            if not begun:
                if self._state is not None:
                    return dict(self._state)
                if first := self._take():  # which order it is, comes with the first batch
                    self._waiting.append(first)
            epoch = self._epoch
            if begun and not self._resumes and self._newest() is None and self._options["parts"] <= 1:
                self._peek()
                if self._waiting:  # the loop may have been left at its epoch's last batch
                    epoch = self._waiting[-1].round_epoch
        return {_STATE: json.loads(self._feed.state()), **({} if epoch is None else {_EPOCH: epoch})}

    def _check_index(self) -> None:
        if self._options["pull"] != _PULLS["index"]:
            raise UsageError('a state is for pull="index"; the sampler records leases and draws itself')

    def _peek(self) -> None:
        """A state is saved also when there is no next batch, as the sampler is gone."""
        with contextlib.suppress(Error):
            if not self._waiting and (following := self._take(_PEEK_MS)):
                self._waiting.append(following)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from there, also in the middle of a loop; the first batch fails if the sampler has another order."""
        _parse(state)
        self._check_index()
        self._options["first_index"] = 0
        self.close()
        self._open(state)
        for loop in list(self._loops):
            loop.begin_again()

    def stats(self) -> dict[str, int]:
        """Counts and times, after close() the last ones. batches, rows, bytes (of features): handed out. bad_rows: skipped or
        replaced. pull_ns, fetch_ns, copy_ns: the threads worked. wait_ns: loops waited, without the first batch. first_ns: from
        opening to the first batch. lost: leases that expired, or that the sampler withdrew or forgot, before the ack: others may
        also get those batches. resident_rows: rows in device memory now. copied_rows: rows fetched and copied there so far."""
        return self._feed.stats()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Loader is its process's own, and is neither copied nor pickled: open one in each; "
                        "tombola.torch.Dataset is for a DataLoader with workers")

    # ---- the end

    def interrupt(self) -> None:
        """From any thread: a loop waiting for a batch ends with tombola.Interrupted; the next loop continues."""
        self._feed.interrupt()

    def close(self) -> None:
        """Ends the threads. Arrays stay valid; untrained batches are redelivered, a loop's current one once the loop has ended."""
        self._at_exit.detach()
        self._waiting.clear()
        self._feed.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        loop = self._newest()
        if loop is not None:
            loop.settle(kind is None)
        self.close()

    def __repr__(self) -> str:
        return (
            f"<tombola.Loader of {without_password(os.fsdecode(self._options['store']))} by {self._options['sampler']}: {self.rows} rows of {self.shape} "
            f"{self.dtype}, {self._options['batch_size']} a batch, {self.device}>"
        )


_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a child of fork(), whose parent's other threads release no lock here, and whose parent trains what waits."""
    for loader in _loaders:
        loader._lock = threading.RLock()
        loader._waiting.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _parse(state: Mapping[str, Any]) -> str:
    try:
        return json.dumps(state[_STATE])
    except (TypeError, KeyError):
        raise UsageError(f"state is {state!r:.80}; give what state_dict() returned") from None


def _process_frame() -> FrameType | None:
    """In a process of multiprocessing: the call that runs it, where Python 3.13 and later alone have its exit status at its end."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0) if multiprocessing.parent_process() else None
    while frame is not None and (frame.f_code.co_name, frame.f_globals.get("__name__")) != ("_bootstrap", "multiprocessing.process"):
        frame = frame.f_back
    return frame


def _finish(feed: _core.Feed, waiting: list[_core.Batch], loops: Iterable[Epoch], process: FrameType | None) -> None:
    """At the end of the program: its loops' batches count as trained, unless an exception ended it."""
    failed = getattr(sys, "last_value", None) is not None or sys.exc_info()[1] is not None
    failed |= process is not None and process.f_locals.get("exitcode", 0) != 0
    for loop in list(loops):
        loop.settle(not failed)
    waiting.clear()
    feed.close()


class Epoch(_core.Iteration):
    """One loop over a Loader."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._first: int | None = None  # its first epoch
        self._taken = 0  # its batches so far
        self._ended = False

    def __iter__(self) -> Epoch:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a loop over a Loader is its process's own, and is neither copied nor pickled: loop over a Loader of its own there")

    def __repr__(self) -> str:
        return f"<a loop of {self._taken} batches so far over {self._loader!r}>"

    def begin_again(self) -> None:
        """Its first epoch is that of the next batch: a state may be of a later epoch."""
        self._first, self._taken = None, 0

    def __next__(self) -> Arrays:
        self.settle(True)
        with self._loader._lock:
            batch = None if self._ended else self._loader._take()
            if not batch or self._is_over(batch):
                self._ended = True
                raise StopIteration
        arrays = self._loader._show(batch)
        self.hold(batch)
        return arrays

    def _is_over(self, batch: _core.Batch) -> bool:
        """Does the batch belong to the next loop? Then it is kept for it."""
        loader, epoch = self._loader, batch.round_epoch  # the same in all ranks, whose loops end together
        if self._first is None:
            self._first = loader._first_epoch(batch)
        loader._resumes = False
        # A stream may go back, but what another worker left behind does not tell that.
        if epoch < self._first and batch.attempt <= 1:
            self._first = epoch
        is_over = loader._epochs > 0 and epoch >= self._first + loader._epochs
        loader._epoch = self._first + (loader._epochs if is_over else 0) if loader._epochs > 0 else epoch
        if is_over:
            loader._waiting.append(batch)
        else:
            self._taken += 1
        return is_over


class AsyncEpoch(Epoch):
    """An Epoch for `async for`."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self._thread = ThreadPoolExecutor(1, "tombola-next")

    def __aiter__(self) -> AsyncEpoch:
        return self

    async def __anext__(self) -> Arrays:
        self.settle(True)
        batch = None if self._ended else await self._wait()
        if not batch or self._is_over(batch):
            self._ended = True
            self._thread.shutdown(wait=False)
            del batch  # the exception keeps this frame for longer than the loop keeps the loader, which releases it
            raise StopAsyncIteration
        arrays = self._loader._show(batch)
        self.hold(batch)
        return arrays

    async def _wait(self) -> _core.Batch | None:
        """Waits in the thread unless a batch is ready; a cancelled task leaves its batch to the next one."""
        loader = self._loader
        taken = [loader._take(0)]  # a future that returned the batch would keep it while the task runs on
        while taken[0] is False:
            taken.clear()
            waiting = asyncio.get_running_loop().run_in_executor(self._thread, lambda: taken.append(loader._take(_SLICE_MS)))
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                while not waiting.done():  # it may be cancelled again meanwhile
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait((waiting,))
                waiting.result()
                loader._waiting += [batch for batch in taken if batch]
                taken.clear()  # the exception may be kept, with this frame
                raise
        return taken.pop() or None


_Loop = TypeVar("_Loop", bound=Epoch)
