# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Devices that the program reaches, asked experiment by experiment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from types import TracebackType
from typing import Any, Optional, Type

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _program
from ._arrays import bytes_array


class Refused(Exception):
    """A device cannot do what a question asks, such as its `state`; the message says why."""


class Device:
    """A GPU, a simulation or a recording, as `--device` of the program names it: `cuda:0`, `virtual:gtx780`.

    It is held until `close`, or to the end of a `with`. One thread at a time asks it.
    """

    def __init__(self, name: str, *, seed: int = 1) -> None:
        self._told = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [_program.find(), "serve", "--device", name, "--seed", str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )
        self._asked = 0
        try:
            greeting = self._read()
        except Exception:
            self.close()
            raise
        self.name: str = greeting["device"]["name"]
        self.targets: tuple[str, ...] = tuple(greeting["targets"])
        self.buffer_bytes: int = greeting["buffer_bytes"]
        """Offsets are below this, of targets without a buffer of their own."""
        self.address: int = greeting["address_of_buffer"]
        """That of offset 0."""

    def ask(self, target: str, record: ArrayLike, *, warm: ArrayLike = (), state: str = "clean") -> NDArray[numpy.float32]:
        """Puts the cache into `state`, loads `warm`, then loads and times `record`: the cycles of each recorded load.

        Offsets are bytes. `clean`: no line present, replacement state as after power-on; `invalidated`: no line
        present; `keep`: as the last question left it. Raises `Refused` where the device cannot.
        """
        if self._process.stdin is None or self._process.stdin.closed:
            raise ValueError("the device is closed")
        self._asked += 1
        question = {
            "id": self._asked,
            "target": target,
            "state": state,
            "warm": bytes_array("warm", warm).tolist(),
            "record": bytes_array("record", record).tolist(),
        }
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it told is read next
        answer = self._read()
        if "error" in answer:
            raise Refused(answer["error"])
        return numpy.asarray(answer["latency"], numpy.float32)

    def close(self) -> None:
        """Gives the device back."""
        self._process.communicate()
        self._told.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            read: dict[str, Any] = json.loads(line)
            return read
        status = self._process.wait()
        self._told.seek(0)
        raise _program.error(status, self._told.read())
