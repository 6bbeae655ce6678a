#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Every recording under data/ must still yield the profile beside it, byte for byte, but for those in data/predicted/:
what they hold must be predicted by the description of the same name, access by access.

A change of the inference asks other questions than a recording holds. Then the recording has to be made again on the
device (CONTRIBUTING.md says how), and `golden_test.py GPUINFER --regenerate` writes the profiles that the recordings
yield now; look at what changed before you keep it.
"""

import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FINISHED = (0, 3)


def profile_of(gpuinfer, recording):
    """The profile that a recording yields; the run must have finished."""
    name = recording.relative_to(ROOT)
    done = subprocess.run(
        [gpuinfer, "--target", "all", "--device", f"recorded:{name}", "--quiet"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )
    if done.returncode not in FINISHED:
        raise AssertionError(f"{name}: exit status {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def recordings_with_profiles():
    predicted = ROOT / "data" / "predicted"
    return sorted(recording for recording in (ROOT / "data").rglob("*.h5") if recording.parent != predicted)


class Recordings(unittest.TestCase):
    gpuinfer = None

    def test_each_yields_the_profile_beside_it(self):
        recordings = recordings_with_profiles()
        self.assertTrue(recordings)
        for recording in recordings:
            with self.subTest(recording=recording.name):
                expected = recording.with_suffix(".yaml").read_bytes()
                self.assertEqual(profile_of(self.gpuinfer, recording).decode(), expected.decode())

    def test_descriptions_predict_every_access(self):
        found, predicted = ROOT / "data" / "h200" / "L1tex", ROOT / "data" / "predicted" / "h200.h5"
        # The last ones are what the program found out from other loads, at other addresses, one of them on an H100.
        for device, recording in (
            ("h200", predicted),
            ("h200", found.with_suffix(".h5")),
            (found.with_suffix(".yaml"), predicted),
            (ROOT / "data" / "h100" / "L1tex.yaml", predicted),
        ):
            command = [self.gpuinfer, "validate", device, recording, "--target", "L1tex", "--format", "json"]
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            with self.subTest(device=device, recording=recording.name):
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                traces = json.loads(done.stdout)["traces"]
                judged = [trace["accesses"] - trace["outliers"] - trace["undetermined"] for trace in traces]
                self.assertGreater(sum(judged), 400_000)
                self.assertEqual(sum(judged), sum(trace["agreeing"] for trace in traces))


if __name__ == "__main__":
    Recordings.gpuinfer = str(pathlib.Path(sys.argv[1]).resolve())
    if "--regenerate" in sys.argv[2:]:
        for archive in recordings_with_profiles():
            archive.with_suffix(".yaml").write_bytes(profile_of(Recordings.gpuinfer, archive))
    else:
        unittest.main(argv=sys.argv[:1])
