#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""cost_test.py GPUINFER: what looks cheap costs little time of a core and little memory."""

import os
import subprocess

import harness


class Cost(harness.ProgramTest):
    def cost(self, *arguments):
        """Exit status, seconds of a core, and megabytes, as they would be without sanitizers."""
        process = subprocess.Popen([self.program, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = (usage.ru_utime + usage.ru_stime) / harness.PATIENCE
        return process.returncode, seconds, usage.ru_maxrss / 1024 / harness.PATIENCE

    def test_classes_of_policies(self):
        status, seconds, _ = self.cost("list", "policies", "--classes")
        self.assertEqual(status, 0)
        # Half of that where nothing else runs.
        self.assertLess(seconds, 2)

    def test_page_of_a_whole_gpu_with_its_recording(self):
        recorded = harness.recorded("L1tex")
        status, seconds, _ = self.cost("report", str(recorded), str(recorded.with_suffix(".h5")), "-o", "page.html")
        self.assertEqual(status, 0)
        # Half of that where nothing else runs, and less by the clock where there are several cores.
        self.assertLess(seconds, 5)

    def test_latencies_of_a_large_buffer(self):
        status, _, megabytes = self.cost("--target=Latency", "--device=virtual:gtx560ti", "--quiet", "-o", "profile.yaml")
        self.assertIn(status, (0, 3))
        self.assertLess(megabytes, 300)

    def test_millions_of_brackets(self):
        status, seconds, megabytes = self.cost("show", self.write("brackets.yaml", "[" * 7_000_000))
        self.assertEqual(status, 2)
        self.assertLess(seconds, 5)
        self.assertLess(megabytes, 500)

    def test_gigabytes_without_a_line_end(self):
        with open(self.folder / "sparse", "wb") as sparse:
            sparse.truncate(2 << 30)
        for arguments in (("infer", "sparse"), ("show", "sparse"), ("survey", "--target=L1tex", "--devices=sparse", "-o", "fleet.yaml")):
            with self.subTest(arguments):
                status, seconds, megabytes = self.cost(*arguments)
                self.assertEqual(status, 2)
                self.assertLess(seconds, 5)
                self.assertLess(megabytes, 500)


if __name__ == "__main__":
    harness.main()
