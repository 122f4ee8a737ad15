# SPDX-License-Identifier: MIT
"""What can go wrong, a class for each of tombola.h's statuses, each also the built-in class that people catch."""

from tombola import _core


class Error(Exception):
    """Of all that Tombola raises; its text says what was met, where, and what would have been right."""


class UsageError(Error, ValueError):
    """An option is wrong, or a call comes at the wrong time."""


class InputError(Error, ValueError):
    """A file or an answer is malformed or damaged."""


class NotFoundError(Error, LookupError):
    """A file, row, stream or table does not exist."""


class ConflictError(Error):
    """The sampler's stream is paused, or another one than it was."""


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
