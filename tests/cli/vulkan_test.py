#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""vulkan_test.py GPUINFER: the whole path over Vulkan, on lavapipe, a driver of Mesa that lets the CPU play a GPU.

What a CPU answers is of no GPU: what is held is that the program says so.
"""

import json
import os
import pathlib
import unittest

import harness
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVERS = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))


class OtherVendors(harness.ProgramTest):
    """GPUs of AMD and Intel as published: what is described is found."""

    def test_what_is_described_is_found(self):
        for name, target in (("hd7970", "L1tex"), ("hd7970", "ConstL1"), ("rx5700xt", "L1tex"), ("irisplusg7", "L2")):
            with self.subTest(name=name, target=target):
                done = self.expect(0, f"--target={target}", f"--device=virtual:{name}", "--quiet")
                described = (ROOT / f"configs/devices/{name}.yaml").read_text(encoding="utf-8")
                found, published = (yaml.safe_load(text)["caches"][target] for text in (done.stdout, described))
                self.assertGreaterEqual(len(found["index"].pop("exercised_bits")), 19)
                for leaf in ("capacity_bytes", "line_bytes", "ways", "index", "replacement"):
                    self.assertEqual(found[leaf], published[leaf], leaf)


@unittest.skipUnless(DRIVERS, "there is no lavapipe")
class Lavapipe(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        driver = str(DRIVERS[0])
        self.environment = os.environ | harness.WITHOUT_GPU | {"VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver}

    def test_a_profile_that_says_what_it_is_of(self):
        done = self.expect(3, "--target=L1tex", "--device=vulkan:0", "--format=json", env=self.environment)
        profile = json.loads(done.stdout)
        device = profile["device"]
        self.assertIn("llvmpipe", device["name"])
        self.assertIn("a CPU and no GPU", device["name"])
        self.assertEqual(device["source"], "vulkan:0")
        self.assertEqual(device["provenance"]["vulkan_device_type"], "Cpu")
        self.assertRegex(device["provenance"]["clock_cycles"], r"^L1tex [1-9]")
        self.assertNotIn("longer than", done.stdout)
        # Its clock tells hits from misses of the CPU at times, and no more of its caches.
        for leaf in ("ways", "index", "replacement"):
            self.assertNotEqual(profile["evidence"]["L1tex"][leaf]["status"], "resolved", leaf)

    def test_single_loads_are_recorded(self):
        for target in ("L1tex", "Texture", "ConstL1"):
            command = ("probe", f"--target={target}", "--device=vulkan:0", "--state=keep", "--sequence=cyclic:4096,64")
            # A CPU with other work forgets in the middle of a try now and then, and then says that it keeps nothing.
            tries = (self.run_program(*command, env=self.environment) for _ in range(10))
            probed = next(done for done in tries if "`keep`" not in done.stderr)
            self.assertEqual(probed.returncode, 0, probed.stderr)
            self.assertEqual([int(line.split(",")[0]) for line in probed.stdout.splitlines()[1:]], list(range(0, 4096, 64)))

    def test_it_is_never_taken_for_a_gpu(self):
        self.assertIn("Vulkan neither", self.expect(4, "--target=L1tex", "--device=gpu", env=self.environment).stderr)
        auto = self.expect(0, "--target=Instruction", "--quiet", env=self.environment)
        self.assertIn("another machine's GPU", auto.stderr)
        listed = self.expect(0, "list", "devices", env=self.environment).stdout
        self.assertRegex(listed, r"(?m)^vulkan:0 +llvmpipe .*, no GPU")
        self.assertRegex(self.expect(0, "doctor", "--device=vulkan:0", env=self.environment).stdout, r"(?m)^warn +vulkan:0 .*a CPU that plays")
        self.assertEqual(self.run_program("doctor", env=self.environment).returncode, 4)

    def test_numbers_that_name_nothing(self):
        self.assertIn("vulkan:9 is not there", self.expect(4, "--target=L1tex", "--device=vulkan:9", env=self.environment).stderr)
        self.assertIn("no host has so many", self.expect(4, "--target=L1tex", "--device=vulkan:99999", env=self.environment).stderr)
        self.expect(2, "--target=L1tex", "--device=vulkan:x", env=self.environment)


if __name__ == "__main__":
    harness.main()
