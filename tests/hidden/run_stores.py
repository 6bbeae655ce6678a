#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out what stores do to random caches that it knows nothing of, and judges what it says of that.

A line for each device about which something is wrong or not resolved, totals at the end; exit status 1 when anything is
wrong or too few of the identifiable devices have `store` resolved.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from random import Random

from hidden_device import TARGET
from hidden_draw import draw
from run_hidden import run_device

FAMILIES = ("through, passing", "through, allocating", "back, passing", "back, allocating", "back, cleaned")
CLEANED_WAYS = range(4, 33)  # sets of more ways are not asked for it


def draw_rule(rng, spec, family):
    """Where stores allocate, half fetch and half leave masks."""
    is_cleaned = family.endswith("cleaned")
    write, allocates = family.split(", ")[0], is_cleaned or family.endswith("allocating")
    rule = {"allocate": allocates, "write": write, "touches": rng.random() < 0.5}
    # A line that goes, and never came for what was stored, is not written back.
    rule["evicts"] = rng.random() < 0.1 and (allocates or write == "through")
    if allocates:
        line, sector = spec["line_bytes"], spec["sector_bytes"]
        rule["fetches"] = rng.random() < 0.5
        if rule["fetches"]:
            sizes = [sector << more for more in range(7) if line % (sector << more) == 0]
        else:
            sizes = [4 << more for more in range(12) if sector % (4 << more) == 0]
        rule["granule_bytes"] = rng.choice(sizes)
    if is_cleaned:
        rule |= {"touches": True, "evicts": False}
        ways = min(spec["ways"])
        shows_partial = not rule["fetches"] and rule["granule_bytes"] > 4
        rule["cleaning"] = {
            # Where few may be dirty, an oldest line hardly ever is, which is all that shows.
            "dirty_lines": rng.randint(max(2, ways // 3), max(2, ways // 2)),
            "partial_lines": rng.randint(1, ways // 2) if shows_partial else 1,
        }
    return rule


def draw_storing(rng, most_lines):
    """A cache of the library, with chance or without, of which all that loads show can be told."""
    family = rng.choice(FAMILIES)
    while True:
        spec = draw(rng, {"library": 1}, most_lines)
        is_cleaned = family.endswith("cleaned")
        if spec["sector_bytes"] % 4 == 0 and (not is_cleaned or all(ways in CLEANED_WAYS for ways in spec["ways"])):
            break
    rule = draw_rule(rng, spec, family)
    if "cleaning" in rule:
        spec["replacement"] = {"policy": "lru"}
    latency = spec["latency_cycles"]
    if rule["write"] == "back" and rng.random() < 0.8:
        jitter = spec["noise"]["jitter_cycles"]
        latency["dirty_miss"] = latency["miss"] + rng.randint(round(8 + 2 * jitter), round(60 + 4 * jitter))
    return spec | {"store": rule, "family": family, "seed": rng.randrange(1 << 32)}


def wrong_members(found, spec):
    """Members that have a value, and another one than the cache."""
    rule = spec["store"]
    true = {"allocate": rule["allocate"], "write": rule["write"], "evicts": rule["evicts"]}
    if not rule["evicts"]:
        true["touches"] = rule["touches"]
    if rule["allocate"]:
        true |= {"fetches": rule["fetches"], "granule_bytes": rule["granule_bytes"]}
    if "cleaning" in rule:
        true["cleaning"] = rule["cleaning"]
    known = {name: value for name, value in found.items() if value is not None} | {"evicts": found.get("evicts", False)}
    return {name: f"{value} instead of {true.get(name)}" for name, value in known.items() if value != true.get(name)}


class Judged:
    def __init__(self, number, spec, verdict, profile):
        self.number, self.spec, self.verdict = number, spec, verdict
        self.wrong, self.evidence, self.found = dict(verdict.wrong), {}, None
        self.wrong.pop("exit status", None)  # members that are left open count as well
        if profile:
            self.found = profile["caches"][TARGET].get("store")
            self.evidence = profile["evidence"][TARGET].get("store", {"status": "absent"})
            if self.found is not None:
                self.wrong |= {f"store.{name}": says for name, says in wrong_members(self.found, spec).items()}
            if (self.evidence["status"] == "resolved") != (self.found is not None):
                self.wrong["store"] = f"is {self.evidence['status']} and has the value {self.found}"

    @property
    def is_resolved(self):
        return self.evidence.get("status") == "resolved"

    @property
    def is_identifiable(self):
        return not self.verdict.unidentifiable

    def __str__(self):
        says = [f"WRONG {leaf} {problem}" for leaf, problem in self.wrong.items()]
        if not self.is_resolved:
            says.append(f"store {self.evidence.get('status')}: {self.evidence.get('reason')}")
        but = f" ({self.verdict.unidentifiable})" if self.verdict.unidentifiable else ""
        spec = {name: value for name, value in self.spec.items() if name not in ("index",)}
        return f"device {self.number}{but}: {'; '.join(says)} | {spec}"


def run(number, spec, options, folder):
    verdict = run_device(number, spec, options, folder)
    file = folder / f"{number}.profile.json"
    return Judged(number, spec, verdict, json.loads(file.read_text()) if file.exists() else None)


def report(all_judged, options):
    rows = defaultdict(list)
    for judged in all_judged:
        rows[judged.spec["family"]].append(judged)
    print(f"  {'':<20} {'devices':>7} {'wrong':>6} {'identifiable':>13} {'resolved':>9} {'of the policy':>14}")
    for family in FAMILIES:
        identifiable = [judged for judged in rows[family] if judged.is_identifiable]
        policies = sum("replacement" not in judged.verdict.unresolved for judged in identifiable)
        print(
            f"  {family:<20} {len(rows[family]):7} {sum(len(judged.wrong) for judged in rows[family]):6} "
            f"{len(identifiable):13} {sum(judged.is_resolved for judged in identifiable):9} {policies:14}"
        )
    wrong = sum(len(judged.wrong) for judged in all_judged)
    # Before what loads do is known nothing is said of stores.
    identifiable = [judged for judged in all_judged if judged.is_identifiable and not judged.verdict.unresolved]
    resolved = sum(judged.is_resolved for judged in identifiable)
    share = resolved / len(identifiable) if identifiable else 1
    slow = [judged for judged in identifiable if "dirty_miss" in judged.spec["latency_cycles"] and judged.is_resolved]
    told = sum(judged.found["write"] == "back" for judged in slow)
    print(f"seed {options.seed}: {len(all_judged)} devices, of {len(identifiable)} all that loads show is resolved")
    print(f"wrong: {wrong} (must be 0)")
    print(f"with `store` resolved: {resolved} = {share:.1%} (must be at least {options.resolved:.0%})")
    print(f"written back so that loads wait: {len(slow)}, {told} of them told")
    return wrong == 0 and share >= options.resolved


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--count", type=int, default=40, help="how many devices")
    parser.add_argument("--seed", type=int, help="draws the devices; by default another one each time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that gpuinfer gets for a device")
    parser.add_argument("--resolved", type=float, default=0.95, help="least share of devices with `store` resolved")
    parser.add_argument("--only", type=int, help="the number of one device to run")
    parser.add_argument("--most-lines", type=int, default=256, help="in a cache; few make quick devices")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the devices and profiles")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.seed = Random().randrange(1 << 31) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    rng = Random(options.seed)
    specs = [draw_storing(rng, options.most_lines) for _ in range(options.count)]
    chosen = range(options.count) if options.only is None else [options.only]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep.resolve() if options.keep else pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        all_judged = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for judged in pool.map(lambda number: run(number, specs[number], options, folder), chosen):
                all_judged.append(judged)
                if judged.wrong or not judged.is_resolved:
                    print(judged, flush=True)
    return 0 if report(all_judged, options) else 1


if __name__ == "__main__":
    sys.exit(main())
