#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""What is published of a GPU must predict recordings that took no part in finding it out, access by access."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

import harness  # noqa: E402


class Predicted(unittest.TestCase):
    gpuinfer = None

    def test_every_access(self):
        predicted = ROOT / "data/predicted/h200.h5"
        h100 = ROOT / "data" / "h100" / "L1tex.yaml"
        # The last ones are what the program found out from other loads, at other addresses, one of them on an H100.
        pairs = [("h200", predicted), (harness.recorded("L1tex"), predicted), (h100, predicted)]
        if "GPUINFER_TEST_DEEP" in os.environ:
            pairs.append((h100, harness.recorded("L1tex", ".h5")))  # takes longer than all others
        for device, recording in pairs:
            command = [self.gpuinfer, "validate", device, recording, "--target", "L1tex", "--format", "json"]
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            with self.subTest(device=device, recording=recording.name):
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                traces = json.loads(done.stdout)["traces"]
                judged = [trace["accesses"] - trace["outliers"] - trace["undetermined"] for trace in traces]
                self.assertGreater(sum(judged), 400_000)
                self.assertEqual(sum(judged), sum(trace["agreeing"] for trace in traces))


if __name__ == "__main__":
    Predicted.gpuinfer = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
