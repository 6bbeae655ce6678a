#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""resume_test.py GPUINFER: what an interrupted run has learned is not lost.

GPUINFER_TEST_KILLS says how many runs are killed (default 3), GPUINFER_TEST_SEED at which moments.
"""

import os
import pathlib
import random
import resource
import shlex
import signal
import subprocess
import time
import unittest

import harness

KILLS = int(os.environ.get("GPUINFER_TEST_KILLS", "3"))
SEED = int(os.environ.get("GPUINFER_TEST_SEED", random.SystemRandom().randrange(1 << 32)))

# Loads and workloads, disturbed by chance.
DEVICE = harness.NOISE + """
schema: gpuinfer/1
device: {name: Noisy, source: test, compute_capability: "3.5", sm_count: 2}
caches:
  ConstL1:
    capacity_bytes: 512
    line_bytes: 64
    sector_bytes: 64
    ways: [4, 4]
    index: {kind: bits, bits: [6]}
    replacement: {policy: plru}
    latency_cycles: {hit: 40, miss: 220}
  L1tex:
    capacity_bytes: 256
    line_bytes: 64
    sector_bytes: 32
    ways: [2, 2]
    index: {kind: bits, bits: [7]}
    replacement: {policy: lru}
    latency_cycles: {hit: 30, miss: 200}
shared_memory: {banks: 32, bank_width_bytes: 4, latency_cycles: {broadcast: 50, two_way: 88, per_way: 38}}
"""


class Resume(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.arguments = ["--target=all", "--device=virtual:" + self.write("noisy.yaml", DEVICE), "--quiet"]
        self.archive = self.folder / "run.h5"
        self.journal = self.folder / "run.h5.journal"

    def uninterrupted(self):
        began = time.monotonic()
        done = self.run_program(*self.arguments, "-o", "whole.yaml")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return (self.folder / "whole.yaml").read_text(), done.returncode, time.monotonic() - began

    def start(self, *arguments):
        command = [self.program, *arguments]
        return subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)

    def cut_off(self, how, moment, *arguments):
        """Ends a run by a signal after so many seconds, unless it has ended by then."""
        with self.start(*arguments) as process:
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                process.send_signal(how)
            _, stderr = process.communicate(timeout=60)
        return process.returncode, stderr

    def cut_off_with_answers(self, how):
        """Ends a run as soon as some kilobytes of answers are there."""
        with self.start(*self.arguments, "--record=run.h5", "-o", "part.yaml") as process:
            while not (self.journal.exists() and self.journal.stat().st_size > 50_000):
                self.assertIsNone(process.poll(), "the run ended before it was cut off")
                time.sleep(0.002)
            process.send_signal(how)
            _, stderr = process.communicate(timeout=60)
        return process.returncode, stderr

    def resume(self, status, *arguments, **options):
        done = self.run_program(*self.arguments, "--resume=run.h5", "-o", "resumed.yaml", *arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def expect_resumed(self, profile, status):
        done = self.resume(status)
        self.assertTrue((self.folder / "resumed.yaml").read_text() == profile, "the profiles differ")
        self.assertTrue(self.archive.exists())
        self.assertFalse(self.journal.exists())
        return done

    def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(self):
        print(f"seed {SEED}, {KILLS} runs are killed", flush=True)
        moments = random.Random(SEED)
        profile, status, seconds = self.uninterrupted()
        recording = [*self.arguments, "--record=run.h5", "-o", "part.yaml"]
        resuming = [*self.arguments, "--resume=run.h5", "-o", "part.yaml"]
        killed = resumed = 0
        # On a busy machine many runs are killed before they have kept anything.
        while killed < KILLS or resumed <= KILLS // 4:
            returncode, _ = self.cut_off(signal.SIGKILL, moments.random() * seconds, *recording)
            killed += returncode == -signal.SIGKILL
            if self.journal.exists() and moments.random() < 0.3:
                returncode, _ = self.cut_off(signal.SIGKILL, moments.random() * seconds, *resuming)
                killed += returncode == -signal.SIGKILL
            if self.journal.exists() or self.archive.exists():
                resumed += 1
                self.expect_resumed(profile, status)
            for left in self.folder.glob("run.h5*"):
                left.unlink()

    def test_what_is_torn_or_damaged_is_asked_again(self):
        print(f"seed {SEED}", flush=True)
        moments = random.Random(SEED)
        profile, status, _ = self.uninterrupted()
        self.cut_off_with_answers(signal.SIGKILL)
        kept = self.journal.read_bytes()
        for damage in ("torn", "changed"):
            byte = moments.randrange(20_000, len(kept) - 4096)
            damaged = kept[:byte] if damage == "torn" else kept[:byte] + bytes([kept[byte] ^ 16]) + kept[byte + 1 :]
            self.journal.write_bytes(damaged)
            done = self.expect_resumed(profile, status)
            if damage == "torn":
                self.assertRegex(done.stderr, r"run\.h5\.journal: is damaged, and [1-9][0-9]* of its answers are lost")
            self.archive.unlink()

    def test_interrupt_says_how_to_go_on(self):
        profile, status, _ = self.uninterrupted()
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how):
                self.archive.unlink(missing_ok=True)
                returncode, stderr = self.cut_off_with_answers(how)
                self.assertEqual(returncode, 3, stderr)
                self.assertTrue((self.folder / "part.yaml").exists())
                self.assertFalse(self.archive.exists())
                self.assertTrue(self.journal.exists())
                command = stderr.splitlines()[-1].partition("go on with: gpuinfer ")[2]
                self.assertIn("--resume run.h5", command)
                done = self.run_program(*shlex.split(command))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertTrue((self.folder / "part.yaml").read_text() == profile, "the profiles differ")
                self.assertFalse(self.journal.exists())

    def test_of_several_at_once_one_goes_on(self):
        self.expect(0, "--target=L1tex", f"--device=virtual:{self.small}", "--record=small.h5", "--quiet", "-o", "/dev/null")
        whole = (self.folder / "small.h5").read_bytes()
        arguments = [self.program, "--target=L1tex", f"--device=virtual:{self.small}", "--resume=small.h5", "--quiet", "-o", "/dev/null"]
        for _ in range(20):
            (self.folder / "small.h5").write_bytes(whole)
            runs = [subprocess.Popen(arguments, cwd=self.folder, stderr=subprocess.PIPE, text=True) for _ in range(3)]
            told = [run.communicate()[1] for run in runs]
            self.assertIn(0, [run.returncode for run in runs], told)
            for run, stderr in zip(runs, told, strict=True):
                self.assertIn(run.returncode, (0, 2), stderr)
                self.assertNotIn("readonly", stderr)
            self.assertEqual([path.name for path in self.folder.glob("small.h5*")], ["small.h5"])

    def test_a_whole_archive_is_gone_on_with(self):
        profile, status, _ = self.uninterrupted()
        self.assertEqual(self.run_program(*self.arguments, "--record=run.h5", "--budget=10000").returncode, 3)
        self.assertFalse(self.journal.exists())
        self.expect_resumed(profile, status)
        # Nothing is missing any more, and the recording alone says the same.
        self.expect_resumed(profile, status)
        again = self.run_program("infer", "run.h5", "--quiet")
        self.assertEqual(again.stdout.split("caches:")[1], profile.split("caches:")[1])

    def test_a_full_disk_loses_nothing(self):
        profile, status, _ = self.uninterrupted()
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
        done = self.run_program(*self.arguments, "--record=run.h5", "-o", "full.yaml", preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^gpuinfer: run\.h5\.journal: cannot be written \(File too large\); [^\n]*\n$")
        self.assertFalse((self.folder / "full.yaml").exists())
        self.assertFalse(self.archive.exists())
        self.assertGreater(self.journal.stat().st_size, 5_000)
        self.assertNotIn("lost", self.expect_resumed(profile, status).stderr)

    def test_what_does_not_belong_together_is_refused(self):
        self.expect(2, *self.arguments, "--resume=run.h5")
        self.cut_off_with_answers(signal.SIGKILL)
        device, quiet = self.arguments[1:]
        for differs, arguments in {
            "left of a run": [*self.arguments, "--record=run.h5"],
            "leave --record out": [*self.arguments, "--resume=run.h5", "--record=other.h5"],
            "source": ["--target=all", "--device=virtual:" + self.small, quiet, "--resume=run.h5"],
            "targets": ["--target=L1tex", device, quiet, "--resume=run.h5"],
            "seed": [*self.arguments, "--resume=run.h5", "--seed=2"],
            "sms": [*self.arguments, "--resume=run.h5", "--sms=all"],
            "method": [*self.arguments, "--resume=run.h5", "--method=average"],
        }.items():
            with self.subTest(differs):
                self.assertIn(differs, self.expect(2, *arguments).stderr)
        kept = self.journal.read_bytes()
        # The same name, another cache behind it.
        pathlib.Path(device.partition(":")[2]).write_text(DEVICE.replace("hit: 40", "hit: 41"))
        refused = self.run_program(*self.arguments, "--resume=run.h5")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
        self.assertRegex(refused.stderr, r"^gpuinfer: [^\n]* answers otherwise than it did [^\n]*\n$")
        self.assertEqual(self.journal.read_bytes(), kept)

    def test_another_process_is_asked_for_the_rest(self):
        serve = f"{shlex.quote(str(self.program))} serve {self.arguments[1]}"
        self.arguments = ["--target=ConstL1", f"--device=exec:tee -a asked | {serve}", "--quiet"]
        self.assertEqual(self.uninterrupted()[1], 0)
        asked = self.folder / "asked"
        whole = len(asked.read_text().splitlines())
        self.cut_off_with_answers(signal.SIGKILL)
        asked.unlink()
        self.resume(0)
        self.assertLess(len(asked.read_text().splitlines()), whole)
        self.assertIn("resumed: ", (self.folder / "resumed.yaml").read_text())
        profiles = [(self.folder / name).read_text() for name in ("whole.yaml", "resumed.yaml")]
        ways = [profile.split("ways:")[1].split("\n")[0] for profile in profiles]
        self.assertEqual(ways[0], ways[1])

    def test_what_lies_elsewhere_by_now_is_asked_again(self):
        buffers = r'"own_buffers":{"ConstL1":{"address_of_buffer":$(cat address),"buffer_bytes":65536}}'
        own = f'1s/"gpuinfer":1/&,{buffers}/'.replace('"', r"\"")
        serve = f"{shlex.quote(str(self.program))} serve {self.arguments[1]}"
        self.arguments = ["--target=ConstL1", "--target=L1tex", f'--device=exec:{serve} | sed -u "{own}"', "--quiet"]
        self.write("address", "0")
        profile, status, _ = self.uninterrupted()
        self.assertEqual(self.run_program(*self.arguments, "--record=run.h5", "--budget=10000").returncode, 3)
        self.assertNotIn("addresses", self.resume(status).stderr)
        self.write("address", "64")
        self.assertIn("other addresses than when the run began, so what ConstL1 answered is asked again", self.resume(status).stderr)
        self.assertNotIn("addresses", self.resume(status).stderr)
        resumed = (self.folder / "resumed.yaml").read_text()
        for leaf in (" ways:", " replacement:", " latency_cycles:"):
            found = [[line for line in text.splitlines() if leaf in line][:2] for text in (profile, resumed)]
            self.assertEqual(found[0], found[1])
        replayed = self.run_program("infer", "run.h5", "--quiet")
        self.assertEqual(replayed.returncode, status, replayed.stderr)


if __name__ == "__main__":
    harness.main()
