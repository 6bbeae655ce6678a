# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The program `gpuinfer`: it reaches devices, knows what is published, and draws."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Callable, Optional

from ._core import DeviceError, Error, InputError

_ERRORS: dict[int, Callable[[str], Error]] = {2: InputError, 4: DeviceError}


def find() -> str:
    """The file of the program: beside this package, where both were installed together, or in PATH."""
    package = pathlib.Path(__file__).resolve().parent
    # In the package after `pip install`, in PREFIX after CMake put the package into PREFIX/lib/pythonX.Y/dist-packages.
    for prefix in (package, *package.parents[3:4]):
        if os.access(prefix / "bin" / "gpuinfer", os.X_OK):
            return str(prefix / "bin" / "gpuinfer")
    found = shutil.which("gpuinfer")
    if found is None:
        raise Error("the program gpuinfer is not in PATH; add its folder")
    return found


def error(status: int, told: str) -> Error:
    """What `status` and the last line on stderr mean."""
    lines = told.strip().splitlines() or [f"gpuinfer ended with exit status {status}"]
    return _ERRORS.get(status, Error)(lines[-1].removeprefix("gpuinfer: "))


def run(*arguments: str, stdin: Optional[str] = None) -> tuple[str, list[str]]:
    """What it wrote to stdout, and each line of stderr. Exit status 3, something is open, is no error."""
    done = subprocess.run([find(), *arguments], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise error(done.returncode, done.stderr)
    return done.stdout, done.stderr.splitlines()


def main() -> None:
    """The command `gpuinfer` of an environment of Python."""
    program = find()
    os.execv(program, [program, *sys.argv[1:]])
