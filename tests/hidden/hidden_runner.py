# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""What run_stores.py and run_hints.py have in common: random devices, each with leaves that come after all that loads
without anything besides show. A line for each device about which something is wrong or not resolved."""

import argparse
import json
import os
import pathlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from random import Random

from hidden_device import TARGET
from run_hidden import run_device


class Judged:
    """A device with what was found of its `leaves`. Subclasses say what is wrong about a value, and what is expected."""

    leaves = ()

    def __init__(self, number, spec, verdict, profile):
        self.number, self.spec, self.verdict = number, spec, verdict
        self.wrong = dict(verdict.wrong)
        self.wrong.pop("exit status", None)  # members that are left open count as well
        self.found, self.evidence = {}, {}
        for leaf in self.leaves if profile else ():
            found = self.found[leaf] = profile["caches"][TARGET].get(leaf)
            evidence = self.evidence[leaf] = profile["evidence"][TARGET].get(leaf, {"status": "absent"})
            if found is not None:
                self.wrong |= self.wrong_parts(leaf, found)
            if (evidence["status"] == "resolved") != (found is not None):
                self.wrong[leaf] = f"is {evidence['status']} and has the value {found}"

    def wrong_parts(self, leaf, found):
        """{what of a value is wrong: how}"""
        raise NotImplementedError

    def expected(self):
        """The leaves that should be resolved where all that loads show is."""
        return self.leaves

    def is_resolved(self, leaf):
        return self.evidence.get(leaf, {}).get("status") == "resolved"

    @property
    def open_leaves(self):
        return [leaf for leaf in self.expected() if not self.is_resolved(leaf)]

    @property
    def is_identifiable(self):
        return not self.verdict.unidentifiable

    @property
    def is_known_besides(self):
        """Before what loads do is known nothing is said of these leaves."""
        return self.is_identifiable and not self.verdict.unresolved

    def __str__(self):
        says = [f"WRONG {leaf} {problem}" for leaf, problem in self.wrong.items()]
        for leaf in self.open_leaves:
            evidence = self.evidence.get(leaf, {})
            says.append(f"{leaf} {evidence.get('status')}: {evidence.get('reason')}")
        but = f" ({self.verdict.unidentifiable})" if self.verdict.unidentifiable else ""
        spec = {name: value for name, value in self.spec.items() if name not in ("index",)}
        return f"device {self.number}{but}: {'; '.join(says)} | {spec}"


def parse_arguments(description, leaves):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the executable")
    parser.add_argument("--count", type=int, default=40, help="how many devices")
    parser.add_argument("--seed", type=int, help="draws the devices; by default another one each time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="devices at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that gpuinfer gets for a device")
    parser.add_argument("--resolved", type=float, default=0.95, help=f"least share with {leaves} resolved")
    parser.add_argument("--only", type=int, help="the number of one device to run")
    parser.add_argument("--most-lines", type=int, default=256, help="in a cache; few make quick devices")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the devices and profiles")
    return parser.parse_args()


def run_all(options, draw, judged_as):
    """All devices, drawn by draw(rng, most_lines) and judged."""
    options.seed = Random().randrange(1 << 31) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    rng = Random(options.seed)
    specs = [draw(rng, options.most_lines) for _ in range(options.count)]
    chosen = range(options.count) if options.only is None else [options.only]

    def run(number):
        verdict = run_device(number, specs[number], options, folder)
        file = folder / f"{number}.profile.json"
        return judged_as(number, specs[number], verdict, json.loads(file.read_text()) if file.exists() else None)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep.resolve() if options.keep else pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        all_judged = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for judged in pool.map(run, chosen):
                all_judged.append(judged)
                if judged.wrong or judged.open_leaves:
                    print(judged, flush=True)
    return all_judged
