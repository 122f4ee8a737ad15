# SPDX-License-Identifier: MIT
"""Converts the arrays of a batch to those of a library, without a copy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tombola.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST = (1, 3)  # of DLPack's devices: memory, and pinned memory

# What makes an array of ours one of theirs: module, function, how to get it.
_LIBRARIES = {
    "numpy": ("numpy", "asarray", "numpy"),
    "torch": ("torch", "from_dlpack", "torch"),
    "jax": ("jax.numpy", "from_dlpack", "jax"),
    "cupy": ("cupy", "from_dlpack", "cupy-cuda12x"),
}


def converter(output: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that converts _core.Array to `output`: numpy, torch, jax, cupy, or dlpack (unchanged)."""
    if callable(output):
        return output
    if output == "dlpack":
        return lambda array: array
    if not isinstance(output, str) or output not in _LIBRARIES:
        raise UsageError(f"output is {output!r}; give {', '.join(_LIBRARIES)}, dlpack or a function of an array")
    module, function, package = _LIBRARIES[output]
    try:
        convert: Callable[[Any], Any] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # it is there, and lacks something else
        raise ImportError(f"output={output!r} needs {module}: pip install {package}") from error
    return _whole(convert) if output == "jax" else convert


def _whole(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuses integers beyond 32 bits, which JAX truncates silently unless it is configured for 64. Arrays on a device are not
    checked."""
    numpy = importlib.import_module("numpy")

    def checked(array: Any) -> Any:
        made = convert(array)
        if made.dtype == "int32" and array.__dlpack_device__()[0] in _HOST:
            given = numpy.asarray(array)
            if (given != numpy.asarray(made)).any():
                raise UsageError(f"{max(given.ravel(), key=abs)} does not fit the 32 bits that JAX keeps of an integer; "
                                 "jax.config.update('jax_enable_x64', True) lets it keep 64")
        return made
    return checked


def current_stream(output: str | Callable[[Any], Any], device_index: int) -> int:
    """The current CUDA stream of the caller's library, as a number; 0 is CUDA's default stream."""
    if output == "torch":
        torch = importlib.import_module("torch")
        return int(torch.cuda.current_stream(device_index).cuda_stream)
    if output == "cupy":
        cupy = importlib.import_module("cupy")
        return int(cupy.cuda.get_current_stream().ptr)
    return 0
