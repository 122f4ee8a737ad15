# SPDX-License-Identifier: MIT
"""For torch.utils.data.DataLoader: an IterableDataset whose items are whole batches."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import torch.utils.data
from torch.utils.data._utils import collate

from tombola.errors import UsageError
from tombola.loader import NO_LENGTH, Loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tombola import _core
    from tombola.server import Server


class _Batch(tuple[Any, ...]):
    """One that a DataLoader would put into a batch of its own."""


def _refuse(batches: list[_Batch], **_: Any) -> NoReturn:
    raise UsageError(f"a DataLoader with batch_size={len(batches)} makes a batch of {len(batches)} items, each of which is already "
                     "one: write DataLoader(dataset, batch_size=None, ...), and tombola.torch.Dataset(..., batch_size=ROWS)")


if hasattr(collate, "default_collate_fn_map"):  # since PyTorch 2.0
    collate.default_collate_fn_map[_Batch] = _refuse


class _DatasetLoader(Loader):
    def _show(self, batch: _core.Batch) -> tuple[Any, ...]:
        return _Batch(super()._show(batch))


class Dataset(torch.utils.data.IterableDataset[tuple[Any, ...]]):  # type: ignore[misc]
    """Batches of a Loader that opens in the reading process: this one, or each worker of a DataLoader.

        import tombola.torch
        dataset = tombola.torch.Dataset(sampler=url, store="sqlite:train.db", batch_size=100)
        for ids, labels, x in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2):
            train(x, labels)

    Options are those of Loader. Workers divide batches by index (those of `rank`, if given) and plain draws. By lease, the
    first worker gets all batches: a DataLoader reads from its workers in turn, and would wait for one that can get no more
    while another holds the last. By index and by draws, a second loop needs persistent_workers=True: new workers know
    nothing of the first loop and would repeat its rows, or skip those drawn ahead. A Loader has its own threads and needs no
    workers: these copy each batch to another process, and count it as trained when the next one is read there.
    """

    def __init__(self, sampler: str | Server, store: str | os.PathLike[str] | None = None, batch_size: SupportsIndex = 100,
                 **options: Any) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"sampler": getattr(sampler, "url", sampler), "store": store or getattr(sampler, "store", None),
                         "batch_size": batch_size, "output": "torch", **options}
        self._loader: Loader | None = None
        self._opener = 0  # the process whose that is
        self._length: int | None = None
        self._is_every = False  # it is that of every loop
        self._begin()

    def _begin(self) -> None:
        """Forgets earlier loops: the first one's number is in memory shared with all of this process's workers."""
        self._owner, self._first_loop = os.getpid(), torch.zeros(1, dtype=torch.int64).share_memory_()

    def _pull(self) -> str:
        """As Loader chooses it."""
        named = any(self._options.get(name) is not None for name in ("rank", "world", "parts", "state"))
        return self._options.get("pull") or ("index" if named else "lease")

    def _open(self, **more: Any) -> Loader:
        options, worker = dict(self._options), torch.utils.data.get_worker_info()
        if worker is not None and self._pull() == "index":
            part, parts = options.get("part") or 0, options.get("parts") or 1
            options.update(part=part + parts * worker.id, parts=parts * worker.num_workers)
        return _DatasetLoader(**{**options, **more})

    def __len__(self) -> int:
        """With pull="index": the number of batches of a loop, which a Loader is opened for if none is open in this process.
        TypeError where it is not known, as for a Loader: also after the first loop by workers whose loops may differ in it."""
        if self._loader is not None and self._opener == os.getpid():
            return len(self._loader)
        if self._pull() != "index":
            raise TypeError(NO_LENGTH)
        if self._length is None:
            with self._open(device="cpu", cache=0, cache_dir="", resident=0, slots=2) as loader:
                self._length = len(loader)
                self._is_every = (self._options.get("epochs", 1) == 1 and (self._options.get("world") or 1) == 1
                                  and not any(self._options.get(name) for name in ("state", "first_index", "batches"))
                                  and loader.state_dict()["tombola"]["tail"] != "span")
        if not self._is_every and self._first_loop[0]:
            raise TypeError("the loops of a DataLoader's workers may differ in their number of batches, of which only that of the first "
                            "one is known here")
        return self._length

    def __bool__(self) -> bool:
        return True  # or `if dataset` would ask for its length

    def _check_loop(self, loop: int) -> None:
        """`loop`: a random number shared by the workers of one loop."""
        parent = multiprocessing.parent_process()
        if parent is None or parent.pid != self._owner:
            return  # of a process that has this Dataset from another one: nobody knows of its loops
        if not self._first_loop[0]:
            self._first_loop[0] = loop
        elif self._first_loop[0] != loop:
            raise UsageError(
                "this is the second loop over a DataLoader whose workers are started anew for each: by index they would give "
                "the first one's rows again, by draws leave out rows; DataLoader(..., persistent_workers=True) goes on with the "
                "next epoch (a new Dataset begins again)")

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        worker = torch.utils.data.get_worker_info()
        by_lease = self._pull() == "lease"
        if worker is not None and worker.id > 0 and by_lease:
            return iter(())
        if self._loader is None or self._opener != os.getpid():
            if self._loader is not None and self._pull() != "index":
                raise UsageError("this Dataset was read before the process was forked: its loader there has batches that would not "
                                 "come here; give the DataLoader a new Dataset")
            if worker is not None and not by_lease:
                self._check_loop(worker.seed - worker.id)
            self._loader, self._opener = self._open(), os.getpid()
        return iter(self._loader)

    def __getstate__(self) -> dict[str, Any]:
        if self._owner != os.getpid():
            self._begin()
        return {**self.__dict__, "_loader": None}

    def state_dict(self) -> Mapping[str, Any] | None:
        """The Loader's, in the reading process. Workers have one each, which torchdata's StatefulDataLoader saves."""
        if self._loader is None and self._owner == os.getpid() and self._first_loop[0]:
            raise UsageError("the workers of a DataLoader read this Dataset, each with a state of its own: torchdata's "
                             "StatefulDataLoader saves them, or num_workers=0 has one")
        return self._loader.state_dict() if self._loader is not None else self._options.get("state")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Applies to the next loop."""
        if self._loader is not None:
            self._loader.close()
        self._loader, self._options, self._length = None, {**self._options, "state": state}, None
        self._begin()
