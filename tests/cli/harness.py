# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program that the command line of a test names first."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# How many times longer than else a program may take, and how many times as much memory: more than 1 under sanitizers.
PATIENCE = int(os.environ.get("GPUINFER_TEST_PATIENCE", "1"))

CACHE = """
schema: gpuinfer/1
device: {name: Small, source: test}
caches:
  L1tex:
    capacity_bytes: 1024
    line_bytes: 64
    sector_bytes: 32
    ways: [4, 4, 4, 4]
    index: {kind: bits, bits: [6, 7]}
    replacement: {policy: lru}
    latency_cycles: {hit: 30, miss: 200}
"""

# In the environment: neither CUDA nor Vulkan shows a device.
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "", "VK_DRIVER_FILES": "/nowhere", "VK_ICD_FILENAMES": "/nowhere"}

NOISE = "noise: {jitter_cycles: 3, outlier_probability: 0.001, outlier_cycles: 400, misread_probability: 0.001}\n"


def recorded(target, suffix=".yaml"):
    """The profile (or the recording) in data/h200 that holds the target: that of the whole GPU, else its own."""
    whole = ROOT / "data/h200" / f"h200{suffix}"
    return whole if whole.exists() else whole.with_name(target + suffix)


def changed(text, changes):
    """The text with these pieces of it, each of which must be there, changed for others."""
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{old!r} is not in {text!r}")
        text = text.replace(old, new)
    return text


def with_ambiguous_onset(profile):
    """The text of the H200's profile as if another array of so many bytes had not fitted its first TLB."""
    leaf = r"(?m)^(  L1TLB:\n(?:    .*\n)*?    onset_bytes: )"
    for value, other in (
        (r"\d+$", "null"),
        (r"\{status: resolved.*$", '{status: ambiguous, alternatives: [268435456], reason: "the onset depends on the base address"}'),
    ):
        profile, count = re.subn(leaf + value, rf"\g<1>{other}", profile)
        if count != 1:
            raise ValueError(f"{count} leaves are as {value}")
    return profile


class ProgramTest(unittest.TestCase):
    """A scratch folder, and the program in it."""

    program = ""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.small = self.write("small.yaml", CACHE)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def run_program(self, *arguments, **options):
        return subprocess.run(
            [self.program, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120 * PATIENCE, check=False, **options
        )

    def expect(self, status, *arguments, **options):
        """Runs, checks the exit status, and that a failure is one sentence on stderr and nothing on stdout."""
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        if status in (2, 4):
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("gpuinfer: "), done.stderr)
        return done


def main():
    ProgramTest.program = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
