#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out random caches that it knows nothing of, and judges every leaf that it calls resolved.

A line for each device about which something is wrong or not resolved, totals at the end; exit status 1 when anything is
wrong or too few of the identifiable devices are fully resolved.
"""

import argparse
import itertools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from hidden_device import TARGET
from hidden_draw import CATEGORIES, MAX_LINES, NOISE_LEVELS, draw, unidentifiable
from hidden_judge import judge, stated_confidences, to_text, untrue_evidence

DEVICE = pathlib.Path(__file__).resolve().with_name("hidden_device.py")
CONFIDENCES = (0, 0.9, 0.99, 0.999, 1.001)  # bounds of the bins
GRACE_SECONDS = 60
RESOLVED, UNRESOLVED = 0, 3  # exit statuses of gpuinfer that come with a profile


@dataclass
class Verdict:
    number: int
    spec: dict
    unidentifiable: str | None
    wrong: dict = field(default_factory=dict)
    unresolved: dict = field(default_factory=dict)
    untrue: list = field(default_factory=list)  # said in the evidence of the policy
    confidences: dict = field(default_factory=dict)  # leaf: as stated
    accesses: int | None = None
    seconds: float = 0

    @property
    def policy(self):
        return self.spec["replacement"]["policy"]

    @property
    def fully_resolved(self):
        return not self.wrong and not self.unresolved

    def __str__(self):
        says = [f"WRONG {leaf} {problem}" for leaf, problem in self.wrong.items()]
        says += [f"UNTRUE {problem}" for problem in self.untrue]
        leaves = defaultdict(list)
        for leaf, status in self.unresolved.items():
            leaves[status].append(leaf)
        says += [f"{', '.join(of_status)} {status}" for status, of_status in leaves.items()]
        but = f" ({self.unidentifiable})" if self.unidentifiable else ""
        return f"device {self.number}{but}: {'; '.join(says)} | {summary(self.spec)}"


def summary(spec):
    """Short enough for a line; --keep keeps the whole."""
    index = dict(spec["index"])
    if index["kind"] == "table":
        index["sets_of"] = f"{len(index['sets_of'])} entries"
    ways = spec["ways"]
    shape = f"{len(ways)} x {ways[0]}" if len(set(ways)) == 1 else str(ways)
    noise = {name: value for name, value in spec["noise"].items() if value}
    policies = to_text(spec["replacement"])
    if "drift" in spec:
        drift = spec["drift"]
        policies += f", after {drift['after_accesses']} accesses {to_text(drift['replacement'])}"
    return (
        f"{shape} ways, line {spec['line_bytes']}, sector {spec['sector_bytes']}, {index}, {policies}, "
        f"buffer {spec['buffer_bytes']} at {spec['address_of_buffer']:#x}, {spec['latency_cycles']}, noise {noise}, "
        f"refuses {list(spec['refused_states'])}"
    )


def judge_run(verdict, status, stderr, profile_file, spec):
    if status not in (RESOLVED, UNRESOLVED):
        verdict.wrong["run"] = f"ended with {status}: {stderr.strip()[-300:]}"
        return
    try:
        profile = json.loads(profile_file.read_text())
        verdict.wrong, verdict.unresolved = judge(profile, TARGET, spec | {"accesses_asked": verdict.accesses})
        verdict.untrue = untrue_evidence(profile, TARGET, spec)
        verdict.confidences = stated_confidences(profile, TARGET)
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
    command += ["--timeout", str(options.timeout), "--quiet", "--format", "json", "-o", str(profile_file)]
    verdict = Verdict(number, spec, unidentifiable(spec))
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=options.timeout + GRACE_SECONDS,
            check=False,
        )
        verdict.seconds = time.monotonic() - began
        verdict.accesses = int(count_file.read_text()) if count_file.exists() else None
        judge_run(verdict, done.returncode, done.stderr, profile_file, spec)
    except subprocess.TimeoutExpired:
        verdict.seconds = time.monotonic() - began
        verdict.wrong["run"] = f"did not end {GRACE_SECONDS} s after its time was over"
    return verdict


def run_all(options, folder):
    rng = Random(options.seed)
    categories = {name: weight for name, weight in CATEGORIES.items() if options.category in (None, name)}
    specs = [draw(rng, categories, options.most_lines) | {"seed": rng.randrange(1 << 32)} for _ in range(options.count)]
    chosen = [options.only] if options.only is not None else range(options.first, options.count)
    chosen = [number for number in chosen if options.policy in (None, specs[number]["replacement"]["policy"])]
    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(lambda number: run_device(number, specs[number], options, folder), chosen):
            verdicts.append(verdict)
            if (not verdict.fully_resolved or verdict.untrue) and not options.calibration:
                print(verdict, flush=True)
    return verdicts


def share(part, whole):
    return f"{part / whole:6.1%}" if whole else "     -"


def report_group(name, verdicts):
    """A row: devices, leaves that are wrong, of the identifiable devices those that are fully resolved."""
    identifiable = [verdict for verdict in verdicts if not verdict.unidentifiable]
    resolved = sum(verdict.fully_resolved for verdict in identifiable)
    policies = sum("replacement" not in verdict.unresolved | verdict.wrong for verdict in identifiable)
    wrong = sum(len(verdict.wrong) for verdict in verdicts)
    print(
        f"  {name:<16} {len(verdicts):7} {wrong:6} {len(identifiable):13} {resolved:9} "
        f"{share(resolved, len(identifiable))} {share(policies, len(identifiable)):>12}"
    )


def report_groups(verdicts):
    head = f"{'devices':>7} {'wrong':>6} {'identifiable':>13} {'resolved':>9} {'share':>6} {'policy alone':>12}"
    print(f"  {'':<16} {head}")
    library = [verdict for verdict in verdicts if verdict.spec["category"] == "library"]
    for policy in sorted({verdict.policy for verdict in library}):
        report_group(policy, [verdict for verdict in library if verdict.policy == policy])
    for level in NOISE_LEVELS:
        report_group(f"noise {level}", [verdict for verdict in library if verdict.spec["noise_level"] == level])
    for category in CATEGORIES:
        if category != "library":
            of_category = [verdict for verdict in verdicts if verdict.spec["category"] == category]
            report_group(f"trap {category}", of_category)


def report_calibration(verdicts):
    """Whether of the leaves that are said to be right with some probability that share is right."""
    leaves = [
        (confidence, leaf in verdict.wrong) for verdict in verdicts for leaf, confidence in verdict.confidences.items()
    ]
    if not leaves:
        print("no leaf states a confidence")
        return
    print(f"  {'confidence':<14} {'leaves':>6} {'mean stated':>12} {'wrong':>6} {'share wrong':>12}")
    for low, high in itertools.pairwise(CONFIDENCES):
        stated = [(confidence, wrong) for confidence, wrong in leaves if low <= confidence < high]
        if stated:
            mean = statistics.mean(confidence for confidence, _ in stated)
            wrong = sum(wrong for _, wrong in stated)
            bin_name = f"{low} to {high}" if high <= 1 else f"{low} and more"
            print(f"  {bin_name:<14} {len(stated):6} {mean:12.6f} {wrong:6} {wrong / len(stated):12.4%}")


def report(verdicts, options):
    """Prints the totals; true when the bounds hold."""
    wrong = sum(len(verdict.wrong) for verdict in verdicts)
    identifiable = [verdict for verdict in verdicts if not verdict.unidentifiable]
    resolved = sum(verdict.fully_resolved for verdict in identifiable)
    share_resolved = resolved / len(identifiable) if identifiable else 1
    accesses = [verdict.accesses for verdict in verdicts if verdict.accesses is not None]
    of_lru = [verdict.accesses for verdict in identifiable if verdict.accesses is not None and verdict.policy == "lru"]
    seconds = [verdict.seconds for verdict in verdicts]
    report_groups(verdicts)
    report_calibration(verdicts)
    print(f"seed {options.seed}: {len(verdicts)} devices, {len(identifiable)} of them identifiable")
    print(f"wrong: {wrong} (must be 0)")
    print(f"untrue in the evidence of policies: {sum(len(verdict.untrue) for verdict in verdicts)}")
    print(f"identifiable and fully resolved: {resolved} = {share_resolved:.1%} (must be at least {options.resolved:.0%})")
    if accesses:
        lru = f", median of lru {statistics.median(of_lru):,.0f}" if of_lru else ""
        print(f"accesses asked: median {statistics.median(accesses):,.0f}{lru}, max {max(accesses):,}")
    if seconds:
        print(f"seconds: median {statistics.median(seconds):.2f}, max {max(seconds):.2f}, sum {sum(seconds):.0f}")
    return wrong == 0 and share_resolved >= options.resolved


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--count", type=int, default=200, help="how many devices")
    parser.add_argument("--first", type=int, default=0, help="the number of the first device to run")
    parser.add_argument("--seed", type=int, default=1, help="draws the devices")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that gpuinfer gets for a device")
    parser.add_argument("--resolved", type=float, default=0.98, help="least share of fully resolved devices")
    parser.add_argument("--only", type=int, help="the number of one device to run")
    parser.add_argument("--category", choices=CATEGORIES, help="draw only devices of this kind")
    parser.add_argument("--most-lines", type=int, default=MAX_LINES, help="in a cache; few make quick devices")
    parser.add_argument("--policy", help="run only the devices with this policy")
    parser.add_argument("--calibration", action="store_true", help="print only how sure the leaves are, and how right")
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
    if options.calibration:
        report_calibration(verdicts)
        return 0
    return 0 if report(verdicts, options) else 1


if __name__ == "__main__":
    sys.exit(main())
