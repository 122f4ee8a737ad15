# SPDX-License-Identifier: MIT
"""For torch.utils.data.DataLoader: an IterableDataset whose items are whole batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.utils.data

from tombola.loader import Loader

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from tombola.server import Server


class Dataset(torch.utils.data.IterableDataset[tuple[Any, ...]]):  # type: ignore[misc]
    """Batches of a Loader, opened where they are read: in this process, or in each worker of a DataLoader.

        dataset = tombola.torch.Dataset(sampler=url, store="sqlite:train.db", batch_size=100)
        for ids, labels, x in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2):
            train(x, labels)

    Options are those of Loader. Workers divide the batches by index, as ranks within `rank` and `world`, and plain draws. By
    lease the first one has them all: a DataLoader takes from its workers in turn, and would wait for one that can get
    no more while another one holds the last. A Loader has threads of its own and needs no workers: they copy each batch to
    another process, and count it as trained when the next one is read there.
    """

    def __init__(self, sampler: str | Server, store: str | os.PathLike[str] | None = None, batch_size: int = 100,
                 **options: Any) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"sampler": getattr(sampler, "url", sampler), "store": store or getattr(sampler, "store", None),
                         "batch_size": batch_size, "output": "torch", **options}
        self._loader: Loader | None = None

    def _is_by_index(self) -> bool:
        return self._options.get("pull") == "index" or bool({"rank", "world", "state"} & self._options.keys())

    def _open(self) -> Loader:
        options, worker = dict(self._options), torch.utils.data.get_worker_info()
        if worker is not None and self._is_by_index():
            rank, world = options.get("rank") or 0, options.get("world") or 1
            options.update(rank=rank * worker.num_workers + worker.id, world=world * worker.num_workers)
        return Loader(**options)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        worker = torch.utils.data.get_worker_info()
        by_lease = self._options.get("pull", "lease") == "lease" and not self._is_by_index()
        if worker is not None and worker.id > 0 and by_lease:
            return iter(())
        if self._loader is None:
            self._loader = self._open()
        return iter(self._loader)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}

    def state_dict(self) -> Mapping[str, Any] | None:
        """As that of the Loader, in the process that reads it."""
        return self._loader.state_dict() if self._loader is not None else self._options.get("state")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Before the next loop."""
        if self._loader is not None:
            self._loader.close()
        self._loader, self._options = None, {**self._options, "state": state}
