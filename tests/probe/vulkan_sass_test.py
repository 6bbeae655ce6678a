#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what the driver of NVIDIA makes of the Vulkan probe to what its source promises.

usage: vulkan_sass_test.py VULKAN_PIPELINES     (the part that needs an NVIDIA GPU, nvdisasm and zstd is skipped without)

The machine code is in the driver's pipeline cache, compressed. In every shader that plays accesses: the low word of the
clock is read twice; between the readings is the one load of the path, or none where nothing is timed; its address comes
of the first reading, and a branch of the loaded value comes before the second. All other loads of global memory pass L1
by, and nothing is stored there but by reductions.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CACHE_MAGIC = b"\x28\xb5\x2f\xfd"  # of a frame of zstd
CODE_MAGIC = b"NVuc"
# In one shader each; as many time nothing.
LOADS = {
    "global": re.compile(r"LDG\.E(\.STRONG\.(CTA|SM))? "),
    "past L1": re.compile(r"LDG\.E\.STRONG\.GPU "),
    "constant": re.compile(r"LDC(\.\w+)* .*cx\["),
    "texel": re.compile(r"(TLD|TEX)\..* 1D,"),
    "texel 2D": re.compile(r"(TLD|TEX)\..* 2D,"),
}
MEMORY = re.compile(r"(LDG|LDL|LD|ATOMG?|RED|TLD|TEX|SULD|SUST|STG|STL|ST)(\.| )")
CLOCK = re.compile(r"SR_CLOCKLO")
BESIDE_L1 = re.compile(r"LDG\.E(\.\w+)*\.STRONG\.GPU|RED|REDG")
INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?\s*(.*?)\s*;")
REGISTER = re.compile(r"\bU?[RP]\d+\b")


def shaders(listing):
    """The instructions of a listing of nvdisasm, each with its predicate in front."""
    return [(found[2] or "") + found[3] for found in map(INSTRUCTION.match, listing.splitlines()) if found]


def opcode(instruction):
    return re.sub(r"^@!?U?P\w+ ", "", instruction)


# What an instruction writes comes first: predicates, and a register but of comparisons.
WRITTEN = re.compile(r"^(\S*SETP\S* U?P\w+|\S+ (U?P\w+, )?U?R\w+)")


def written(instruction):
    found = WRITTEN.match(opcode(instruction))
    return set(REGISTER.findall(found[0])) if found else set()


def read(instruction):
    predicate = instruction[: -len(opcode(instruction))]
    return set(REGISTER.findall(predicate + WRITTEN.sub("", opcode(instruction), count=1)))


def follows_from(registers, code):
    """What of `registers` and what was computed from them is left after `code`."""
    live = set(registers)
    for each in code:
        if read(each) & live:
            live |= written(each)
    return live


def faults(code, load_of_path):
    """Yields a sentence for each promise about the timed region that `code` breaks. `load_of_path`: None where it has none."""
    clocks = [i for i, each in enumerate(code) if CLOCK.search(each)]
    if len(clocks) != 2:
        yield f"reads the clock {len(clocks)} times instead of twice"
        return
    first, second = clocks
    region = code[first + 1 : second]
    found = [i for i, each in enumerate(region) if MEMORY.match(opcode(each)) or LOADS["constant"].match(opcode(each))]
    if load_of_path is None:
        if found:
            yield f"loads with {region[found[0]]} where nothing is timed"
        return
    if len(found) != 1 or not load_of_path.match(opcode(region[found[0]])):
        yield f"does {[region[i] for i in found]} between the clocks instead of one load"
        return
    load = region[found[0]]
    if not read(load) & follows_from(written(code[first]), region[: found[0]]):
        yield f"loads with {load}, of which the address does not come of the first clock"
    value = set(REGISTER.findall(opcode(load).split("[")[0].split("cx")[0])) & set(
        name for each in region[found[0] + 1 :] for name in read(each)
    )
    after = region[found[0] + 1 :]
    if not any(" BRA " in f" {opcode(each)} " and read(each) & follows_from(value, after[:i]) for i, each in enumerate(after)):
        yield "reads the second clock whatever was loaded"


def l1_faults(code):
    """Yields a sentence for each access outside of the timed region that may go through L1."""
    clocks = [i for i, each in enumerate(code) if CLOCK.search(each)]
    for i, each in enumerate(code):
        is_timed = len(clocks) == 2 and clocks[0] < i < clocks[1]
        if not is_timed and MEMORY.match(opcode(each)) and not BESIDE_L1.match(opcode(each)):
            yield f"goes through L1 with {each}"


def path_of(code):
    """The path whose load stands between the clocks, or "nothing"."""
    clocks = [i for i, each in enumerate(code) if CLOCK.search(each)]
    region = code[clocks[0] : clocks[-1]] if clocks else []
    return next((path for path, load in LOADS.items() if any(load.match(opcode(each)) for each in region)), "nothing")


class Order(unittest.TestCase):
    pipelines = ""

    def listings(self):
        disassembler = shutil.which("nvdisasm") or shutil.which("nvdisasm", path="/usr/local/cuda/bin")
        if disassembler is None or shutil.which("zstd") is None:
            self.skipTest("nvdisasm or zstd is not there")
        with tempfile.TemporaryDirectory() as folder:
            cache = pathlib.Path(folder) / "cache"
            done = subprocess.run([self.pipelines, cache], capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0 or not done.stdout.startswith("NVIDIA"):
                self.skipTest(f"vulkan:0 is no GPU of NVIDIA, but: {done.stdout.strip()}")
            data = cache.read_bytes()
            code = pathlib.Path(folder) / "code"
            for found in re.finditer(re.escape(CACHE_MAGIC), data):
                # What follows a frame is the next one's header, of which zstd complains.
                frame = subprocess.run(["zstd", "-dqc"], input=data[found.start() :], capture_output=True, check=False).stdout
                if CODE_MAGIC in frame:
                    code.write_bytes(frame[frame.index(CODE_MAGIC) :])
                    command = [disassembler, "-b", self.architecture(), code]
                    yield subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @staticmethod
    def architecture():
        command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        return "SM" + subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0].replace(".", "")

    def test_clock_load_clock(self):
        # The shaders that play have two readings of the clock and come back for the next access; others are not judged.
        playing = [code for code in map(shaders, self.listings()) if any(LOADS["constant"].match(opcode(each)) for each in code)]
        self.assertEqual(sorted(map(path_of, playing)), sorted([*LOADS, *["nothing"] * len(LOADS)]))
        for code in playing:
            path = path_of(code)
            with self.subTest(path=path):
                self.assertEqual(list(faults(code, LOADS.get(path))), [])
                self.assertEqual(list(l1_faults(code)), [])


class Checker(unittest.TestCase):
    """A checker that finds nothing must have looked."""

    RIGHT = ["S2UR UR4, SR_CLOCKHI", "S2UR UR5, SR_CLOCKLO", "CS2R.32 R9, SR_CLOCKHI", "ISETP.NE.U32.AND P0, PT, R9, UR4, PT",
             "@P0 BRA 0x10", "LOP3.LUT R2, R2, UR5, R0, 0xf8, !PT", "LDG.E R6, [R2]", "STS [R8], R6",
             "ISETP.NE.U32.AND P1, PT, R6, RZ, PT", "@P1 BRA 0x90", "S2UR UR4, SR_CLOCKHI", "CS2R.32 R7, SR_CLOCKLO"]

    def assert_found(self, words, code):
        self.assertIn(words, " ".join(faults(code, LOADS["global"])))

    def without(self, line):
        return [each for each in self.RIGHT if each != line]

    def test_right_code_passes(self):
        self.assertEqual(list(faults(self.RIGHT, LOADS["global"])), [])
        self.assertEqual(path_of(self.RIGHT), "global")
        self.assertEqual(list(l1_faults(self.RIGHT)), [])

    def test_wrong_code_is_found(self):
        self.assert_found("does not come of the first clock", self.without("LOP3.LUT R2, R2, UR5, R0, 0xf8, !PT"))
        self.assert_found("whatever was loaded", self.without("@P1 BRA 0x90"))
        self.assert_found("whatever was loaded", self.without("ISETP.NE.U32.AND P1, PT, R6, RZ, PT"))
        self.assert_found("instead of one", self.without("LDG.E R6, [R2]"))
        self.assert_found("instead of one", [each.replace("LDG.E ", "LDG.E.STRONG.GPU ") for each in self.RIGHT])
        self.assert_found("1 times", self.RIGHT[:-1])
        self.assertIn("nothing is timed", " ".join(faults(self.RIGHT, None)))
        self.assertIn("through L1", " ".join(l1_faults([*self.RIGHT, "LDG.E R1, [R4]"])))
        self.assertEqual(list(l1_faults([*self.RIGHT, "LDG.E.STRONG.GPU R1, [R4]", "REDG.E.ADD.STRONG.GPU [R4], R1"])), [])

    def test_listings_are_read(self):
        listing = "Section X\n        /*0010*/              @P0 BRA 0x5c0 ;\n        /*0020*/                   STS [R24], R7 ;\n"
        self.assertEqual(shaders(listing), ["@P0 BRA 0x5c0", "STS [R24], R7"])


if __name__ == "__main__":
    Order.pipelines = sys.argv.pop(1)
    unittest.main()
