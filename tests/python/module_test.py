#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""module_test.py GPUINFER: the Python module against the program, and against what it must refuse."""

import base64
import contextlib
import csv
import doctest
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import matplotlib
import numpy
from matplotlib import pyplot

import gpuinfer

matplotlib.use("Agg")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ROOT / "configs" / "devices"
PROGRAM = None

SMALL = """
schema: gpuinfer/1
device: {name: Small}
caches:
  L1tex:
    line_bytes: 64
    sector_bytes: 32
    ways: [2, 2]
    index: {kind: bits, bits: [6]}
    replacement: {policy: lru}
    latency_cycles: {hit: 30, miss: 200}
  open: {line_bytes: 64, ways: null}
"""


def program(*arguments, statuses=(0,)):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in statuses:
        raise AssertionError(f"{arguments}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def published(name):
    return gpuinfer.Profile.load(DEVICES / f"{name}.yaml")


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)


class Profiles(Scratch):
    def test_a_profile_as_python_objects(self):
        file = ROOT / "data" / "h200" / "h200.yaml"
        profile = gpuinfer.Profile.load(file)
        self.assertEqual(profile.device["name"], "NVIDIA H200")
        self.assertEqual(profile.caches["ConstL1"]["ways"], [4] * 8)
        leaf = profile.leaf("ConstL1", "replacement")
        self.assertEqual((leaf.value["policy"], leaf.status), ("plru", "resolved"))
        self.assertGreater(leaf.evidence["confidence"], 0.9)
        self.assertEqual(profile.to_yaml(), file.read_text())

    def test_what_is_not_proven_is_none(self):
        profile = gpuinfer.Profile.load(ROOT / "data" / "h200" / "h200.yaml")
        leaf = profile.leaf("outstanding", "entries")
        self.assertIsNone(leaf.value)
        self.assertNotEqual(leaf.status, "resolved")
        self.assertFalse(profile.resolved)

    def test_there_and_back(self):
        profile = published("gtx780")
        self.assertFalse(profile.resolved)  # nobody inferred it
        self.assertEqual(gpuinfer.Profile.parse(profile.to_yaml()), profile)
        self.assertEqual(gpuinfer.Profile.parse(profile.to_json()), profile)
        changed = profile.to_dict()
        self.assertEqual(gpuinfer.Profile.from_dict(changed), profile)
        changed["device"]["name"] = "other"
        self.assertNotEqual(gpuinfer.Profile.from_dict(changed), profile)
        profile.save(self.folder / "saved.yaml")
        self.assertEqual(gpuinfer.Profile.load(str(self.folder / "saved.yaml")), profile)

    def test_errors_are_those_of_the_program(self):
        wrong = self.folder / "wrong.yaml"
        wrong.write_text("schema: gpuinfer/1\ncaches: {L1tex: {line_byte: 32}}\n")
        with self.assertRaises(gpuinfer.InputError) as raised:
            gpuinfer.Profile.load(wrong)
        done = subprocess.run([PROGRAM, "show", wrong], capture_output=True, text=True, check=False)
        self.assertEqual(f"gpuinfer: {raised.exception}\n", done.stderr)
        self.assertIsInstance(raised.exception, ValueError)
        self.assertIsInstance(raised.exception, gpuinfer.Error)
        for call in (
            lambda: gpuinfer.Profile.load(self.folder / "absent.yaml"),
            lambda: gpuinfer.Profile.parse("schema: gpuinfer/2"),
            lambda: published("gtx780").leaf("L1tex", "size"),
            lambda: published("gtx780").leaf("L3", "ways"),
        ):
            with self.assertRaises(gpuinfer.InputError):
                call()


    def test_published_devices_by_name(self):
        self.assertEqual(gpuinfer.Profile.load("gtx780"), published("gtx780"))
        with self.assertRaisesRegex(gpuinfer.InputError, "`gtx79` is neither a file nor the name of a published device"):
            gpuinfer.Profile.load("gtx79")

    def test_leaves_of_every_section(self):
        profile = gpuinfer.Profile.load(ROOT / "data" / "h200" / "h200.yaml")
        leaves, data = profile.leaves(), profile.to_dict()
        self.assertEqual(profile.leaf("bandwidth", "L1").value, data["bandwidth"]["L1"])
        self.assertEqual(profile.leaf("shared_memory", "banks").status, "resolved")
        self.assertEqual(profile.leaf("Instruction", "levels").value, data["code"]["Instruction"]["levels"])
        for section, evidence in profile.evidence.items():
            for name, entry in evidence.items():
                if isinstance(entry, dict) and "status" in entry:
                    self.assertEqual(leaves[section][name].status, entry["status"], (section, name))
        with self.assertRaisesRegex(gpuinfer.InputError, "bandwidth: has no `L9`; it has DRAM_copy"):
            profile.leaf("bandwidth", "L9")

    def test_the_picture_is_that_of_the_program(self):
        profile = published("gtx780")
        program("show", "gtx780", "-o", self.folder / "picture.svg")
        self.assertEqual(profile.to_svg(), (self.folder / "picture.svg").read_text())
        html = profile._repr_html_()
        picture = re.fullmatch(r'<img alt="The caches of GeForce GTX 780" .* src="data:image/svg\+xml;base64,(.*)">', html)
        self.assertEqual(base64.b64decode(picture.group(1)).decode(), profile.to_svg())


class Devices(Scratch):
    def test_a_device_is_found_out_as_by_the_program(self):
        file = self.folder / "recording.h5"
        found = gpuinfer.Profile.infer("virtual:gtx780", ["L1tex", "Shared"], seed=3, record=file)
        text = program(
            "--target=L1tex", "--target=Shared", "--device=virtual:gtx780", "--seed=3", "--quiet", "--format=json"
        )
        self.assertEqual(found.to_dict(), json.loads(text))
        self.assertTrue(file.exists())

    def test_what_cannot_be_asked(self):
        for error, device, targets in (
            (gpuinfer.InputError, "virtual:gtx79", "L1tex"),
            (gpuinfer.InputError, "virtual:gtx780", "L9"),
            (gpuinfer.DeviceError, "cuda:1000", "L1tex"),
        ):
            with self.subTest(device), self.assertRaises(error):
                gpuinfer.Profile.infer(device, targets)
        with self.assertRaises(gpuinfer.DeviceError):
            gpuinfer.Device("cuda:1000")

    def test_one_experiment(self):
        lap = numpy.arange(0, 385 * 32, 32)
        with gpuinfer.Device("virtual:gtx780") as device:
            self.assertEqual(device.name, "GeForce GTX 780")
            self.assertIn("L1tex", device.targets)
            cycles = device.ask("L1tex", lap, warm=lap)
            self.assertEqual((cycles > 165).tolist(), published("gtx780").simulate("L1tex", lap, warm=lap).tolist())
            with self.assertRaisesRegex(gpuinfer.Refused, "has no cache L9"):
                device.ask("L9", [0])
            with self.assertRaisesRegex(gpuinfer.InputError, "record: -4 is negative"):
                device.ask("L1tex", [-4])
            self.assertLess(device.ask("L1tex", [0], state="keep", warm=[0])[0], 165)
        with self.assertRaisesRegex(ValueError, "the device is closed"):
            device.ask("L1tex", [0])

    def test_a_recording_holds_what_was_asked(self):
        file = self.folder / "recording.h5"
        program("probe", "--target=L1tex", "--device=virtual:gtx780", "--sequence=cyclic:96,32,2", "--record", file)
        (trace,) = gpuinfer.read_traces(file)
        self.assertEqual((trace.target, trace.state), ("L1tex", "clean"))
        self.assertEqual(list(gpuinfer.read_traces(file, "L2")), [])
        self.assertEqual(trace.offsets.dtype, numpy.uint64)
        self.assertEqual(len(trace.offsets), len(trace.latencies))
        self.assertEqual(set(trace.offsets.tolist()), {0, 32, 64})
        rows = self.folder / "rows.csv"
        rows.write_text("offset,latency\n0,200\n0,30\n")
        (trace,) = gpuinfer.read_traces(rows)
        self.assertEqual((trace.offsets.tolist(), trace.latencies.tolist(), trace.state), ([0, 0], [200, 30], None))


class Plots(unittest.TestCase):
    """Each plot has the numbers of the profile or the recording."""

    def setUp(self):
        self.h200 = gpuinfer.Profile.load(ROOT / "data" / "h200" / "h200.yaml")
        self.addCleanup(pyplot.close, "all")

    def test_levels(self):
        axes = gpuinfer.plot_levels(self.h200)
        drawn = dict(zip((text.get_text() for text in axes.get_yticklabels()), (bar.get_width() for bar in axes.patches)))
        self.assertEqual(drawn["L1tex"], self.h200.caches["L1tex"]["latency_cycles"]["hit"])
        self.assertEqual(list(drawn.values()), sorted(drawn.values(), reverse=True))

    def test_carveouts(self):
        (line,) = gpuinfer.plot_carveouts(self.h200).get_lines()
        self.assertEqual(
            [tuple(point) for point in line.get_xydata()],
            [(each["carveout_kb"], each["onset_bytes"] / 1024) for each in self.h200.caches["L1tex"]["carveouts"]],
        )
        with self.assertRaisesRegex(gpuinfer.InputError, "L1tex: has no `carveouts`"):
            gpuinfer.plot_carveouts(published("gtx780"))

    def test_misses(self):
        _, axes = pyplot.subplots()
        self.assertIs(gpuinfer.plot_misses(published("gtx780"), sizes=[12288, 12320, 24576], ax=axes), axes)
        (line,) = axes.get_lines()
        numpy.testing.assert_allclose(line.get_ydata(), [0, 100 * 97 / 385, 100])

    def test_latencies(self):
        trace = gpuinfer.Trace(offsets=[0] * 6, latencies=[30, 30, 30, 30, 200, 200])
        heights = [bar.get_height() for bar in gpuinfer.plot_latencies([trace], bins=2).patches]
        self.assertEqual(heights, [4, 2])
        with self.assertRaisesRegex(gpuinfer.InputError, "there is no recorded load"):
            gpuinfer.plot_latencies([])


class Simulators(Scratch):
    def test_outcomes_are_those_of_the_program(self):
        for device, cache, sequence, offsets in (
            ("gtx780", "L1tex", "cyclic:12320,32,3", numpy.tile(numpy.arange(0, 12320, 32), 3)),
            ("gtx780-sectored", "L1tex", "cyclic:12800,16,2", numpy.tile(numpy.arange(0, 12800, 16), 2)),
            ("gtx560ti", "L1D", "cyclic:20480,128,20", numpy.tile(numpy.arange(0, 20480, 128), 20)),
            ("gtx780", "L2TLB", "cyclic:160M,2M,2", numpy.tile(numpy.arange(0, 160 << 20, 2 << 20), 2)),
        ):
            with self.subTest(device=device, cache=cache):
                words = ["hit", "sector_miss", "line_miss"]
                output = program("simulate", device, "--target", cache, "--sequence", sequence, "--seed", 7)
                rows = list(csv.DictReader(output.splitlines()))
                self.assertEqual([int(row["offset"]) for row in rows], offsets.tolist())
                simulator = gpuinfer.CacheSimulator(published(device), cache, seed=7)
                outcomes = simulator.outcomes(offsets)
                self.assertEqual([words[outcome] for outcome in outcomes], [row["outcome"] for row in rows])

    def test_a_small_cache_by_hand(self):
        profile = gpuinfer.Profile.parse(SMALL)
        #          miss sector hit  other set  evicts nothing; 0 is younger, 128 goes
        offsets = [0,    32,   0,   64,        128,            0, 256, 128]
        expected = [2,   1,    0,   2,         2,              0, 2,   2]
        for given in (
            offsets, tuple(offsets), numpy.array(offsets, numpy.int32), numpy.array(offsets, numpy.uint16),
            numpy.array(offsets * 2, numpy.uint64).reshape(2, -1).T.copy()[:, 0],
        ):
            simulator = gpuinfer.CacheSimulator(profile, "L1tex")
            outcomes = simulator.outcomes(given)
            self.assertEqual((outcomes.tolist(), outcomes.dtype), (expected, numpy.uint8))
            simulator.put_into("clean")
            misses = simulator.misses(given)
            self.assertEqual((misses.tolist(), misses.dtype), ([bool(outcome) for outcome in expected], numpy.bool_))
            simulator.put_into("clean")
            self.assertEqual(simulator.latencies(given).tolist(), [200 if outcome else 30 for outcome in expected])

    def test_arrays_that_are_read_only_empty_or_far_away(self):
        simulator = gpuinfer.CacheSimulator(gpuinfer.Profile.parse(SMALL), "L1tex", address=1 << 40)
        offsets = numpy.array([0, 0], numpy.uint64)
        offsets.flags.writeable = False
        self.assertEqual(simulator.misses(offsets).tolist(), [True, False])
        self.assertEqual(simulator.misses([]).tolist(), [])
        for wrong in ([-1], [0.0], [True], ["0"], [[0]], [None], numpy.array([2**64 - 1], numpy.uint64), [0, -5]):
            with self.subTest(wrong=wrong), self.assertRaises(gpuinfer.InputError):
                simulator.misses(wrong)

    def test_what_cannot_be_simulated(self):
        profile = gpuinfer.Profile.parse(SMALL)
        for cache in ("open", "absent"):
            with self.assertRaisesRegex(gpuinfer.InputError, cache):
                gpuinfer.CacheSimulator(profile, cache)
        with self.assertRaisesRegex(gpuinfer.InputError, "global"):
            gpuinfer.PathSimulator(profile)
        with self.assertRaisesRegex(gpuinfer.InputError, "dirty"):
            gpuinfer.CacheSimulator(profile, "L1tex").put_into("dirty")

    def test_a_path_is_that_of_the_program(self):
        output = program("simulate", "gtx780", "--path", "global", "--sequence", "cyclic:34M,2M,3")
        rows = list(csv.DictReader(output.splitlines()))
        path = gpuinfer.PathSimulator(published("gtx780"))
        levels, translations, cycles = path.play([int(row["offset"]) for row in rows])
        self.assertEqual([path.levels[level] for level in levels], [row["data"] for row in rows])
        names = ["none", "L1TLB", "L2TLB", "walk", "walk"]
        self.assertEqual([names[translation] for translation in translations], [row["translation"] for row in rows])
        self.assertEqual(cycles.tolist(), [float(row["latency_cycles"]) for row in rows])

    def test_threads_play_at_the_same_time_as_python_runs(self):
        profile = published("gtx780")
        offsets = numpy.random.default_rng(1).integers(0, 24576, 1_000_000)
        expected = gpuinfer.CacheSimulator(profile, "L1tex").misses(offsets)
        found = {}

        def play(number):
            found[number] = gpuinfer.CacheSimulator(profile, "L1tex").misses(offsets)

        threads = [threading.Thread(target=play, args=(number,)) for number in range(2)]
        ticks = 0
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            ticks += 1
            time.sleep(0.0005)
        for number in range(2):
            numpy.testing.assert_array_equal(found[number], expected)
        # Had they kept the interpreter, this thread would have run at their beginnings and ends alone.
        self.assertGreater(ticks, 5)

    def test_one_simulator_of_two_threads(self):
        simulator = gpuinfer.CacheSimulator(published("gtx780"), "L1tex")
        offsets = numpy.arange(0, 12288, 32)
        simulator.misses(offsets)
        missed = []

        def play():
            missed.extend(simulator.misses(numpy.tile(offsets, 500)).any() for _ in range(5))

        threads = [threading.Thread(target=play) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(missed, [False] * 10)


class Inference(Scratch):
    def test_recordings_as_the_program_explains_them(self):
        chase = numpy.tile(numpy.arange(0, 12320, 32), 4)
        simulator = gpuinfer.CacheSimulator(published("gtx780"), "L1tex")
        latencies = simulator.latencies(chase)
        rows = self.folder / "chase.csv"
        rows.write_text("".join(f"{offset},{cycles:g}\n" for offset, cycles in zip(chase, latencies)))
        expected = json.loads(program("infer", rows, "--format=json", "--quiet", statuses=(0, 3)))
        profile = gpuinfer.infer([gpuinfer.Trace(chase, latencies)])
        self.assertEqual(profile.caches, expected["caches"])
        self.assertEqual(profile.evidence, expected["evidence"])

    def test_what_recordings_must_be(self):
        trace = gpuinfer.Trace
        for traces in (
            [], [trace([0, 4], [30.0])], [trace([0], [numpy.nan])], [trace([0], [-1])], [trace([-4], [30])],
            [trace([0], ["30"])], [trace([0], [30], state="dirty")], [trace([0], [30], warm=[0.5])],
        ):
            with self.subTest(traces=traces), self.assertRaises(gpuinfer.InputError):
                gpuinfer.infer(traces)

    @staticmethod
    def answering(profile, refused=()):
        simulator = gpuinfer.CacheSimulator(profile, "L1tex")

        def answer(question):
            if question.state in refused:
                raise gpuinfer.Refused(f"{question.state} is not to be had here")
            simulator.put_into(question.state)
            simulator.outcomes(question.warm)
            return simulator.latencies(question.record)

        return answer

    def test_a_function_is_found_out_as_the_device_it_is(self):
        profile = gpuinfer.infer_device(self.answering(published("gtx780")), buffer_bytes=1 << 20, device="mine")
        self.assertTrue(profile.resolved)
        self.assertEqual(profile.device["name"], "mine")
        cache = profile.caches["L1tex"]
        self.assertEqual((cache["line_bytes"], cache["ways"]), (32, [96] * 4))
        self.assertEqual((cache["index"]["bits"], cache["replacement"]), ([7, 8], {"policy": "lru"}))

    def test_a_function_that_refuses_a_state_is_asked_for_another(self):
        small = gpuinfer.Profile.parse(SMALL.replace("ways: [2, 2]", "ways: [4, 4]"))
        profile = gpuinfer.infer_device(self.answering(small, refused=("clean",)), buffer_bytes=1 << 16)
        cache = profile.caches["L1tex"]
        self.assertEqual((cache["line_bytes"], cache["sector_bytes"], cache["ways"]), (64, 32, [4, 4]))
        self.assertIn("index", cache)

    def test_a_budget_ends_it(self):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            profile = gpuinfer.infer_device(self.answering(published("gtx780")), buffer_bytes=1 << 20, budget=500)
        self.assertFalse(profile.resolved)
        self.assertTrue(any("budget" in str(each.message) for each in warned))

    def test_what_a_function_raises_comes_out(self):
        def fails(question):
            raise KeyError(question.state)

        with self.assertRaises(KeyError):
            gpuinfer.infer_device(fails, buffer_bytes=1 << 20)
        for wrong in (
            {"buffer_bytes": 0}, {"buffer_bytes": 1.5}, {"seed": -1}, {"address": 1 << 64}, {"budget": "much"},
            {"timeout": -1}, {"timeout": float("inf")},
        ):
            with self.subTest(wrong=wrong), self.assertRaises(gpuinfer.InputError):
                gpuinfer.infer_device(fails, **({"buffer_bytes": 1 << 20} | wrong))
        for said in ([1], "soon", None):
            with self.subTest(said=said), self.assertRaises(gpuinfer.InputError):
                gpuinfer.infer_device(lambda question: said if question.record.size > 1 else [30], buffer_bytes=1 << 20)


class Documentation(unittest.TestCase):
    def test_everything_public_is_explained(self):
        for name in gpuinfer.__all__:
            self.assertTrue(getattr(gpuinfer, name).__doc__, name)
    def test_examples(self):
        text = (ROOT / "docs" / "packages.md").read_text()
        blocks = re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/packages.md", None, 0)
        self.assertGreater(len(examples.examples), 20)
        with contextlib.chdir(ROOT):
            result = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(examples)
        self.assertEqual(result.failed, 0)

    def test_version(self):
        self.assertEqual(gpuinfer.__version__, program("--version").split()[-1])


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
