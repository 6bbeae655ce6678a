#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""scale.py --gpuinfer FILE: seconds and memory of `infer` on recordings of ten million loads.

The recordings are made here, on a simulated cache of 16 KB (32 sets of 4 lines of 128 bytes, fills of 32 bytes, LRU)
and, where there are more lines, on one of 1 MB (1,024 sets of 8, LRU) whose index XORs address bits, with the noise of
a timer.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import h5py
import numpy

SMALL = """
schema: gpuinfer/1
device: {name: Scale, source: test}
caches:
  L1tex:
    capacity_bytes: 16384
    line_bytes: 128
    sector_bytes: 32
    ways: [WAYS]
    index: {kind: bits, bits: [7, 8, 9, 10, 11]}
    replacement: {policy: lru}
    latency_cycles: {hit: 33, miss: 220}
noise: {jitter_cycles: 3, outlier_probability: 0.001, outlier_cycles: 400}
""".replace("WAYS", ", ".join(32 * ["4"]))

LARGE = """
schema: gpuinfer/1
device: {name: Scale, source: test}
caches:
  L1tex:
    capacity_bytes: 1048576
    line_bytes: 128
    sector_bytes: 128
    ways: [WAYS]
    index: {kind: xor, rows: [ROWS], constant: 0}
    replacement: {policy: lru}
    latency_cycles: {hit: 200, miss: 600}
noise: {jitter_cycles: 3, outlier_probability: 0.001, outlier_cycles: 400, misread_probability: 0.0001}
""".replace("WAYS", ", ".join(1024 * ["8"])).replace("ROWS", ", ".join(f"[{7 + i}, {17 + i}]" for i in range(10)))


class Scale:
    def __init__(self, gpuinfer, folder, accesses):
        self.gpuinfer, self.folder, self.accesses = gpuinfer, folder, accesses
        (folder / "small.yaml").write_text(SMALL)
        (folder / "large.yaml").write_text(LARGE)

    def probe(self, device, *arguments, name):
        command = [self.gpuinfer, "probe", "--target=L1tex", f"--device=virtual:{device}.yaml", *arguments, f"--record={name}"]
        subprocess.run(command, cwd=self.folder, check=True)

    def one_walk(self, name, stride):
        self.probe("small", f"--sequence=random:48K,{stride},{self.accesses}", name=name)

    def laps(self, name):
        laps = self.accesses // (17 * 1024 // 32)
        self.probe("small", "--warm=cyclic:17K,32", f"--sequence=cyclic:17K,32,{laps}", name=name)

    def many_walks(self, name, count):
        """As many questions in one archive, for the device to answer."""
        self.probe("small", "--sequence=random:48K,32,4", name="form.h5")
        shutil.copy(self.folder / "form.h5", self.folder / "asked.h5")
        accesses = self.accesses // count
        draw = numpy.random.default_rng(1)
        with h5py.File(self.folder / "asked.h5", "r+") as file:
            group = file["launch_000000"]
            form = {key: group[key][:] for key in group}
            for key in form:
                del group[key]
            question = numpy.zeros(count, form["question"].dtype)
            question["record_begin"] = question["latency_begin"] = numpy.arange(count) * accesses
            question["record_end"] = question["record_begin"] + accesses
            group["question"] = question
            for key in ("target", "state"):
                group[key] = numpy.repeat(form[key][:1], count)
            group["offset"] = (32 * draw.integers(0, 1536, count * accesses)).astype("uint32")
            group["latency_cycles"] = numpy.ones(count * accesses, "uint16")
        self.probe("small", "--sequence=archive:asked.h5", name=name)

    def large_walk(self, name):
        self.probe("large", f"--sequence=random:3M,128,{self.accesses}", name=name)

    def infer(self, name, jobs):
        """Wall and CPU seconds, peak MB, and the leaves that are resolved."""
        command = [self.gpuinfer, "infer", name, "--quiet", f"--jobs={jobs}", "-o", "profile.yaml"]
        begin = time.monotonic()
        child = subprocess.Popen(command, cwd=self.folder)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        resolved = (self.folder / "profile.yaml").read_text().count("status: resolved")
        return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, resolved


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuinfer", required=True, help="the program")
    parser.add_argument("--accesses", type=int, default=10_000_000, help="loads in each recording")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, os.cpu_count()], help="threads")
    parser.add_argument("--only", nargs="*", help="names of recordings")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scale = Scale(str(pathlib.Path(options.gpuinfer).resolve()), pathlib.Path(scratch), options.accesses)
        shapes = {
            "walk-128.h5": ("one walk in steps of 128 bytes", lambda name: scale.one_walk(name, 128)),
            "walk-32.h5": ("one walk in steps of 32 bytes", lambda name: scale.one_walk(name, 32)),
            "walks.h5": ("1,000 walks in steps of 32 bytes", lambda name: scale.many_walks(name, 1000)),
            "laps.h5": ("laps over 17 KB", scale.laps),
            "large.h5": ("one walk over 24,576 lines", scale.large_walk),
        }
        print("| recording | threads | seconds | CPU seconds | peak MB | resolved |")
        print("|---|---|---|---|---|---|")
        for name, (what, make) in shapes.items():
            if options.only and name not in options.only:
                continue
            make(name)
            for jobs in dict.fromkeys(options.jobs):
                seconds, cpu_seconds, peak_mb, resolved = scale.infer(name, jobs)
                print(f"| {what} | {jobs} | {seconds:.1f} | {cpu_seconds:.1f} | {peak_mb:.0f} | {resolved} |", flush=True)
            (scale.folder / name).unlink()


if __name__ == "__main__":
    main()
