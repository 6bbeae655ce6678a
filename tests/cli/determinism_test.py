# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""determinism_test.py GPUINFER: the same question and the same seed give the same bytes, whatever else is different.

What differs between two runs: threads, the layout of memory (it is anew at random in each run, or not at all), what
lies in memory that nobody has written to, the order of Python's sets, language, time zone and folder.
GPUINFER_TEST_WIDE=1 asks every published device.
"""

import json
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import unittest

import harness

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
WIDE = os.environ.get("GPUINFER_TEST_WIDE") == "1"
JOBS = ("1", "2", "4", "7")

# Drawn by chance are the victims of one cache and the noise of both.
CHANGES = {
    "name: Small": "name: Noisy",
    "{kind: bits, bits: [6, 7]}": "{kind: xor, rows: [[6, 9], [7, 10]], constant: 0}",
    "{policy: lru}": "{policy: srrip, bits: 2, promotion: hit}",
}
NOISY = (
    harness.changed(harness.CACHE, CHANGES)
    + """
  L2:
    capacity_bytes: 512
    line_bytes: 64
    sector_bytes: 64
    ways: [4, 4]
    index: {kind: bits, bits: [6]}
    replacement: {policy: random}
    latency_cycles: {hit: 200, miss: 400}
"""
    + harness.NOISE
)

HIDDEN = {
    "line_bytes": 64,
    "sector_bytes": 64,
    "ways": [4, 4],
    "index": {"kind": "bits", "bits": [6]},
    "replacement": {"policy": "fifo"},
    "buffer_bytes": 65536,
    "address_of_buffer": 0,
    "latency_cycles": {"hit": 40, "miss": 300},
    "noise": {"jitter_cycles": 2, "outlier_probability": 0.001, "outlier_cycles": 400, "misread_probability": 0.001},
    "refused_states": [],
    "seed": 5,
}


# Each with another number of threads.
SURROUNDINGS = (
    {},
    {"MALLOC_PERTURB_": "165", "PYTHONHASHSEED": "1", "TZ": "Pacific/Chatham"},
    {"MALLOC_ARENA_MAX": "1", "MALLOC_TOP_PAD_": "1048576", "PYTHONHASHSEED": "2", "LC_ALL": "C", "LANG": "de_DE.UTF-8"},
    {"MALLOC_PERTURB_": "1", "MALLOC_MMAP_THRESHOLD_": "4096", "OMP_NUM_THREADS": "3"},
)


class Determinism(harness.ProgramTest):
    def profile(self, *arguments, fixed_addresses=False, **environment):
        """The bytes of a run in a folder that no other run had."""
        folder = self.folder / f"run{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        command = ["setarch", platform.machine(), "--addr-no-randomize"] if fixed_addresses else []
        done = subprocess.run(
            [*command, self.program, *arguments, "--quiet", "-o", "profile.yaml"],
            cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False,
        )
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return (folder / "profile.yaml").read_bytes()

    def expect_same(self, *arguments, surroundings=len(SURROUNDINGS)):
        """Of a run repeated in the last so many of these surroundings; returns its bytes."""
        first = self.profile(*arguments)
        for jobs, environment in tuple(zip(JOBS, SURROUNDINGS, strict=True))[-surroundings:]:
            with self.subTest(jobs=jobs, **environment):
                self.assertEqual(first, self.profile(*arguments, "--jobs", jobs, **environment))
        if self.may_fix_addresses():
            with self.subTest("fixed addresses"):
                self.assertEqual(first, self.profile(*arguments, fixed_addresses=True))
        return first

    @staticmethod
    def may_fix_addresses():
        """Containers may forbid it."""
        if shutil.which("setarch") is None:
            return False
        command = ["setarch", platform.machine(), "--addr-no-randomize", "true"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def record(self, name, *arguments):
        self.expect(0, "probe", "--target=L1tex", f"--device=virtual:{self.noisy}", *arguments, "--record", name)
        return str(self.folder / name)

    def setUp(self):
        super().setUp()
        self.noisy = self.write("noisy.yaml", NOISY)

    def test_virtual_devices(self):
        everything = self.expect_same("--target=L1tex", "--target=L2", f"--device=virtual:{self.noisy}", "--seed=7")
        # The noise of another seed is another one, so the comparison would see what differs.
        other = self.profile("--target=L1tex", "--target=L2", f"--device=virtual:{self.noisy}", "--seed=8")
        self.assertNotEqual(everything, other)

    @unittest.skipUnless(WIDE, "takes minutes")
    def test_published_devices(self):
        answering = 0
        for file in sorted((ROOT / "configs" / "devices").glob("*.yaml")):
            with self.subTest(file.stem):
                if "needs it" in self.run_program("doctor", f"--device=virtual:{file}").stderr:
                    continue  # too little is known of it
                self.expect_same("--target=all", f"--device=virtual:{file}", surroundings=1)
                answering += 1
        self.assertGreater(answering, 10)

    def test_recorded_run(self):
        recording = str(self.folder / "run.h5")
        self.expect(0, "--target=L1tex", "--device=virtual:gtx780", "--quiet", "--record", recording)
        self.expect_same("infer", recording)

    @unittest.skipUnless(WIDE, "takes minutes")
    def test_recorded_runs(self):
        for file in sorted((ROOT / "data" / "h200").glob("*.h5")):
            with self.subTest(file.stem):
                self.expect_same("infer", str(file), surroundings=1)

    def test_recordings(self):
        """What is searched on threads: a walk, and laps."""
        walk = self.record("walk.h5", f"--sequence=random:3K,32,{60000 if WIDE else 30000}")
        laps = [self.record(f"{size}.h5", f"--warm=cyclic:{size},4", f"--sequence=cyclic:{size},4,8") for size in (1024, 1088, 1344)]
        self.assertIn(b"replacement: {policy: srrip", self.expect_same("infer", walk))
        self.expect_same("infer", *laps)

    def test_other_process(self):
        spec = self.write("spec.json", json.dumps(HIDDEN))
        command = [sys.executable, TESTS / "hidden" / "hidden_device.py", spec]
        device = "exec:" + shlex.join(str(word) for word in command)
        if WIDE:
            self.expect_same("--target=L1tex", "--device", device)
            return
        first = self.profile("--target=L1tex", "--device", device, PYTHONHASHSEED="1")
        self.assertEqual(first, self.profile("--target=L1tex", "--device", device, "--jobs=7", PYTHONHASHSEED="2", MALLOC_PERTURB_="90"))

    def test_every_format(self):
        """Of what is made of a profile."""
        self.write("profile.yaml", self.profile("--target=L1tex", f"--device=virtual:{self.noisy}").decode())
        for arguments in (("show", "profile.yaml"), ("export", "profile.yaml", "--to", "json"), ("report", "profile.yaml")):
            with self.subTest(arguments[0]):
                first = self.expect(0, *arguments).stdout
                self.assertEqual(first, self.expect(0, *arguments, env=os.environ | {"MALLOC_PERTURB_": "165"}).stdout)


if __name__ == "__main__":
    harness.main()
