#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out random caches that it knows nothing of, and judges every leaf that it calls resolved.

A line for each device about which something is wrong or not resolved, totals at the end; exit status 1 when anything is
wrong or too few of the identifiable devices are fully resolved.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from hidden_device import TARGET
from hidden_draw import draw, unidentifiable
from hidden_judge import judge

DEVICE = pathlib.Path(__file__).resolve().with_name("hidden_device.py")
RESOLVED, UNRESOLVED = 0, 3  # exit statuses of gpuinfer that come with a profile


@dataclass
class Verdict:
    number: int
    summary: str
    unidentifiable: str | None
    wrong: dict = field(default_factory=dict)
    unresolved: dict = field(default_factory=dict)
    accesses: int | None = None
    seconds: float = 0

    @property
    def fully_resolved(self):
        return not self.wrong and not self.unresolved

    def __str__(self):
        says = [f"WRONG {leaf} {problem}" for leaf, problem in self.wrong.items()]
        says += [f"{leaf} {status}" for leaf, status in self.unresolved.items()]
        but = f" ({self.unidentifiable})" if self.unidentifiable else ""
        return f"device {self.number}{but}: {'; '.join(says)} | {self.summary}"


def summary(spec):
    """Short enough for a line; --keep keeps the whole."""
    index = dict(spec["index"])
    if index["kind"] == "table":
        index["sets_of"] = f"{len(index['sets_of'])} entries"
    ways = spec["ways"]
    shape = f"{len(ways)} x {ways[0]}" if len(set(ways)) == 1 else str(ways)
    noise = {name: value for name, value in spec["noise"].items() if value}
    return (
        f"{shape} ways, line {spec['line_bytes']}, sector {spec['sector_bytes']}, {index}, {spec['replacement']}, "
        f"buffer {spec['buffer_bytes']} at {spec['address_of_buffer']:#x}, {spec['latency_cycles']}, noise {noise}, "
        f"refuses {list(spec['refused_states'])}"
    )


def judge_run(verdict, status, stderr, profile_file, spec):
    if status not in (RESOLVED, UNRESOLVED):
        verdict.wrong["run"] = f"ended with {status}: {stderr.strip()[-300:]}"
        return
    try:
        verdict.wrong, verdict.unresolved = judge(json.loads(profile_file.read_text()), TARGET, spec)
    except (OSError, ValueError, LookupError, TypeError) as error:
        verdict.wrong["profile"] = f"cannot be read: {error!r}"
        return
    if (status == RESOLVED) != (not verdict.unresolved):
        verdict.wrong["exit status"] = f"is {status}"


def run_device(number, spec, options, folder):
    spec_file, profile_file, count_file = (folder / f"{number}.{name}" for name in ("spec.json", "profile.json", "count"))
    spec_file.write_text(json.dumps(spec | {"count_file": str(count_file)}))
    device = shlex.join([sys.executable, str(DEVICE), str(spec_file)])
    command = [options.gpuinfer, "--target", TARGET, "--device", f"exec:{device}", "--seed", str(options.seed)]
    command += ["--quiet", "--format", "json", "-o", str(profile_file)]
    verdict = Verdict(number, summary(spec), unidentifiable(spec))
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=options.timeout, check=False
        )
        verdict.seconds = time.monotonic() - began
        judge_run(verdict, done.returncode, done.stderr, profile_file, spec)
    except subprocess.TimeoutExpired:
        verdict.seconds = time.monotonic() - began
        verdict.wrong["run"] = f"took longer than {options.timeout} s"
    if count_file.exists():
        verdict.accesses = int(count_file.read_text())
    return verdict


def run_all(options, folder):
    rng = Random(options.seed)
    specs = [draw(rng) | {"seed": rng.randrange(1 << 32)} for _ in range(options.count)]
    chosen = [options.only] if options.only is not None else range(options.count)
    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(lambda number: run_device(number, specs[number], options, folder), chosen):
            verdicts.append(verdict)
            if not verdict.fully_resolved:
                print(verdict, flush=True)
    return verdicts


def report(verdicts, options):
    """Prints the totals; true when the bounds hold."""
    wrong = sum(len(verdict.wrong) for verdict in verdicts)
    identifiable = [verdict for verdict in verdicts if not verdict.unidentifiable]
    resolved = sum(verdict.fully_resolved for verdict in identifiable)
    share = resolved / len(identifiable) if identifiable else 1
    accesses = [verdict.accesses for verdict in verdicts if verdict.accesses is not None]
    seconds = [verdict.seconds for verdict in verdicts]
    print(f"seed {options.seed}: {len(verdicts)} devices, {len(identifiable)} of them identifiable")
    print(f"wrong: {wrong} (must be 0)")
    print(f"identifiable and fully resolved: {resolved} = {share:.1%} (must be at least {options.resolved:.0%})")
    if accesses:
        print(f"accesses asked: median {statistics.median(accesses):,.0f}, max {max(accesses):,}")
    print(f"seconds: median {statistics.median(seconds):.2f}, max {max(seconds):.2f}, sum {sum(seconds):.0f}")
    return wrong == 0 and share >= options.resolved


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--count", type=int, default=200, help="how many devices")
    parser.add_argument("--seed", type=int, default=1, help="draws the devices")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a device")
    parser.add_argument("--resolved", type=float, default=0.95, help="least share of fully resolved devices")
    parser.add_argument("--only", type=int, help="the number of one device to run")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the devices and profiles")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        verdicts = run_all(options, options.keep.resolve())
    else:
        with tempfile.TemporaryDirectory() as folder:
            verdicts = run_all(options, pathlib.Path(folder))
    return 0 if report(verdicts, options) else 1


if __name__ == "__main__":
    sys.exit(main())
