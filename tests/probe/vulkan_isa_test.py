#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what drivers make of the Vulkan probe to what its source promises: clock, load, clock, in this order.

usage: vulkan_isa_test.py VULKAN_PIPELINES     (exit status 77: skipped)

The machine code is that of AMD's GPUs, which RADV of Mesa compiles for a GPU that is not there. In every shader that
plays accesses: two clocks; between them the one load of the path, or none where nothing is timed; the address waits for
the first clock, and the second clock for the loaded value.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SKIPPED = 77
DRIVERS = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("radeon_icd*.json"))
# GCN 4, GCN 5, the same for data centres, RDNA 1, RDNA 2 and RDNA 3.
FAMILIES = ("POLARIS10", "VEGA10", "VEGA20", "NAVI10", "NAVI21", "GFX1100")
# In the order in which the pipelines are made, after all others: each with its load and without.
LOADS = (
    ("global", r"(global|flat)_load_(dword|b32) (?!.*\bglc\b)"),
    ("past L1", r"(global|flat)_load_(dword|b32) .*\bglc\b"),
    ("constant", r"s_buffer_load_(dword|b32) "),
    ("texel", r"buffer_load_format_x "),
    ("texel 2D", r"image_load "),
)

CLOCK = re.compile(r"s_memtime |s_getreg_b32 .*SHADER_CYCLES")
LOAD = re.compile(r"(global|flat|buffer|image|scratch)_|s_buffer_load")
WAITS_FOR_VALUE = re.compile(r"s_waitcnt .*vmcnt\(0\)")
WAITS_FOR_SCALAR = re.compile(r"s_waitcnt .*lgkmcnt\(0\)")
WAITS_FOR_CLOCK = WAITS_FOR_SCALAR


def faults(code, load):
    """Yields a sentence for each promise that `code`, a list of instructions, breaks. `load`: None where it has none."""
    clocks = [i for i, each in enumerate(code) if CLOCK.match(each)]
    if len(clocks) != 2:
        yield f"reads the clock {len(clocks)} times instead of twice"
        return
    timed = code[clocks[0] + 1 : clocks[1]]
    loads = [i for i, each in enumerate(timed) if LOAD.match(each)]
    if load is None:
        if loads:
            yield f"loads with {timed[loads[0]]} where nothing is timed"
        return
    if len(loads) != 1 or not re.match(load, timed[loads[0]]):
        yield f"does {[timed[i] for i in loads]} between the clocks instead of one {load}"
        return
    before, after = timed[: loads[0]], timed[loads[0] + 1 :]
    if code[clocks[0]].startswith("s_memtime") and not any(WAITS_FOR_CLOCK.match(each) for each in before):
        yield "loads before the first clock was read"
    waits = WAITS_FOR_SCALAR if timed[loads[0]].startswith("s_") else WAITS_FOR_VALUE
    if not any(waits.match(each) for each in after):
        yield "reads the second clock before the value is there"


def shaders(text):
    """Yields the instructions of each shader."""
    for part in re.split(r"^disasm:\n", text, flags=re.MULTILINE)[1:]:
        lines = re.split(r"^shader: ", part, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
        yield [re.sub(r"\s*;.*", "", line).strip() for line in lines if line.startswith("\t")]


class Order(unittest.TestCase):
    pipelines = ""

    def compiled(self, family):
        driver = str(DRIVERS[0])
        # The driver leaks a little, in libraries that are closed again and so have no name to except them by.
        leaks = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        environment = os.environ | leaks | {"RADV_FORCE_FAMILY": family, "RADV_DEBUG": "shaders,nocache",
                                            "VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver}
        done = subprocess.run([self.pipelines], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(family, done.stdout)
        return list(shaders(done.stderr))

    def test_clock_load_clock(self):
        for family in FAMILIES:
            code = self.compiled(family)
            self.assertGreaterEqual(len(code), 2 * len(LOADS), family)
            code = code[-2 * len(LOADS) :]
            for number, (path, load) in enumerate(LOADS):
                for nothing in (False, True):
                    with self.subTest(family=family, path=path, nothing=nothing):
                        self.assertEqual(list(faults(code[2 * number + nothing], None if nothing else load)), [])


class Checker(unittest.TestCase):
    """A checker that finds nothing must have looked."""

    RIGHT = ["s_memtime s[20:21]", "s_waitcnt lgkmcnt(0)", "s_and_b32 s6, s20, s12", "global_load_dword v4, v[12:13], off",
             "s_waitcnt vmcnt(0)", "ds_write_b32 v7, v4", "s_memtime s[22:23]"]

    def assert_found(self, words, code):
        self.assertIn(words, " ".join(faults(code, LOADS[0][1])))

    def test_right_code_passes(self):
        self.assertEqual(list(faults(self.RIGHT, LOADS[0][1])), [])

    def test_wrong_code_is_found(self):
        without = lambda line: [each for each in self.RIGHT if each != line]
        self.assert_found("second clock before the value", without("s_waitcnt vmcnt(0)"))
        self.assert_found("before the first clock", without("s_waitcnt lgkmcnt(0)"))
        self.assert_found("instead of one", without("global_load_dword v4, v[12:13], off"))
        self.assert_found("instead of one", [each + " glc" if "load" in each else each for each in self.RIGHT])
        self.assert_found("1 times", self.RIGHT[1:])
        scalar = [each.replace("global_load_dword v4, v[12:13], off", "s_buffer_load_dword s4, s[12:15], s6") for each in self.RIGHT]
        self.assertIn("second clock before the value", " ".join(faults(scalar, LOADS[2][1])))
        self.assertEqual(list(faults([each.replace("vmcnt", "lgkmcnt") for each in scalar], LOADS[2][1])), [])
        self.assertIn("nothing is timed", " ".join(faults(self.RIGHT, None)))


if __name__ == "__main__":
    if not DRIVERS:
        sys.exit(SKIPPED)
    Order.pipelines = sys.argv.pop(1)
    unittest.main()
