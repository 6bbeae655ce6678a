# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The adapter for GPGPU-Sim, in a stand-in that has what the adapter needs of it. adapter_test.py LIBGPUINFER"""

import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ADAPTER = ROOT / "integrations/gpgpusim/adapter.py"
STAND_IN = HERE / "stand_in"
FILES = ["gpu-cache.h", "gpu-cache.cc", "shader.cc"]
H200 = ROOT / "data/h200/h200.yaml"


def adapter(*words):
    return subprocess.run([sys.executable, ADAPTER, *words], capture_output=True, text=True, check=False)


class StandInTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = pathlib.Path(folder.name) / "checkout"
        shutil.copytree(STAND_IN, self.checkout)
        self.source = self.checkout / "src/gpgpu-sim"


class InsertionTest(StandInTest):
    def changed(self):
        _, differing, missing = filecmp.cmpfiles(STAND_IN / "src/gpgpu-sim", self.source, FILES, shallow=False)
        return differing + missing

    def test_what_is_inserted_is_taken_out_again(self):
        for _ in range(2):
            self.assertEqual(adapter("insert", self.checkout).returncode, 0)
            self.assertEqual(sorted(self.changed()), sorted(FILES))
            marks = sum((self.source / name).read_text().count("// gpuinfer\n") for name in FILES)
            self.assertEqual(marks, 12)
        for _ in range(2):
            self.assertEqual(adapter("remove", self.checkout).returncode, 0)
            self.assertEqual(self.changed(), [])
            self.assertEqual(sorted(path.name for path in self.source.iterdir()), sorted(FILES))

    def test_a_checkout_that_lacks_a_place_is_left_alone(self):
        shader = self.source / "shader.cc"
        shader.write_text(shader.read_text().replace("set_assoc(", "set_ways("))
        done = adapter("insert", self.checkout)
        self.assertEqual(done.returncode, 1)
        self.assertIn("shader.cc has 0 places", done.stderr)
        self.assertEqual(self.changed(), ["shader.cc"])
        self.assertEqual(adapter("insert", self.checkout / "src").returncode, 1)


class CacheTest(StandInTest):
    libgpuinfer = None

    def setUp(self):
        super().setUp()
        self.assertEqual(adapter("insert", self.checkout).returncode, 0)
        self.program = self.checkout / "program"
        sources = [HERE / "adapter_main.cc", self.source / "gpu-cache.cc", self.source / "shader.cc"]
        flags = ["-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", self.source]
        command = ["c++", *flags, *sources, self.libgpuinfer, "-ldl", "-o", self.program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_program(self, configuration):
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.libgpuinfer.parent)}
        command = [self.program, configuration, H200, "L1tex"]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def test_a_configuration_simulates_its_profile_or_is_refused(self):
        with self.subTest("the cache of the profile"):
            done = self.run_program(f"gpuinfer:{H200}:L1tex,S:1:128:8,L:m")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("120000 of 120000", done.stdout)
        with self.subTest("without a profile it is another one"):
            self.assertNotIn("120000 of 120000", self.run_program("S:1:128:8,L:m").stdout)
        for configuration, words in (
            (f"gpuinfer:{H200}:L1tex,S:1:64:8,L:m", "lines of 64 B"),
            (f"gpuinfer:{H200}:L1tex,S:1:128:8,L:f", "write m"),
            (f"gpuinfer:{H200}:L9,S:1:128:8,L:m", "has no cache L9"),
            ("gpuinfer:nowhere,S:1:128:8,L:m", "write gpuinfer:PROFILE:TARGET"),
        ):
            with self.subTest(configuration):
                done = self.run_program(configuration)
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    CacheTest.libgpuinfer = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
