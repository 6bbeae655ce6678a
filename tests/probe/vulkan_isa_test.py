#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what drivers make of the Vulkan probe to what its source promises: clock, load, clock, in this order.

usage: vulkan_isa_test.py VULKAN_PIPELINES     (exit status 77: skipped)

The machine code is that of AMD's GPUs, which RADV of Mesa compiles for a GPU that is not there, and of Intel's, for
which ANV needs the stand-in of a kernel driver that Mesa's sources have as a tool: where GPUINFER_INTEL_SHIM names that
library (libintel_noop_drm_shim.so). In every shader that plays accesses: two clocks; between them the one load of the
path, or none where nothing is timed; the address waits for the first clock, and the second clock for the loaded value.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import intel_isa

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

INTEL_SHIM = os.environ.get("GPUINFER_INTEL_SHIM")
INTEL_DRIVERS = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("intel*_icd*.json"))
# The load of each path, in the same order. Uniform buffers are loaded by the sampler before Gen12, and then by the data
# port, as all global addresses are. `coherent` changes nothing but on DG2 with newer drivers. Surfaces 253 and 254 are
# the addresses themselves and shared memory.
SAMPLER = r"sampler MsgDesc: ld(_lz)? "
DATA_PORT = r"dp data 1 MsgDesc: \(DC A64 untyped surface read,"
DATA_PORT_BUFFER = r"dp data 1 MsgDesc: \(untyped surface read, Surface = (?!253|254)"
GEN8 = (DATA_PORT, DATA_PORT, SAMPLER, SAMPLER, SAMPLER)
GEN12 = (DATA_PORT, DATA_PORT, DATA_PORT_BUFFER, SAMPLER, SAMPLER)
XE_HPG = (
    r"ugm MsgDesc: \( load(_cmask)?, a64, d32, \w+, L1STATE_L3MOCS .* flat \)",
    r"ugm MsgDesc: \( load(_cmask)?, a64, d32, \w+, (L1STATE_L3MOCS|L1UC_L3C) .* flat \)",
    r"ugm MsgDesc: \( load(_cmask)?, a32, d32, \w+,( transpose,)? L1STATE_L3MOCS .* bti \)",
    SAMPLER,
    SAMPLER,
)
# Other platforms have the machine code of one of these.
INTEL_LOADS = {"bdw": GEN8, "skl": GEN8, "glk": GEN8, "icl": GEN8, "ehl": GEN8, "tgl": GEN12, "dg2": XE_HPG}

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

    def compiled(self, name, drivers, settings):
        """What the driver prints as it compiles all shaders for the GPU of this name."""
        drivers = ":".join(str(each) for each in drivers)
        # The driver leaks a little, in libraries that are closed again and so have no name to except them by.
        leaks = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        environment = os.environ | leaks | {"VK_DRIVER_FILES": drivers, "VK_ICD_FILENAMES": drivers} | settings
        done = subprocess.run([self.pipelines], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-1000:])
        self.assertIn(name, done.stdout)
        return done.stderr

    def assert_order(self, code, loads, faults, **what):
        self.assertGreaterEqual(len(code), 2 * len(LOADS), what)
        code = code[-2 * len(LOADS) :]
        for number, ((path, _), load) in enumerate(zip(LOADS, loads)):
            for nothing in (False, True):
                with self.subTest(**what, path=path, nothing=nothing):
                    self.assertEqual(list(faults(code[2 * number + nothing], None if nothing else load)), [])

    @unittest.skipUnless(DRIVERS, "no driver for GPUs of AMD")
    def test_clock_load_clock(self):
        for family in FAMILIES:
            settings = {"RADV_FORCE_FAMILY": family, "RADV_DEBUG": "shaders,nocache"}
            code = list(shaders(self.compiled(family, DRIVERS[:1], settings)))
            self.assert_order(code, [load for _, load in LOADS], faults, family=family)

    @unittest.skipUnless(INTEL_SHIM and INTEL_DRIVERS, "GPUINFER_INTEL_SHIM names no library, or there is no driver")
    def test_clock_load_clock_on_intel(self):
        for platform, loads in INTEL_LOADS.items():
            settings = {"LD_PRELOAD": INTEL_SHIM, "INTEL_STUB_GPU_PLATFORM": platform, "INTEL_DEBUG": "cs",
                        "MESA_SHADER_CACHE_DISABLE": "true"}
            code = list(intel_isa.shaders(self.compiled(platform.upper(), INTEL_DRIVERS, settings)))
            self.assert_order(code, loads, intel_isa.faults, platform=platform)


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
    if not DRIVERS and not INTEL_SHIM:
        sys.exit(SKIPPED)
    Order.pipelines = sys.argv.pop(1)
    unittest.main()
