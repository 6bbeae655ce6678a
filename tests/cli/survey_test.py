#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""survey_test.py GPUINFER: a fleet is asked whole, and what was planted in it is found, and nothing else.

GPUINFER_TEST_DEVICES says how many devices the large fleet has, and that there is time for all tests. What the program
writes is read with a parser of its own. Ranks of MPI are tried where there is an mpirun.
"""

import copy
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import harness
import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = {
    name: json.loads((ROOT / "configs/schema" / f"{name}.schema.json").read_text())
    for name in ("gpuinfer-1", "gpuinfer-fleet-1")
}
NOISE = "noise: {jitter_cycles: 3, outlier_probability: 0.001, outlier_cycles: 400, misread_probability: 0.0}\n"
# What is planted, as changes of the text of a cache, and the leaves that differ then.
PLANTED = {
    "a-set-fewer": (
        [("capacity_bytes: 1024", "capacity_bytes: 768"), ("[4, 4, 4, 4]", "[4, 4, 4]"),
         ("{kind: bits, bits: [6, 7]}", "{kind: modulo, granule_bytes: 64, sets: 3}")],
        {"capacity_bytes", "onset_bytes", "ways", "index"},
    ),
    "other-carve-out": (
        [("capacity_bytes: 1024", "capacity_bytes: 1536"), ("[4, 4, 4, 4]", "[6, 6, 6, 6]")],
        {"capacity_bytes", "onset_bytes", "ways"},
    ),
    "slower-slice": ([("miss: 200", "miss: 216")], {"latency_cycles"}),
}


def children_of(process):
    listed = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False).stdout
    return [int(child) for child in listed.split()]


def read(text):
    return yaml.safe_load(text)


class FleetTest(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.noisy = self.write("noisy.yaml", harness.CACHE + NOISE)
        for name, (changes, _) in PLANTED.items():
            text = harness.CACHE
            for old, new in changes:
                self.assertIn(old, text)
                text = text.replace(old, new)
            self.write(f"{name}.yaml", text + NOISE)

    def survey(self, status, *arguments, ranks=None, devices=(), **options):
        """The fleet, and what was said on stderr."""
        names = self.write("devices.txt", "# a fleet\n" + "".join(f"{device}\n" for device in devices))
        command = [self.program, "survey", "--target", "L1tex", "--devices", names, *arguments]
        if ranks:
            command = [*self.mpirun(ranks), *command]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, check=False, **options
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def mpirun(self, ranks):
        if shutil.which("mpirun") is None or not pathlib.Path(self.program).with_name("gpuinfer_mpi.so").exists():
            self.skipTest("there is no MPI")
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery", "-np", str(ranks)]

    def fleet(self, name="fleet.yaml"):
        fleet = read((self.folder / name).read_text())
        self.check_schema(fleet)
        return fleet

    def check_schema(self, fleet):
        schema = copy.deepcopy(SCHEMAS["gpuinfer-fleet-1"])
        self.assertEqual(schema["properties"]["profile"].pop("$ref"), SCHEMAS["gpuinfer-1"]["$id"])
        jsonschema.Draft202012Validator(schema).validate(fleet)
        jsonschema.Draft202012Validator(SCHEMAS["gpuinfer-1"]).validate(fleet["profile"])


class Planted(FleetTest):
    def check_large_fleet(self, count, seed, *arguments, **options):
        chance = random.Random(seed)
        places = dict(zip(chance.sample(range(count), len(PLANTED)), PLANTED, strict=True))
        devices = [f"virtual:{places.get(i, 'noisy')}.yaml" for i in range(count)]
        done = self.survey(0, "--seed", str(seed), "-o", "fleet.yaml", *arguments, devices=devices, **options)
        fleet = self.fleet()
        with self.subTest(seed=seed, count=count):
            found = {one["id"]: {leaf["leaf"] for leaf in one["differs"]} for one in fleet["deviations"]}
            self.assertEqual(found, {i: PLANTED[name][1] for i, name in places.items()})
            self.assertEqual([one for one in fleet["devices"] if one["all_resolved"] is not True], [])
            self.assertEqual(fleet["less_certain"], [])
            survey = fleet["survey"]
            self.assertEqual((survey["asked"], survey["answered"], survey["common"]), (count, count, count - len(places)))
            for one in fleet["deviations"]:
                for leaf in one["differs"]:
                    self.assertEqual(leaf["evidence"]["status"], "resolved")
                self.assertTrue(one["host"])
            self.assertEqual(fleet["profile"]["caches"]["L1tex"]["ways"], [4, 4, 4, 4])
        return places, done

    def test_all_of_it_is_found_and_nothing_else(self):
        seed = random.SystemRandom().randrange(1 << 30)
        count = int(os.environ.get("GPUINFER_TEST_DEVICES", "30"))
        places, _ = self.check_large_fleet(count, seed, ranks=4)
        at = {name: i for i, name in places.items()}
        # What one of its devices is, in all verbs that take a profile.
        for name, i in at.items():
            done = self.expect(0, "show", f"fleet.yaml@{i}")
            self.assertIn(f"virtual:{name}.yaml", done.stdout)
        ways = read(self.expect(0, "export", f"fleet.yaml@{at['other-carve-out']}", "--to", "json").stdout)
        self.assertEqual(ways["caches"]["L1tex"]["ways"], [6, 6, 6, 6])
        self.expect(1, "diff", f"fleet.yaml@{at['a-set-fewer']}", "fleet.yaml")
        self.expect(0, "diff", f"fleet.yaml@{next(i for i in range(count) if i not in places)}", "fleet.yaml@common")
        self.expect(0, "--target", "L1tex", "--device", f"virtual:fleet.yaml@{at['a-set-fewer']}", "--quiet")
        table = self.expect(1, "diff", "fleet.yaml").stdout.splitlines()
        self.assertEqual(table[-1], f"3 of {count} devices deviate, 0 know more or less than the common profile")
        self.assertEqual({int(line.split()[0]) for line in table[:-1]}, set(places))
        as_json = json.loads(self.expect(1, "diff", "fleet.yaml", "--format", "json").stdout)
        self.assertEqual({leaf["id"] for leaf in as_json["leaves"]}, {str(i) for i in places})
        self.expect(2, "show", "fleet.yaml@nobody")
        self.assertFalse((self.folder / "fleet.yaml.parts").exists())

    def test_same_bytes_on_any_number_of_ranks(self):
        devices = ["virtual:noisy.yaml"] * 5 + ["virtual:slower-slice.yaml"]
        self.survey(0, "-o", "alone.yaml", devices=devices)
        self.survey(0, "-o", "three.yaml", devices=devices, ranks=3)
        self.assertEqual((self.folder / "alone.yaml").read_text(), (self.folder / "three.yaml").read_text())
        self.survey(0, "-o", "fleet.json", "--format", "json", devices=devices)
        self.assertEqual(json.loads((self.folder / "fleet.json").read_text()), self.fleet("alone.yaml"))

    def test_what_is_not_known_is_no_deviation(self):
        self.survey(3, "--budget", "2000", "-o", "fleet.yaml", devices=["virtual:noisy.yaml"] * 3)
        fleet = self.fleet()
        self.assertEqual((fleet["deviations"], fleet["less_certain"]), ([], []))
        self.assertEqual([one["all_resolved"] for one in fleet["devices"]], [False] * 3)

    def test_two_devices_in_one_process(self):
        done = self.expect(
            0, "--target", "L1tex", "--device", "virtual:noisy.yaml", "--device", "virtual:other-carve-out.yaml", "-o", "fleet.yaml"
        )
        self.assertIn("2 of 2 devices answered", done.stderr)
        self.assertNotIn("rank", done.stderr)
        self.assertEqual([one["id"] for one in self.fleet()["deviations"]], [1])
        self.expect(1, "diff", "fleet.yaml@0", "fleet.yaml@1")
        two = ("--target", "L1tex", "--device", "virtual:noisy.yaml", "--device", "virtual:noisy.yaml")
        self.assertIn("--record", self.expect(2, *two, "--record", "run.h5").stderr)
        self.expect(2, *two, "--device", "virtual:nowhere.yaml")


class Troubles(FleetTest):
    def test_bad_input(self):
        for arguments in (
            ("--device", "gtx780"),
            ("--device", "auto"),
            ("--devices", "nowhere.txt"),
            ("--device", "virtual:noisy.yaml", "--resume"),
            ("--device", "virtual:noisy.yaml", "--jobs", "0"),
        ):
            with self.subTest(arguments):
                self.expect(2, "survey", "--target", "L1tex", *arguments)
        self.expect(2, "survey", "--device", "virtual:noisy.yaml")
        self.expect(2, "diff", "noisy.yaml")
        self.assertIn("devices.txt:2", self.survey(2, devices=["noisy.yaml"]).stderr)
        self.expect(4, "survey", "--target", "L1tex", env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})

    def test_a_device_that_fails_crashes_or_hangs_is_named(self):
        devices = [
            "virtual:noisy.yaml",
            "virtual:nowhere.yaml",
            "exec:kill -9 $PPID",
            "exec:sleep 1000",
            "virtual:noisy.yaml",
        ]
        seconds = str(5 * harness.PATIENCE)
        self.survey(1, "-o", "fleet.yaml", "--device-timeout", seconds, "--jobs", "5", devices=devices)
        fleet = self.fleet()
        why = {one["id"]: one["why"] for one in fleet["failures"]}
        self.assertEqual(set(why), {1, 2, 3})
        self.assertIn("nowhere.yaml", why[1])
        self.assertIn("signal 9", why[2])
        self.assertIn("--device-timeout", why[3])
        self.assertEqual((fleet["survey"]["answered"], fleet["survey"]["common"]), (2, 2))
        self.assertIn("nowhere.yaml", self.expect(0, "diff", "fleet.yaml").stdout)
        self.expect(2, "show", "fleet.yaml@3")

    def test_resume_asks_what_is_missing(self):
        devices = ["virtual:noisy.yaml"] * 3 + ["virtual:later.yaml"]
        done = self.survey(1, "-o", "fleet.yaml", devices=devices)
        self.assertIn("--resume", done.stderr)
        self.assertIn("--resume", self.survey(2, "-o", "fleet.yaml", devices=devices).stderr)
        self.survey(2, "-o", "fleet.yaml", "--resume", "--seed", "2", devices=devices)
        self.write("later.yaml", (self.folder / "other-carve-out.yaml").read_text())
        # One that was torn while it was written.
        (self.folder / "fleet.yaml.parts/000001.json").write_text('{"kind": "res')
        done = self.survey(0, "-o", "fleet.yaml", "--resume", devices=devices)
        self.assertIn("2 were not asked again", done.stderr)
        resumed = (self.folder / "fleet.yaml").read_text()
        self.assertEqual([one["id"] for one in self.fleet()["deviations"]], [3])
        self.survey(0, "-o", "fleet.yaml", devices=devices)
        self.assertEqual((self.folder / "fleet.yaml").read_text(), resumed)

    def lose_a_rank(self, number):
        """What a survey on three ranks says of rank 2 when that gets a signal while it waits for a device."""
        slow = f"exec:sleep 2; exec {shlex.quote(str(self.program))} serve --device virtual:noisy.yaml"
        names = self.write("devices.txt", "".join(f"{device}\n" for device in [slow] * 3 + ["virtual:noisy.yaml"] * 6))
        command = [
            *self.mpirun(3), self.program, "survey", "--target", "L1tex", "--devices", names, "-o", "fleet.yaml",
            "--rank-timeout", "4", "--jobs", "1",
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as job:
            try:
                rank = self.process_of_rank(job.pid, 2)
                # It has joined the others and asks a device: before, MPI itself would wait for it.
                self.wait_until(lambda: children_of(rank))
                os.kill(rank, number)
                _, errors = job.communicate(timeout=60)
            finally:
                job.kill()
        self.wait_until(lambda: not pathlib.Path(f"/proc/{rank}").exists())
        fleet = self.fleet()
        self.assertEqual(len(fleet["lost_ranks"]), 1, errors)
        self.assertIn("rank 2", fleet["lost_ranks"][0])
        self.assertEqual([("rank 2" in one["why"]) for one in fleet["failures"]], [True])
        self.assertEqual((fleet["survey"]["answered"], fleet["survey"]["deviating"]), (8, 0))
        done = self.survey(0, "-o", "fleet.yaml", "--resume", devices=[slow] * 3 + ["virtual:noisy.yaml"] * 6)
        self.assertIn("8 were not asked again", done.stderr)

    def wait_until(self, holds):
        """What it gives as soon as that is something."""
        for _ in range(600):
            if found := holds():
                return found
            time.sleep(0.05)
        self.fail("waited for 30 s in vain")

    def process_of_rank(self, job, rank):
        mark = f"OMPI_COMM_WORLD_RANK={rank}".encode()

        def find():
            for child in children_of(job):
                try:
                    if mark in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                        return child
                except OSError:
                    pass
            return None

        return self.wait_until(find)

    def test_a_rank_that_is_killed_is_named_and_the_rest_goes_on(self):
        self.lose_a_rank(signal.SIGKILL)

    @unittest.skipUnless("GPUINFER_TEST_DEVICES" in os.environ, "mpirun takes its time to end a rank that hangs")
    def test_a_rank_that_hangs_is_named_and_ended(self):
        self.lose_a_rank(signal.SIGSTOP)

    def slow_survey_on_ranks(self):
        slow = f"exec:sleep 60; exec {shlex.quote(str(self.program))} serve --device virtual:noisy.yaml"
        names = self.write("devices.txt", f"virtual:noisy.yaml\n{slow}\n{slow}\n{slow}\n")
        command = [
            *self.mpirun(3), self.program, "survey", "--target", "L1tex", "--devices", names, "-o", "fleet.yaml",
            "--rank-timeout", "3", "--jobs", "1",
        ]  # fmt: skip
        job = subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        ranks = [self.process_of_rank(job.pid, rank) for rank in range(3)]
        self.wait_until((self.folder / "fleet.yaml.parts/000000.json").exists)
        return job, ranks

    def check_end(self, job, ranks):
        _, errors = job.communicate(timeout=60)
        self.wait_until(lambda: not any(pathlib.Path(f"/proc/{rank}").exists() for rank in ranks))
        return errors

    def test_the_first_rank_is_lost(self):
        for how in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(how):
                job, ranks = self.slow_survey_on_ranks()
                os.kill(ranks[0], how)
                errors = self.check_end(job, ranks)
                self.assertIn("rank 0 said nothing for 3 s (--rank-timeout), so all ranks end", errors)
                self.assertTrue((self.folder / "fleet.yaml.parts/000000.json").exists())
                shutil.rmtree(self.folder / "fleet.yaml.parts")

    def test_an_interrupt_of_all_ranks_keeps_what_is_there(self):
        """The first rank has time to write, since no other one ends before it."""
        job, ranks = self.slow_survey_on_ranks()
        job.send_signal(signal.SIGTERM)
        self.check_end(job, ranks)
        self.assertEqual((self.fleet()["survey"]["answered"], len(self.fleet()["failures"])), (1, 3))

    def test_interrupt_keeps_what_is_there(self):
        slow = f"exec:sleep 20; exec {shlex.quote(str(self.program))} serve --device virtual:noisy.yaml"
        names = self.write("devices.txt", f"virtual:noisy.yaml\n{slow}\n")
        command = [self.program, "survey", "--target", "L1tex", "--devices", names, "-o", "fleet.yaml", "--jobs", "2"]
        with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True) as job:
            try:
                self.wait_until((self.folder / "fleet.yaml.parts/000000.json").exists)
                job.send_signal(signal.SIGINT)
                _, errors = job.communicate(timeout=20)
            finally:
                job.kill()
        self.assertEqual(job.returncode, 3, errors)
        self.assertIn("was not asked", self.fleet()["failures"][0]["why"])
        self.assertTrue((self.folder / "fleet.yaml.parts/000000.json").exists())


if __name__ == "__main__":
    harness.main()
