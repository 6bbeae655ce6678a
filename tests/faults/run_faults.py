#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer ask devices that fail, each fault once (--each) or many at random (--count N), and judges what comes of it.

Every run has to end in time with status 0, 1 or 3 and one sentence to each line of stderr; what it calls resolved has to
be right; what it kept has to be gone on with once the device is well. Exit status 1 when anything is not so.
"""

import argparse
import json
import math
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hidden"))
from faulty_process import FAULTS
from hidden_judge import judge

TARGET = "L1tex"
PROCESS = HERE / "faulty_process.py"
DEVICE_FAULTS = ("lost", "out_of_memory", "kernel_timeout", "ecc_error", "clock_change", "tenant", "wrong_count")
DISTURBING = ("clock_change", "tenant")
SILENT = ("hangs", "greets_not")
LONGEST_SECONDS = 120
RESOLVED, FAILURE, UNRESOLVED, NO_DEVICE = 0, 1, 3, 4


def draw_spec(rng):
    """A small cache, as hidden_device.py takes it."""
    line = rng.choice((32, 64, 128))
    sets, ways = rng.choice((1, 2, 4)), rng.choice((2, 3, 4))
    lowest = line.bit_length() - 1 + rng.randint(0, 2)
    hit = rng.randint(20, 60)
    policies = [{"policy": name} for name in ("lru", "fifo", "random", *(("plru",) if ways != 3 else ()))]
    return {
        "line_bytes": line,
        "sector_bytes": rng.choice((line, max(32, line // 2))),
        "ways": [ways] * sets,
        "index": {"kind": "bits", "bits": list(range(lowest, lowest + sets.bit_length() - 1))},
        "replacement": rng.choice(policies),
        "latency_cycles": {"hit": hit, "miss": hit + rng.randint(100, 300)},
        "noise": {
            "jitter_cycles": rng.choice((0, 1, 3)),
            "outlier_probability": 0,
            "outlier_cycles": 0,
            "misread_probability": rng.choice((0, 0, 0.001)),
        },
        "buffer_bytes": 1 << 18,
        "address_of_buffer": 0,
        "refused_states": [],
        "seed": rng.randrange(1 << 30),
    }


def description_of(spec):
    cache = {
        "capacity_bytes": sum(spec["ways"]) * spec["line_bytes"],
        **{key: spec[key] for key in ("line_bytes", "sector_bytes", "ways", "index", "replacement", "latency_cycles")},
    }
    return json.dumps({"schema": "gpuinfer/1", "device": {"name": "Faulty", "source": "test"}, "caches": {TARGET: cache}, "noise": spec["noise"]})


class Run:
    """A device that fails, the run that asks it, and the one that goes on."""

    def __init__(self, number, kind, faults, spec, folder, options):
        self.number, self.kind, self.faults, self.spec, self.options = number, kind, faults, spec, options
        self.folder = folder / str(number)
        self.folder.mkdir()
        self.problems = []
        self.status = self.resumed_status = None
        self.leaves = self.resumed_leaves = 0
        self.restarted = False

    def device(self, healed):
        """What --device is given; as the resumed run has it, only with what changes answers, which are asked again."""
        if self.kind == "virtual":
            stays = (*DISTURBING, "random")
            faults = [fault for fault in self.faults if not healed or fault.split("@")[0] in stays]
            plain = f"virtual:{self.folder / 'device.yaml'}"
            return f"faulty:{','.join(faults)}:{plain}" if faults else plain
        process = [sys.executable, str(PROCESS), "spec.json", *self.faults]
        return f"exec:{shlex.join(process)}"

    def patience(self):
        """Long enough for a process on a machine with other work."""
        return "4" if self.kind == "exec" and self.faults[0] in SILENT else "30"

    def prepare(self):
        if self.kind == "virtual":
            self.spec["buffer_bytes"] = 64 << 20
            (self.folder / "device.yaml").write_text(description_of(self.spec))
        (self.folder / "spec.json").write_text(json.dumps(self.spec))

    def ask(self, healed):
        keeping = "--resume" if healed else "--record"
        command = [self.options.gpuinfer, "--target", TARGET, "--device", self.device(healed), keeping, "run.h5"]
        command += ["--timeout", "60", "--patience", self.patience(), "--quiet", "--format", "json", "-o", "profile.json"]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            self.problems.append(f"did not end within {LONGEST_SECONDS} s")
            return None
        self.seconds = time.monotonic() - began
        self.judge(done, healed)
        return done.returncode

    def judge(self, done, healed):
        again = "resumed: " if healed else ""
        allowed = [RESOLVED, UNRESOLVED, FAILURE] + [NO_DEVICE] * self.kind_is_not_greeted()
        if healed and "was begun with device `hidden`, and this run has `another`" in done.stderr:
            return  # what has become another device is not to be gone on with
        if done.returncode not in allowed:
            self.problems.append(f"{again}ended with {done.returncode}: {done.stderr[-500:]}")
            return
        if not all(line.startswith("gpuinfer: ") for line in done.stderr.splitlines()):
            self.problems.append(f"{again}stderr: {done.stderr[-500:]}")
        file = self.folder / "profile.json"
        if done.returncode in (FAILURE, NO_DEVICE):
            if not done.stderr or file.exists():
                self.problems.append(f"{again}failed without a word or with a profile")
            return
        profile = json.loads(file.read_text())
        file.unlink()
        wrong, unresolved = judge(profile, TARGET, self.spec)
        for leaf, problem in wrong.items():
            self.problems.append(f"{again}WRONG {leaf}: {problem}")
        if (done.returncode == RESOLVED) != (not unresolved):
            self.problems.append(f"{again}ended with {done.returncode} and open leaves {unresolved}")
        for leaf, why in unresolved.items():
            if len(why.split(": ", 1)[1]) < 10:
                self.problems.append(f"{again}{leaf} is open without a reason")
        setattr(self, "resumed_leaves" if healed else "leaves", 7 - len(unresolved))

    def kind_is_not_greeted(self):
        return self.kind == "exec" and self.faults[0].startswith("greets")

    def carry_out(self):
        self.prepare()
        self.status = self.ask(healed=False)
        kept = (self.folder / "run.h5.journal").exists()
        self.restarted = self.kind == "exec" and (self.folder / "healed").exists()
        if kept and not self.problems:
            (self.folder / "healed").touch()
            self.resumed_status = self.ask(healed=True)
            if self.resumed_status == FAILURE and not any("random@" in fault for fault in self.faults):
                self.problems.append("resumed: failed though the device is well")
        return self

    @property
    def label(self):
        if self.kind == "exec":
            once = " once" if len(self.faults) > 3 else ""
            return f"process {self.faults[0]}{once}"
        return "device " + "+".join(sorted({fault.split("@")[0] for fault in self.faults}))[:60]

    def __str__(self):
        return f"run {self.number} ({self.kind} {self.faults}): {'; '.join(self.problems)}"


def each_fault(rng):
    """Every fault at an early and a later question; transient ones for a short and a long time."""
    for kind in DEVICE_FAULTS:
        for at in (rng.randint(0, 60), rng.randint(100, 500)):
            yield "virtual", [f"{kind}@{at}"]
    for kind in ("out_of_memory", "kernel_timeout", "wrong_count"):
        yield "virtual", [f"{kind}@{rng.randint(0, 300)}x9"]
    for fault in FAULTS:
        once = ["once"] if rng.random() < 0.5 else []
        if fault == "changes_into_another":
            once = ["once", "another"]
        yield "exec", [fault, str(rng.randint(0, 400)), "healed", *once]


def at_random(rng, count):
    for _ in range(count):
        if rng.random() < 0.6:
            faults = [
                f"{rng.choice(DEVICE_FAULTS)}@{int(rng.expovariate(1 / 400))}" + rng.choice(("", "", f"x{rng.randint(1, 1000)}"))
                for _ in range(rng.choice((1, 1, 1, 2, 3)))
            ]
            yield "virtual", faults if rng.random() < 0.8 else [f"random@{rng.randrange(1 << 20)}x{rng.choice((100, 500, 2000))}"]
        else:
            once = ["once"] if rng.random() < 0.5 else []
            yield "exec", [rng.choice(FAULTS[:-1]), str(int(rng.expovariate(1 / 300))), "healed", *once]


def report(runs):
    table = defaultdict(Counter)
    leaves = defaultdict(list)
    for run in runs:
        table[run.label][f"{run.status}>{'-' if run.resumed_status is None else run.resumed_status}"] += 1
        leaves[run.label].append((run.leaves, run.resumed_leaves))
    for label in sorted(table):
        first = sum(one for one, _ in leaves[label]) / len(leaves[label])
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(table[label].items()))
        print(f"{label:62} {first:4.1f} of 7 leaves resolved; status>resumed {statuses}")
    totals = Counter((run.status, run.leaves) for run in runs)
    print("status, resolved leaves: runs  ", ", ".join(f"{key}: {count}" for key, count in sorted(totals.items(), key=str)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpuinfer", required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of runs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("GPUINFER_TEST_SEED", random.SystemRandom().randrange(1 << 32))))
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after so many")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(exist_ok=True)
        drawn = each_fault(rng) if options.each else at_random(rng, options.count)
        runs = []
        for number, (kind, faults) in enumerate(drawn):
            spec = draw_spec(random.Random(f"{options.seed} {number}"))
            if options.only is None or number in options.only:
                runs.append(Run(number, kind, faults, spec, folder, options))
        in_time = lambda run: run.carry_out() if time.monotonic() - began < options.seconds else None
        done = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for run in filter(None, pool.map(in_time, runs)):
                done.append(run)
                if run.problems:
                    print(run, flush=True)
    report(done)
    bad = sum(bool(run.problems) for run in done)
    print(f"{len(done)} runs, {bad} with problems, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
