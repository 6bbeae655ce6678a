# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of users as the arrays and numbers that the libraries take. All raise InputError with the argument's name."""

from __future__ import annotations

import operator

import numpy
from numpy.typing import ArrayLike, NDArray

from ._core import InputError


def bytes_array(name: str, values: ArrayLike) -> NDArray[numpy.uint64]:
    array = numpy.asarray(values)
    if array.size == 0:
        return numpy.zeros(0, numpy.uint64)
    if array.ndim != 1:
        raise InputError(f"{name}: has {array.ndim} dimensions; give one")
    if array.dtype.kind not in "iu":
        raise InputError(f"{name}: is of type {array.dtype}; give whole numbers of bytes")
    if array.dtype.kind == "i" and array.min() < 0:
        raise InputError(f"{name}: {array.min()} is negative; count bytes from 0")
    return numpy.ascontiguousarray(array, numpy.uint64)


def whole(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name}: is {value!r}; give a whole number") from None
    if not 0 <= number < 1 << 64:
        raise InputError(f"{name}: {number} is negative or needs more than 64 bits; correct it")
    return number


def shifted(name: str, values: ArrayLike, address: int) -> NDArray[numpy.uint64]:
    offsets = bytes_array(name, values)
    if offsets.size and int(offsets.max()) + address >= 1 << 64:
        raise InputError(f"{name}: {offsets.max()} from address {address} on leaves 64 bits; correct one of them")
    return offsets + numpy.uint64(address)


def latencies_array(name: str, values: ArrayLike, accesses: int) -> NDArray[numpy.float32]:
    array = numpy.asarray(values)
    if array.size != accesses or array.ndim != 1:
        raise InputError(f"{name}: has shape {array.shape}, and {accesses} loads were recorded; give a number for each")
    if array.dtype.kind not in "iuf" and accesses:
        raise InputError(f"{name}: is of type {array.dtype}; give numbers of cycles")
    # NaN fails the comparison.
    if not numpy.all((array >= 0) & (array <= numpy.finfo(numpy.float32).max)):
        raise InputError(f"{name}: holds what no clock measures; give numbers of cycles from 0 on")
    return numpy.ascontiguousarray(array, numpy.float32)
