#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""host_test.py GPUINFER: what is resolved of this CPU is what the system and the CPU say of it.

A value that stays open is no failure: other programs share the core. A system that says nothing of its caches is no
judge of them, and a CPU that does not tell its TLB none of that; the test is passed over where nothing can be judged.
"""

import ctypes
import json
import mmap
import os
import pathlib
import platform
import subprocess
import sys

SECONDS = {"L1D": 9, "dTLB": 5, "L2": 3, "L3": 5}
SKIPPED = 77
PAGE_BYTES = 4096


def caches():
    """By level: line, ways, sets and bytes of what holds data, from sysfs, else of the first level from sysconf."""
    found = {}
    for index in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        read = lambda name: (index / name).read_text(encoding="ascii").strip()
        try:
            if read("type") in ("Data", "Unified"):
                line, ways, sets = (int(read(name)) for name in ("coherency_line_size", "ways_of_associativity", "number_of_sets"))
                found[int(read("level"))] = {"line": line, "ways": ways, "sets": sets, "bytes": line * ways * sets}
        except (OSError, ValueError):
            continue
    if not found:
        asked = [subprocess.run(["getconf", name], capture_output=True, text=True, check=False).stdout.strip()
                 for name in ("LEVEL1_DCACHE_SIZE", "LEVEL1_DCACHE_ASSOC", "LEVEL1_DCACHE_LINESIZE")]
        if all(text.isdigit() and int(text) > 0 for text in asked):
            size, ways, line = map(int, asked)
            found[1] = {"line": line, "ways": ways, "sets": size // ways // line, "bytes": size}
    return found


def cpuid(leaf, subleaf=0):
    """(eax, ebx, ecx, edx), or None where code cannot be run that was written here."""
    code = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    registers = (ctypes.c_uint32 * 4)()
    # rdx is used up by the instruction, so the place for the answer is kept in r8.
    ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)(leaf, subleaf, ctypes.addressof(registers))
    return tuple(registers)


def tlb_entries():
    """Entries of the first data TLB for pages of 4 KB, as the CPU has them; None where it does not say."""
    if platform.machine() not in ("x86_64", "AMD64") or cpuid(0) is None:
        return None
    highest, *vendor = cpuid(0)
    name = b"".join(vendor[i].to_bytes(4, "little") for i in (0, 2, 1))
    if name == b"AuthenticAMD" and cpuid(0x80000000)[0] >= 0x80000005:
        return cpuid(0x80000005)[1] >> 16 & 0xFF or None
    if name == b"GenuineIntel" and highest >= 0x18:
        for subleaf in range(cpuid(0x18)[0] + 1):
            _, ways, sets, kind = cpuid(0x18, subleaf)
            of_data = kind & 0x1F in (1, 4)  # for data, or for loads
            if of_data and kind >> 5 & 7 == 1 and ways & 1:
                return (ways >> 16) * sets
    return None


def ask(program, target):
    run = subprocess.run(
        [program, "--target", target, "--device", "host", "--timeout", str(SECONDS[target]), "--format", "json", "--quiet"],
        capture_output=True, text=True, timeout=60 + 10 * SECONDS[target], check=False,
    )
    if run.returncode == 4:
        print("skipped: " + run.stderr.strip())
        sys.exit(SKIPPED)
    if run.returncode not in (0, 3):
        sys.exit(f"{target}: ended with {run.returncode}: {run.stderr}")
    profile = json.loads(run.stdout)
    return profile["caches"][target], profile["evidence"][target]


def each_set(ways):
    """The ways of each set; many equal sets are written as their number and what each has."""
    return [ways["each"]] * ways["sets"] if isinstance(ways, dict) else ways


def judge(target, found, expected):
    found = {**found, "ways": each_set(found.get("ways"))}
    wrong = {leaf: found[leaf] for leaf in expected if found.get(leaf) not in (None, expected[leaf])}
    resolved = [leaf for leaf in expected if found.get(leaf) is not None]
    print(f"{target}: resolved: {', '.join(resolved) or 'nothing'}; wrong: {wrong or 'nothing'}; latency {found['latency_cycles']}")
    return not wrong


def main(program):
    said = caches()
    entries = tlb_entries()
    print(f"the system says {said}, the CPU {entries} entries of the TLB")
    if not said and entries is None:
        print("skipped: nothing says how this CPU is built")
        return SKIPPED
    right = True
    if 1 in said:
        first = said[1]
        right &= judge("L1D", ask(program, "L1D")[0], {
            "line_bytes": first["line"], "ways": [first["ways"]] * first["sets"], "capacity_bytes": first["bytes"], "onset_bytes": first["bytes"]})
    if entries is not None:
        right &= judge("dTLB", ask(program, "dTLB")[0], {
            "line_bytes": PAGE_BYTES, "capacity_bytes": entries * PAGE_BYTES, "onset_bytes": entries * PAGE_BYTES})
    for level in (2, 3):
        if level not in said:
            continue
        target = f"L{level}"
        found, evidence = ask(program, target)
        right &= judge(target, found, {"capacity_bytes": said[level]["bytes"]})
        # What fits may lie in the nearer levels as well, and others may hold most of a level, but none is larger than it is.
        interval = evidence["capacity_bytes"].get("interval_bytes")
        most = sum(said[nearer]["bytes"] for nearer in said if nearer <= level)
        if interval and interval[0] > most:
            print(f"{target}: {interval[0]} bytes are said to fit, and the system says {most}")
            right = False
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(os.fspath(sys.argv[1])))
