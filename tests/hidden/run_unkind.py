#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out devices that depart from every plain description, and judges every leaf that it resolves.

A line for each device about which something is wrong, a table by kind at the end; exit status 1 when anything is wrong
or too few of the leaves that have a true value are resolved.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from hidden_unkind import ALL_KINDS, draw_unkind, judge_unkind, rate_is_told

RESOLVED, UNRESOLVED = 0, 3  # exit statuses of gpuinfer that come with a profile
KEYS = ("structure", "ways", "index", "policy", "depart", "every", "fewer_ways", "one_in", "middle_one_in", "spared",
        "line_number_bits", "one_in_misses", "after_ascending", "outer", "store_lines", "skewed_ways", "nearer", "noise",
        "refused_states", "eviction_cycles", "farther", "sectors_idle")  # fmt: skip


@dataclass
class Verdict:
    kind: str
    number: int
    spec: dict
    wrong: dict = field(default_factory=dict)
    open_leaves: dict = field(default_factory=dict)
    rate_is_true: bool | None = None  # of a departing device that is described
    accesses: int = 0
    seconds: float = 0

    def __str__(self):
        says = "; ".join(f"WRONG {leaf} {problem}" for leaf, problem in self.wrong.items())
        what = ", ".join(f"{key} {self.spec[key]}" for key in KEYS if key in self.spec)
        return f"{self.kind} {self.number}: {says} | {what[:400]}"


def run_device(options, kind, number, folder):
    rng = Random(f"{options.seed} {kind} {number}")
    spec = draw_unkind(rng, kind, options.most_lines)
    files = {name: folder / f"{kind}-{number}.{name}" for name in ("spec.json", "profile.json", "count", "csv")}
    files["spec.json"].write_text(json.dumps(spec | {"count_file": str(files["count"])}))
    device = shlex.join([options.device, str(files["spec.json"])])
    command = [options.gpuinfer, "--target", spec["target"], "--device", f"exec:{device}", "--seed", str(options.seed)]
    command += ["--timeout", str(options.timeout), "--quiet", "--format", "json", "-o", str(files["profile.json"])]
    command += options.thorough
    verdict = Verdict(kind, number, spec)
    began = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    verdict.seconds = time.monotonic() - began
    # The device may outlive who asked it by a moment.
    counted = files["count"].read_text() if files["count"].exists() else ""
    verdict.accesses = int(counted or 0)
    if done.returncode not in (RESOLVED, UNRESOLVED):
        verdict.wrong["run"] = f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        return verdict
    profile = json.loads(files["profile.json"].read_text())
    tools = {"device": options.device, "gpuinfer": options.gpuinfer, "spec": str(files["spec.json"])}
    verdict.wrong, verdict.open_leaves = judge_unkind(profile, files["profile.json"], spec, tools, files["csv"], rng)
    verdict.rate_is_true = rate_is_told(profile, spec)
    return verdict


def identifiable(spec):
    return spec.get("identifiable", spec["truth"])


def report(verdicts, options):
    """Prints the totals; true when the bounds hold."""
    print(f"  {'':<16} {'devices':>7} {'wrong':>6} {'identifiable':>13} {'resolved':>9} {'share':>6} {'accesses':>10}  left open")
    totals = Counter()
    for kind in options.kinds:
        of_kind = [verdict for verdict in verdicts if verdict.kind == kind]
        leaves = [(verdict, leaf) for verdict in of_kind for leaf in identifiable(verdict.spec)]
        resolved = sum(leaf not in verdict.open_leaves and leaf not in verdict.wrong for verdict, leaf in leaves)
        wrong = sum(bool(verdict.wrong) for verdict in of_kind)
        left = Counter(leaf for verdict, leaf in leaves if leaf in verdict.open_leaves)
        accesses = sorted(verdict.accesses for verdict in of_kind)[len(of_kind) // 2]
        told = ", ".join(f"{leaf} {count}" for leaf, count in left.most_common())
        print(
            f"  {kind:<16} {len(of_kind):7} {wrong:6} {len(leaves):13} {resolved:9} {resolved / len(leaves):6.1%} "
            f"{accesses:10,}  {told}"
        )
        totals.update(devices=len(of_kind), wrong=wrong, leaves=len(leaves), resolved=resolved)
    share = totals["resolved"] / totals["leaves"]
    print(f"seed {options.seed}: {totals['devices']} devices, {totals['wrong']} with something wrong (must be 0)")
    print(f"leaves with a true value: {totals['leaves']}, resolved {share:.1%} (must be at least {options.resolved:.0%})")
    rates = [verdict.rate_is_true for verdict in verdicts if verdict.rate_is_true is not None]
    print(f"devices whose departures are described: {len(rates)}, by an interval that holds how often: {sum(rates)}")
    print(f"seconds: sum {sum(verdict.seconds for verdict in verdicts):.0f}, max {max(v.seconds for v in verdicts):.1f}")
    return totals["wrong"] == 0 and share >= options.resolved


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--device", required=True, help="the executable unkind_device")
    parser.add_argument("--each", type=int, default=10, help="devices of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=1, help="draws the devices, and seeds the inference")
    parser.add_argument("--kinds", nargs="+", choices=ALL_KINDS, default=ALL_KINDS, help="only these")
    parser.add_argument("--most-lines", type=int, default=256, help="in a drawn cache; few make quick devices")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that gpuinfer gets for a device")
    parser.add_argument("--resolved", type=float, default=0, help="least share of the leaves with a true value")
    parser.add_argument("--thorough", action="store_const", const=["--thorough"], default=[], help="as of gpuinfer")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the devices and profiles")
    return parser.parse_args()


def main():
    options = parse_arguments()
    cases = [(kind, number) for kind in options.kinds for number in range(options.first, options.first + options.each)]
    verdicts = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folder = options.keep.resolve() if options.keep else pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for verdict in pool.map(lambda case: run_device(options, *case, folder), cases):
            verdicts.append(verdict)
            if verdict.wrong:
                print(verdict, flush=True)
    return 0 if report(verdicts, options) else 1


if __name__ == "__main__":
    sys.exit(main())
