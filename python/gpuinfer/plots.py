# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Plots of profiles and recordings. matplotlib is needed when one is drawn; each takes and gives its axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence

import numpy

from ._core import InputError

if TYPE_CHECKING:
    from . import Profile, Trace

_KIB = 1024


def _axes(axes: Optional[Any]) -> Any:
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def plot_levels(profile: Profile, *, ax: Optional[Any] = None) -> Any:
    """The cycles of a hit in each cache of the profile where they are known, the nearest at the top."""
    cycles = {
        name: cache["latency_cycles"]["hit"]
        for name, cache in profile.caches.items()
        if cache.get("latency_cycles") and cache["latency_cycles"].get("hit") is not None
    }
    if not cycles:
        raise InputError("latency_cycles: none is known; give a profile of a device that was timed")
    names = sorted(cycles, key=lambda name: (-cycles[name], name))
    ax = _axes(ax)
    ax.bar_label(ax.barh(names, [cycles[name] for name in names]), padding=3)
    ax.set(xlabel="latency of a hit (cycles)", title=profile.device["name"])
    return ax


def plot_carveouts(profile: Profile, cache: str = "L1tex", *, ax: Optional[Any] = None) -> Any:
    """The largest array without a conflict in an L1 against what is set aside as shared memory."""
    found = [each for each in profile.leaf(cache, "carveouts").value or [] if each["onset_bytes"] is not None]
    if not found:
        raise InputError(f"{cache}: carveouts: none is known; ask a device whose L1 and shared memory are one")
    ax = _axes(ax)
    ax.plot([each["carveout_kb"] for each in found], [each["onset_bytes"] / _KIB for each in found], "o")
    ax.set(xlabel="carve-out for shared memory (KB)", ylabel="largest conflict-free footprint (KiB)", ylim=(0, None))
    ax.set_title(f"{profile.device['name']}, {cache}")
    return ax


def plot_misses(
    profile: Profile, cache: str = "L1tex", *, sizes: Optional[Sequence[int]] = None, ax: Optional[Any] = None
) -> Any:
    """The share of loads that miss when an array is read again and again line by line, against its size in bytes.

    It is simulated. `sizes` are 33 from half the capacity to twice it where none are given.
    """
    described = profile.leaf(cache, "line_bytes").value, profile.leaf(cache, "capacity_bytes").value
    line_bytes, capacity_bytes = described
    if line_bytes is None or capacity_bytes is None:
        raise InputError(f"{cache}: line_bytes or capacity_bytes is null; give a cache of which both are known")
    chosen = numpy.linspace(capacity_bytes // 2, 2 * capacity_bytes, 33, dtype=int) if sizes is None else numpy.asarray(sizes)
    shares = []
    for size in chosen:
        lap = numpy.arange(0, int(size), line_bytes)
        shares.append(100 * profile.simulate(cache, lap, warm=numpy.tile(lap, 3)).mean())
    ax = _axes(ax)
    ax.plot(chosen / _KIB, shares, ".-")
    ax.set(xlabel="size of the array (KiB)", ylabel="loads that miss (%)", ylim=(-3, 103))
    ax.set_title(f"{profile.device['name']}, {cache}")
    return ax


def plot_latencies(traces: Iterable[Trace], *, bins: int = 100, ax: Optional[Any] = None) -> Any:
    """How many recorded loads took how many cycles. The slowest one in a thousand is left out of the range."""
    recorded = [numpy.asarray(trace.latencies) for trace in traces]
    cycles = numpy.concatenate(recorded) if recorded else numpy.zeros(0)
    if not cycles.size:
        raise InputError("traces: there is no recorded load; give one trace at least")
    ax = _axes(ax)
    ax.hist(cycles, bins=bins, range=(float(cycles.min()), float(numpy.quantile(cycles, 0.999)) + 1))
    ax.set(xlabel="latency (cycles)", ylabel="loads", yscale="log")
    return ax
