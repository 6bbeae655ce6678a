#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""For which GPUs scripts/gpuinfer builds, with a CMake, a ninja, an nvcc and an nvidia-smi that only say what they were asked."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Writes the cache that CMake would.
CMAKE = """#!/bin/bash
echo "$@" >>"$PWD/asked"
mkdir -p build/release
touch build/release/build.ninja
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt
for argument; do
  if [[ $argument == GPUINFER_GPUS=* ]]; then echo "GPUINFER_GPUS:STRING=${argument#*=}" >>build/release/CMakeCache.txt; fi
done
"""
NINJA = "#!/bin/bash\necho 'ninja: no work to do.'\n"
NVCC = "#!/bin/bash\n"


class BuildProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        (self.root / "CMakePresets.json").write_text("{}")
        self.tool("cmake", CMAKE)
        self.tool("ninja", NINJA)
        self.tool("nvcc", NVCC)

    def tool(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def gpus(self, *capabilities):
        self.tool("nvidia-smi", "#!/bin/bash\nprintf '%s\\n' " + " ".join(capabilities) + "\n")

    def build(self, without_nvcc=False, **environment):
        """How often CMake was called, for which GPUs the folder is now, and what was said."""
        (self.root / "asked").write_text("")
        hide = "has_nvcc() { false; }; " if without_nvcc else ""
        script = f'set -euo pipefail; root=$PWD; source "{ROOT}/scripts/common.sh"; {hide}build_program'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.root,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}"} | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        cache = (self.root / "build/release/CMakeCache.txt").read_text()
        built = [line.partition("=")[2] for line in cache.splitlines() if line.startswith("GPUINFER_GPUS")]
        return len((self.root / "asked").read_text().splitlines()), *built, done.stderr

    def test_is_for_the_gpus_of_every_machine_that_shares_the_folder(self):
        self.gpus("9.0", "9.0", "8.0")
        self.assertEqual(self.build()[:2], (1, "80;90"))
        self.assertEqual(self.build()[:2], (0, "80;90"))
        self.gpus("12.0")
        self.assertEqual(self.build()[:2], (1, "80;90;120"))
        self.gpus("8.0")
        self.assertEqual(self.build()[:2], (0, "80;90;120"))

    def test_a_machine_without_an_answer_takes_nothing_away(self):
        self.gpus("9.0")
        self.build()
        self.tool("nvidia-smi", "#!/bin/bash\necho 'No devices were found'\nexit 6\n")
        self.assertEqual(self.build()[:2], (0, "90"))
        self.gpus("8.0")
        self.assertEqual(self.build()[1], "80;90")

    def test_all_stays_all(self):
        self.gpus("9.0")
        self.assertEqual(self.build(GPUINFER_GPUS="all")[:2], (1, "all"))
        self.assertEqual(self.build()[:2], (0, "all"))

    def test_without_nvcc_it_goes_on_with_what_there_is_and_says_so(self):
        self.build(GPUINFER_GPUS="none")
        self.gpus("9.0")
        count, built, said = self.build(without_nvcc=True)
        self.assertEqual((count, built), (0, "none"))
        self.assertIn("GPUINFER_GPUS='90' scripts/gpuinfer doctor", said)
        self.assertEqual(self.build()[:2], (1, "90"))


if __name__ == "__main__":
    unittest.main()
