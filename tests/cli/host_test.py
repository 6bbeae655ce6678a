#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""host_test.py GPUINFER: what is resolved of this CPU's L1D is what the system says of it.

A value that stays open is no failure: other programs share the core. A system that says nothing of its caches is no
judge, and the test is passed over.
"""

import json
import os
import pathlib
import subprocess
import sys

SECONDS = 8
SKIPPED = 77


def from_sysfs():
    for index in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        read = lambda name: (index / name).read_text(encoding="ascii").strip()
        try:
            if read("level") == "1" and read("type") == "Data":
                return {"line_bytes": int(read("coherency_line_size")), "ways": int(read("ways_of_associativity")), "sets": int(read("number_of_sets"))}
        except (OSError, ValueError):
            continue
    return None


def from_sysconf():
    sizes = []
    for name in ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL1_DCACHE_ASSOC", "SC_LEVEL1_DCACHE_LINESIZE"):
        asked = subprocess.run(["getconf", name.removeprefix("SC_")], capture_output=True, text=True, check=False)
        text = asked.stdout.strip()
        sizes.append(int(text) if text.isdigit() else 0)
    if min(sizes) == 0:
        return None
    capacity, ways, line = sizes
    return {"line_bytes": line, "ways": ways, "sets": capacity // ways // line}


def main(program):
    truth = from_sysfs() or from_sysconf()
    if truth is None:
        print("skipped: the system does not say how its L1D is built")
        return SKIPPED
    run = subprocess.run(
        [program, "--target", "L1D", "--device", "host", "--timeout", str(SECONDS), "--format", "json", "--quiet"],
        capture_output=True, text=True, timeout=10 * SECONDS, check=False,
    )
    if run.returncode == 4:
        print("skipped: " + run.stderr.strip())
        return SKIPPED
    if run.returncode not in (0, 3):
        print(f"ended with {run.returncode}: {run.stderr}")
        return 1
    found = json.loads(run.stdout)["caches"]["L1D"]
    expected = {
        "line_bytes": truth["line_bytes"],
        "ways": [truth["ways"]] * truth["sets"],
        "capacity_bytes": truth["line_bytes"] * truth["ways"] * truth["sets"],
        "onset_bytes": truth["line_bytes"] * truth["ways"] * truth["sets"],
    }
    wrong = {leaf: found[leaf] for leaf in expected if found.get(leaf) not in (None, expected[leaf])}
    resolved = [leaf for leaf in expected if found.get(leaf) is not None]
    print(f"the system says {truth}; resolved: {', '.join(resolved) or 'nothing'}; wrong: {wrong or 'nothing'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(os.fspath(sys.argv[1])))
