"""Reads the .npy files that the program writes, with NumPy if it is installed and otherwise as lists."""

from __future__ import annotations

import array
import ast
import struct
import sys
from typing import Any

_CODES = {"<f4": "f", "<i4": "i", "<i8": "q"}


def read_npy(path: str) -> Any:
    """Returns an array of NumPy, or nested lists if NumPy is not installed."""
    try:
        import numpy
    except ImportError:
        return read_npy_as_lists(path)
    return numpy.load(path, allow_pickle=False)


def read_npy_as_lists(path: str) -> Any:
    """Returns the numbers of an array of one or two dimensions as lists."""
    with open(path, "rb") as file:
        magic = file.read(8)
        if magic[:6] != b"\x93NUMPY":
            raise ValueError(f"{path}: this is no .npy file")
        (length,) = struct.unpack("<H", file.read(2))
        header = ast.literal_eval(file.read(length).decode("latin-1"))
        numbers = array.array(_CODES[header["descr"]])
        numbers.frombytes(file.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    flat = numbers.tolist()
    shape = header["shape"]
    if len(shape) == 1:
        return flat
    width = shape[1]
    return [flat[i * width:(i + 1) * width] for i in range(shape[0])]


def padded(rows: Any, starts: Any, fill: float = -100) -> Any:
    """Converts rows of tokens to one row per sequence, padded with `fill` to the same length, as in Hugging Face's Trainer."""
    bounds = list(zip(list(starts)[:-1], list(starts)[1:]))
    longest = max((int(end) - int(begin) for begin, end in bounds), default=0)
    if isinstance(rows, list):
        empty = [fill] * len(rows[0]) if rows and isinstance(rows[0], list) else fill
        return [rows[begin:end] + [empty] * (longest - (end - begin)) for begin, end in bounds]
    import numpy
    result = numpy.full((len(bounds), longest, *rows.shape[1:]), fill, dtype=rows.dtype)
    for i, (begin, end) in enumerate(bounds):
        result[i, :end - begin] = rows[begin:end]
    return result
