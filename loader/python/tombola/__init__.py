# SPDX-License-Identifier: MIT
"""Tombola: batches of training rows, shuffled by a sampler and fetched ahead of training.

    server = tombola.serve("train.csv", label="species")
    for ids, labels, x in tombola.Loader(server, batch_size=100):
        ...
"""

import os as _os
from pathlib import Path as _Path

from tombola._core import log_level, version as _version
from tombola.errors import (
    ConflictError, DiskError, Error, InputError, Interrupted, NotFoundError, OutOfMemoryError, SamplerError,
    SamplerTimeoutError, UnavailableError, UsageError,
)
from tombola.loader import Loader
from tombola.server import Server, serve

__version__ = _version()
if (_parquet := _Path(__file__).with_name("tombola_parquet.so")).exists():  # for this process and for samplers that it serves
    _os.environ.setdefault("TOMBOLA_PARQUET_MODULE", str(_parquet))
__all__ = [
    "ConflictError", "DiskError", "Error", "InputError", "Interrupted", "Loader", "NotFoundError", "OutOfMemoryError",
    "SamplerError", "SamplerTimeoutError", "Server", "UnavailableError", "UsageError", "log_level", "serve",
]
