#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out caches that are built to mislead it, and judges every leaf that it calls resolved.

The devices are those of configs/adversarial, simulated by gpuinfer, and others that hidden_device.py simulates, drawn
anew for every seed.

A line for each device with what was left open; exit status 1 when anything is wrong.
"""

import argparse
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from random import Random

from hidden_device import TARGET
from hidden_misleading import KINDS, described_device, described_devices, draw_misleading, judge_misleading

DEVICE = pathlib.Path(__file__).resolve().with_name("hidden_device.py")
ALL_KINDS = [*KINDS, *(f"virtual:{name}" for name in described_devices())]
RESOLVED, UNRESOLVED = 0, 3  # exit statuses of gpuinfer that come with a profile


def find_out(options, device, seed, profile_file):
    """(profile or None, why there is none, seconds)"""
    command = [options.gpuinfer, "--target", TARGET, "--device", device, "--seed", str(seed), "--quiet"]
    command += ["--timeout", str(options.timeout), "--format", "json", "-o", str(profile_file)]
    began = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode not in (RESOLVED, UNRESOLVED):
        return None, f"ended with {done.returncode}: {done.stderr.strip()[-300:]}", seconds
    profile = json.loads(profile_file.read_text())
    leaves = [leaf for name, leaf in profile["evidence"][TARGET].items() if isinstance(leaf, dict) and "status" in leaf]
    is_resolved = all(leaf["status"] == "resolved" for leaf in leaves)
    problem = None if is_resolved == (done.returncode == RESOLVED) else f"ended with {done.returncode}"
    return profile, problem, seconds


def run_case(options, kind, seed, folder):
    spec_file, profile_file = (folder / f"{kind.replace(':', '-')}-{seed}.{name}.json" for name in ("spec", "profile"))
    if kind in KINDS:
        spec = draw_misleading(Random(f"{kind} {seed}"), kind, options.most_lines)
        device = "exec:" + shlex.join([sys.executable, str(DEVICE), str(spec_file)])
    else:
        spec = described_device(kind.removeprefix("virtual:"))
        device = kind
    spec_file.write_text(json.dumps(spec))
    profile, problem, seconds = find_out(options, device, seed, profile_file)
    wrong, open_leaves = judge_misleading(profile, TARGET, spec) if profile else ({}, {})
    if problem:
        wrong["run"] = problem
    return kind, seed, wrong, open_leaves, seconds


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--seeds", type=int, default=20, help="how many devices of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed; it draws the device and seeds the inference")
    parser.add_argument("--kind", choices=ALL_KINDS, help="only devices of this kind")
    parser.add_argument("--most-lines", type=int, default=256, help="in a drawn cache; few make quick devices")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that gpuinfer gets for a device")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the devices and profiles")
    return parser.parse_args()


def report(verdicts):
    by_kind = defaultdict(list)
    for kind, _, wrong, open_leaves, seconds in verdicts:
        by_kind[kind].append((wrong, open_leaves, seconds))
    print(f"  {'':<24} {'devices':>7} {'wrong':>6} {'seconds':>8}  left open")
    for kind, results in by_kind.items():
        left = Counter(leaf for _, open_leaves, _ in results for leaf in open_leaves)
        told = ", ".join(f"{leaf} {count}" for leaf, count in left.most_common())
        wrong = sum(len(wrong) for wrong, _, _ in results)
        print(f"  {kind:<24} {len(results):7} {wrong:6} {sum(seconds for *_, seconds in results):8.1f}  {told}")


def main():
    options = parse_arguments()
    kinds = [options.kind] if options.kind else ALL_KINDS
    cases = list(itertools.product(kinds, range(options.first, options.first + options.seeds)))
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        verdicts = list(pool.map(lambda case: run_case(options, *case, folder), cases))
    for kind, seed, wrong, _, _ in verdicts:
        for leaf, problem in wrong.items():
            print(f"{kind}, seed {seed}: WRONG {leaf}: {problem}")
    report(verdicts)
    return 1 if any(wrong for _, _, wrong, _, _ in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
