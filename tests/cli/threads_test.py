#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""threads_test.py GPUINFER: what each verb does by several threads is what it does by one.

Built with the thread sanitizer, a race is another exit status.
"""

import harness


class Threads(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.other = self.write("other.yaml", harness.NOISE + harness.CACHE.replace("Small", "Other"))
        for name, sequence in (("walk", "random:2K,32,4000"), ("laps", "cyclic:1344,32,20")):
            self.expect(0, "probe", "--target=L1tex", f"--device=virtual:{self.small}", f"--sequence={sequence}", f"--record={name}.h5")

    def check(self, status, *arguments):
        """The same on one thread and on three."""
        said = [self.expect(status, *arguments, f"--jobs={jobs}").stdout for jobs in (1, 3)]
        self.assertEqual(said[0], said[1])

    def test_infer(self):
        self.check(3, "infer", "walk.h5", "--quiet")

    def test_validate(self):
        self.check(0, "validate", self.small, "walk.h5", "laps.h5")

    def test_simulate(self):
        self.check(0, "simulate", self.small, "--curve=misses:512,3K,32")

    def test_report(self):
        self.expect(0, "report", self.small, "walk.h5", "laps.h5", "-o", "page.html")

    def test_several_devices(self):
        devices = [f"--device=virtual:{name}" for name in (self.small, self.other, self.small)]
        self.expect(0, "--target=L1tex", *devices, "-o", "fleet.yaml", "--quiet")


if __name__ == "__main__":
    harness.main()
