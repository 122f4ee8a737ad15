# SPDX-License-Identifier: MIT
"""One exception class per status of tombola.h, each derived from the matching built-in class."""

from tombola import _core


class Error(Exception):
    """Base class of all of Tombola's exceptions; the text says what was found, where, and what is expected."""


class UsageError(Error, ValueError):
    """An option is wrong, or a call comes at the wrong time."""


class InputError(Error, ValueError):
    """A file or an answer is malformed or damaged."""


class NotFoundError(Error, LookupError):
    """A file, row, stream or table does not exist."""


class ConflictError(Error):
    """The sampler's stream is paused, or has changed."""


class DiskError(Error, OSError):
    """The system refused a read or a write."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""


class SamplerError(Error, ConnectionError):
    """The sampler is gone, refuses, or is no sampler."""


class SamplerTimeoutError(Error, TimeoutError):
    """The sampler was silent or busy for longer than `patience`."""


class UnavailableError(Error, RuntimeError):
    """There is no such device on this machine, or in this build."""


class Interrupted(Error):
    """Loader.interrupt() ended a wait."""


_core.set_errors({
    -1: UsageError, -2: InputError, -3: NotFoundError, -4: ConflictError, -5: DiskError, -6: DiskError, -7: OutOfMemoryError,
    -8: SamplerError, -9: SamplerTimeoutError, -10: UnavailableError, -11: Interrupted,
})
