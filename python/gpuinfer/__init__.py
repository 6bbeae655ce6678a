# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Finds out how the caches of a GPU are built, and simulates them.

`Profile` reads what is published or on file, asks a GPU (`Profile.infer`), shows itself in notebooks and writes itself.
`CacheSimulator` and `PathSimulator` play caches and paths of memory of a profile. `Device` runs experiments of yours on
a GPU, `read_traces` reads recordings, `infer` finds out what they decide about a cache, and `infer_device` asks a Python
function. `plot_latencies` and its like draw with matplotlib.

Addresses and offsets are bytes, in numpy arrays or sequences of whole numbers; latencies are cycles. Simulations and
inferences run without the lock of the interpreter, so threads do several at a time. What is wrong with an argument or a
file is told by `InputError`, which is a `ValueError`, in one sentence.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import operator
import os
import pathlib
import tempfile
import warnings as _warnings
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _core, _program
from ._arrays import bytes_array, latencies_array, shifted, whole
from ._core import DeviceError, Error, InputError
from ._device import Device, Refused
from .plots import plot_carveouts, plot_latencies, plot_levels, plot_misses

__version__: str = _core.version
__all__ = [
    "CacheSimulator",
    "Device",
    "DeviceError",
    "Error",
    "InputError",
    "Leaf",
    "PathSimulator",
    "Profile",
    "Question",
    "Refused",
    "Trace",
    "infer",
    "infer_device",
    "plot_carveouts",
    "plot_latencies",
    "plot_levels",
    "plot_misses",
    "read_traces",
]

for _error, _about in (
    (Error, "What this package raises, apart from what a function raised that it called."),
    (InputError, "An argument or a file is wrong; the message says what, where, and what to do about it."),
    (DeviceError, "There is no usable device, or it failed before anything was learned."),
):
    _error.__doc__, _error.__module__ = _about, __name__
Device.__module__ = Refused.__module__ = __name__


def _settings(seed: int, budget: Optional[int], timeout: Optional[float]) -> _core.Settings:
    if timeout is not None and not 0 <= timeout < 1e9:
        raise InputError(f"timeout: is {timeout!r}; give seconds from 0 on, below 10^9")
    return _core.Settings(whole("seed", seed), None if budget is None else whole("budget", budget), timeout)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A value of a profile and why it has that value. `value` is None where it is not proven."""

    value: Any
    evidence: Optional[Mapping[str, Any]]

    @property
    def status(self) -> Optional[str]:
        """`resolved`, `ambiguous` or `unknown`; None where the profile has no evidence of it."""
        return None if self.evidence is None else self.evidence["status"]


class Profile:
    """A description of a device: what was inferred, or what a simulation is made of. Never changes."""

    def __init__(self, description: _core.Description) -> None:
        self._description = description

    @classmethod
    def load(cls, file: Union[str, os.PathLike[str]]) -> Profile:
        """Reads YAML or JSON of the schema gpuinfer/1, or takes the published device of that name: `load("gtx780")`."""
        name = os.fspath(file)
        if "/" in name or "." in name or os.path.exists(name):
            return cls(_core.Description.read(name))
        return cls.parse(_program.run("export", name, "--to", "json")[0], name)

    @classmethod
    def infer(
        cls,
        device: str = "gpu",
        targets: Union[str, Iterable[str]] = "L1tex",
        *,
        seed: int = 1,
        budget: Optional[int] = None,
        timeout: Optional[float] = None,
        record: Optional[Union[str, os.PathLike[str]]] = None,
    ) -> Profile:
        """Asks a device, as the main job of the program does: `infer("cuda:0", "all")`.

        `device` and `targets` are those of its options `--device` and `--target`; `gpu` is the first GPU of this
        machine. `budget` ends it after so many loads, `timeout` after so many seconds; `record` keeps every answer.
        """
        _settings(seed, budget, timeout)
        options = {"seed": seed, "budget": budget, "timeout": timeout, "record": record}
        arguments = [f"--target={target}" for target in ([targets] if isinstance(targets, str) else targets)]
        arguments += [f"--{name}={value}" for name, value in options.items() if value is not None]
        text, told = _program.run("run", "--quiet", "--format=json", f"--device={device}", *arguments)
        for line in told:
            _warnings.warn(line, stacklevel=2)
        return cls.parse(text, device)

    @classmethod
    def parse(cls, text: str, name: str = "text") -> Profile:
        """The same from a string; `name` stands in messages."""
        return cls(_core.Description.parse(text, name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Profile:
        """The inverse of `to_dict`."""
        return cls.parse(json.dumps(data), "dict")

    def to_yaml(self) -> str:
        return self._description.to_yaml()

    def to_json(self) -> str:
        return self._description.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Everything as dictionaries, lists, numbers and strings, as it stands in the file."""
        data: dict[str, Any] = json.loads(self._description.to_json())
        return data

    def save(self, file: Union[str, os.PathLike[str]]) -> None:
        """Writes YAML."""
        pathlib.Path(file).write_text(self.to_yaml(), encoding="utf-8")

    @property
    def device(self) -> dict[str, Any]:
        device: dict[str, Any] = self.to_dict()["device"]
        return device

    @property
    def caches(self) -> dict[str, dict[str, Any]]:
        caches: dict[str, dict[str, Any]] = self.to_dict()["caches"]
        return caches

    @property
    def evidence(self) -> dict[str, dict[str, Any]]:
        """Empty where nothing was inferred."""
        return self.to_dict().get("evidence", {})

    def leaves(self) -> dict[str, dict[str, Leaf]]:
        """All values with their evidence, by section and name: of caches, textures and code, bandwidths and so on."""
        data = self.to_dict()
        evidence = data.pop("evidence", {})
        sections = {name: entry for kind in _core.named_sections for name, entry in data.pop(kind, {}).items()}
        sections.update((name, entry) for name, entry in data.items() if isinstance(entry, dict) and name != "device")
        for section, entries in evidence.items():
            of_section = sections.setdefault(section, {})
            for name, entry in entries.items():
                if isinstance(entry, dict) and "status" in entry:
                    of_section.setdefault(name, None)
        return {
            section: {name: Leaf(value, evidence.get(section, {}).get(name)) for name, value in entry.items()}
            for section, entry in sections.items()
        }

    def leaf(self, section: str, name: str) -> Leaf:
        """One of `leaves`: `leaf("L1tex", "ways")`, `leaf("bandwidth", "L1")`."""
        entry = _entry(self.leaves(), section, "sections")
        if name not in entry:
            raise InputError(f"{section}: has no `{name}`; it has {', '.join(entry)}")
        return entry[name]

    def simulate(
        self, cache: str, offsets: ArrayLike, *, warm: ArrayLike = (), seed: int = 1, address: int = 0
    ) -> NDArray[numpy.bool_]:
        """Whether each load of `offsets` misses in a cache that was empty, and then loaded `warm`."""
        simulator = CacheSimulator(self, cache, seed=seed, address=address)
        simulator.misses(warm)
        return simulator.misses(offsets)

    @property
    def resolved(self) -> bool:
        """Whether there is evidence and all of it says `resolved`."""
        entries = [
            entry["status"]
            for section in self.evidence.values()
            for entry in section.values()
            if isinstance(entry, dict) and "status" in entry
        ]
        return bool(entries) and all(status == "resolved" for status in entries)

    def to_svg(self) -> str:
        """The picture of the machine and its caches, as `gpuinfer show` draws it."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder)
            (file / "profile.yaml").write_text(self.to_yaml(), encoding="utf-8")
            _program.run("show", str(file / "profile.yaml"), "-o", str(file / "picture.svg"))
            return (file / "picture.svg").read_text(encoding="utf-8")

    def _repr_html_(self) -> str:
        # In an element of its own, so that styles and names of several pictures in a notebook stay apart.
        picture = base64.b64encode(self.to_svg().encode()).decode()
        name = html.escape(self.device["name"], quote=True)
        return f'<img alt="The caches of {name}" style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self.to_yaml() == other.to_yaml()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        whole = self.to_dict()
        return f"<gpuinfer.Profile of {whole['device']['name']}: {', '.join(whole['caches']) or 'no caches'}>"


def _entry(entries: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in entries:
        raise InputError(f"{name}: is not there; the profile has the {what} {', '.join(entries) or 'none'}")
    return entries[name]


class CacheSimulator:
    """One cache of a profile. Lines stay from one call to the next; one thread at a time plays it."""

    def __init__(self, profile: Profile, cache: str, *, seed: int = 1, address: int = 0) -> None:
        """`seed` drives the chance in replacement policies; `address` is that of offset 0."""
        described = _entry(profile.caches, cache, "caches")
        cycles = described["latency_cycles"] or {}
        self._latency_cycles = (cycles.get("hit"), cycles.get("miss"))
        self._address = whole("address", address)
        number = whole("seed", seed)
        try:
            self._simulator = _core.CacheSimulator(profile._description, cache, number)
        except InputError as error:
            raise InputError(f"{cache}: {error}") from None

    def put_into(self, state: str) -> None:
        """`clean`: as after power-on; `invalidated`: no line present, replacement state as it is; `keep`."""
        self._simulator.put_into(state)

    def outcomes(self, offsets: ArrayLike) -> NDArray[numpy.uint8]:
        """Loads in order. 0: hit, 1: the line is there but not the sector, 2: the line is not there."""
        return self._simulator.play(shifted("offsets", offsets, self._address))

    def misses(self, offsets: ArrayLike) -> NDArray[numpy.bool_]:
        """The same: whether each load misses."""
        return self.outcomes(offsets).astype(numpy.bool_)

    def latencies(self, offsets: ArrayLike) -> NDArray[numpy.float64]:
        """The same: the cycles that each load takes, without noise."""
        hit, miss = self._latency_cycles
        if hit is None or miss is None:
            raise InputError("latency_cycles: is null; a simulation of latencies needs `hit` and `miss`")
        return numpy.where(self.misses(offsets), float(miss), float(hit))


class PathSimulator:
    """A path of memory of a profile: its caches and TLBs, played together. One thread at a time plays it."""

    def __init__(self, profile: Profile, path: str = "global", *, seed: int = 1, address: int = 0) -> None:
        described = _entry(profile.to_dict().get("paths", {}), path, "paths")
        self._address = whole("address", address)
        self._simulator = _core.PathSimulator(profile._description, path, whole("seed", seed))
        self.levels: tuple[str, ...] = (*described["caches"], "memory")
        """Where data can be."""

    def put_into(self, state: str) -> None:
        """As that of a CacheSimulator."""
        self._simulator.put_into(state)

    def play(self, offsets: ArrayLike) -> tuple[NDArray[numpy.uint8], NDArray[numpy.uint8], NDArray[numpy.float64]]:
        """Loads in order: for each the place in `levels` of its data, where its translation was, and its cycles.

        Of translations 0 means that none was needed, 1 the first TLB, 2 the second one, 3 the page tables, 4 the same
        after a switch of them.
        """
        return self._simulator.play(shifted("offsets", offsets, self._address))


@dataclasses.dataclass(frozen=True)
class Trace:
    """Recorded loads: `offsets` in order, what each took, and what was loaded before without being recorded.

    `state` is what the cache was put into before `warm`: `clean`, `invalidated` or `flooded`. None: nobody knows what
    it had seen, as of the CSV files that `gpuinfer infer` reads. `target` is the load path where it is known.
    """

    offsets: ArrayLike
    latencies: ArrayLike
    warm: ArrayLike = ()
    state: Optional[str] = None
    name: str = ""
    target: str = ""


@dataclasses.dataclass(frozen=True)
class Question:
    """What a device is asked by `infer_device`: put the cache into `state`, load `warm`, then load and time `record`.

    Both are offsets in bytes of loads of 4 bytes.
    """

    state: str
    warm: NDArray[numpy.uint64]
    record: NDArray[numpy.uint64]


def read_traces(file: Union[str, os.PathLike[str]], target: Optional[str] = None) -> Iterator[Trace]:
    """The traces of a recording in any form that `gpuinfer infer` reads, of all targets or of one, one after another."""
    for trace in _core.read_traces(os.fspath(file)):
        if target in (None, trace.target):
            yield Trace(trace.record, trace.latency_cycles, trace.warm, trace.state, trace.name, trace.target)


def infer(
    traces: Iterable[Trace],
    *,
    target: str = "L1tex",
    address: int = 0,
    seed: int = 1,
    timeout: Optional[float] = None,
    device: str = "recorded",
) -> Profile:
    """What recordings decide about a cache, and no more, as `gpuinfer infer` of files.

    `address` is that of offset 0, `timeout` are seconds, `device` becomes the name in the profile.
    """
    start = whole("address", address)
    recorded = []
    for number, trace in enumerate(traces):
        name = trace.name or f"trace {number}"
        offsets = shifted(f"{name}: offsets", trace.offsets, start)
        warm = shifted(f"{name}: warm", trace.warm, start)
        latencies = latencies_array(f"{name}: latencies", trace.latencies, offsets.size)
        recorded.append(_core.Trace(name, target, trace.state, warm, offsets, latencies))
    if not recorded:
        raise InputError("traces: there is none; give one at least")
    # The traces hold addresses.
    facts = _core.DeviceFacts(device, target, 0, 0)
    return _profile(_core.infer_traces(recorded, facts, _settings(seed, None, timeout)))


def infer_device(
    answer: Callable[[Question], Union[Sequence[float], ArrayLike]],
    *,
    buffer_bytes: int,
    target: str = "L1tex",
    address: int = 0,
    seed: int = 1,
    budget: Optional[int] = None,
    timeout: Optional[float] = None,
    device: str = "Python",
) -> Profile:
    """Asks `answer` until the cache behind it is proven or cannot be, as the main job of `gpuinfer` asks a GPU.

    `answer` gets a `Question` and gives the cycles of each recorded load, or raises `Refused`. Offsets are below
    `buffer_bytes`. `budget` ends it after so many loads, `timeout` after so many seconds: then the profile says what is
    known. Any other exception of `answer` ends it and comes out here.
    """

    def answered(state: str, warm: NDArray[numpy.uint64], record: NDArray[numpy.uint64]) -> Any:
        try:
            return latencies_array("answer", answer(Question(state, warm, record)), record.size)
        except Refused as refusal:
            return str(refusal) or "the device refused the question"

    if whole("buffer_bytes", buffer_bytes) < 4:
        raise InputError(f"buffer_bytes: {buffer_bytes} is less than one load of 4 bytes; give the size of the buffer")
    facts = _core.DeviceFacts(device, target, operator.index(buffer_bytes), whole("address", address))
    return _profile(_core.infer_callable(answered, facts, _settings(seed, budget, timeout)))


def _profile(found: tuple[_core.Description, list[str], bool]) -> Profile:
    description, warned, ended_early = found
    for warning in warned + ["ended before everything was found out; raise the budget or the timeout"] * ended_early:
        _warnings.warn(warning, stacklevel=3)
    return Profile(description)
