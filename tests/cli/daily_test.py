# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""diff, doctor, and what other people recorded."""

import collections
import json
import os
import pathlib

import harness

SMALL = harness.CACHE
OPENED_UP = SMALL + (
    "evidence:\n  L1tex:\n    replacement: {status: ambiguous, alternatives: [{policy: lru}, {policy: fifo}], reason: test}\n"
)


class Diff(harness.ProgramTest):
    def diff(self, status, first, second, *options):
        return self.expect(status, "diff", self.write("first.yaml", first), self.write("second.yaml", second), *options)

    def test_the_same(self):
        done = self.diff(0, SMALL, SMALL)
        self.assertRegex(done.stdout, r"^0 differ, 0 less certain, \d+ the same, 0 known to neither\n$")

    def test_a_line_for_each_difference(self):
        other = SMALL.replace("hit: 30", "hit: 33").replace("[6, 7]", "[7, 6]").replace("policy: lru", "policy: fifo")
        lines = self.diff(1, SMALL, other).stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in lines[:-1]], [["L1tex.replacement", "differs"], ["L1tex.latency_cycles", "differs"]])
        self.assertIn("hit +3 (+10 %)", lines[1])
        self.assertTrue(lines[-1].startswith("2 differ, 0 less certain"))
        self.assertIn("L1tex.index", self.diff(1, SMALL, other, "--all").stdout)

    def test_less_certain_is_no_difference(self):
        unsure = OPENED_UP.replace("    replacement: {policy: lru}", "    replacement: null")
        lines = self.diff(0, SMALL, unsure).stdout.splitlines()
        self.assertRegex(lines[0], r"^L1tex\.replacement  less certain  \{policy: lru\}  null  the second says ambiguous, this among others$")

    def test_the_device_is_told_and_does_not_count(self):
        lines = self.diff(0, SMALL, SMALL.replace("name: Small", "name: Large")).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["device.name", "(not", "counted)", "Small", "Large"])

    def test_json(self):
        found = json.loads(self.diff(1, SMALL, SMALL.replace("hit: 30", "hit: 31"), "--format=json").stdout)
        self.assertEqual(found["counts"]["differs"], 1)
        (leaf,) = found["leaves"]
        self.assertEqual((leaf["section"], leaf["leaf"], leaf["verdict"]), ("L1tex", "latency_cycles", "differs"))
        self.assertEqual(leaf["second"], {"hit": 31, "miss": 200})

    def test_published_names_and_targets(self):
        self.expect(0, "diff", "gtx780", "gtx780")
        lines = self.expect(1, "diff", "gtx780", "gtx980", "--target", "l1tex").stdout.splitlines()
        self.assertEqual({line.split(".")[0] for line in lines[:-1]}, {"L1tex", "device"})
        self.expect(2, "diff", "gtx780", "gtx980", "--target", "Texture2D")

    def test_recordings_of_runs(self):
        self.expect(0, "--target=L1tex", f"--device=virtual:{self.small}", "--record=run.h5", "-o", "profile.yaml", "--quiet")
        self.assertTrue(self.expect(0, "diff", "run.h5", "profile.yaml").stdout.startswith("device.source"))
        self.expect(0, "probe", "--target=L1tex", f"--device=virtual:{self.small}", "--sequence=cyclic:2K,32", "--record=probe.h5")
        self.assertIn("gpuinfer infer", self.expect(2, "diff", "probe.h5", "profile.yaml").stderr)

    def test_bad_input(self):
        self.expect(2, "diff", self.small)
        self.expect(2, "diff", self.small, "nowhere.yaml")
        self.expect(2, "diff", self.small, self.small, "--format", "xml")
        self.expect(2, "diff", self.small, self.write("bad.yaml", SMALL + "    colour: red\n"))


class Doctor(harness.ProgramTest):
    def doctor(self, status, *options, **environment):
        done = self.run_program("doctor", *options, env=os.environ | harness.WITHOUT_GPU | environment)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        return done.stdout

    def checks(self, status, *options, **environment):
        return {check["check"]: check for check in json.loads(self.doctor(status, "--format=json", *options, **environment))}

    def test_without_a_gpu(self):
        lines = self.doctor(4).splitlines()
        if "built with CUDA" in lines[0]:
            self.assertRegex(lines[0], r"for compute capability \d+\.\d(, \d+\.\d)* and newer")
        for line in lines:
            self.assertRegex(line, r"^(ok|warn|fail) ")
            # What does not work has a next action.
            self.assertTrue(line.startswith("ok") or ";" in line, line)
        self.assertTrue(any(line.startswith("fail  CUDA devices") for line in lines))
        self.assertTrue(any(line.startswith("fail  Vulkan devices") for line in lines))
        self.assertTrue(any(line.startswith("ok    recordings") for line in lines))

    def test_a_simulated_device_needs_no_gpu(self):
        self.assertIn("offers L1tex", self.doctor(0, "--device", f"virtual:{self.small}"))
        self.expect(2, "doctor", "--device", "virtual:nowhere")
        self.expect(2, "doctor", "--device", "cuda:x")
        self.assertIn("fail", self.doctor(4, "--device", "exec:true"))
        for device in ("cuda:1000", "vulkan:0"):
            self.doctor(4, "--device", device)

    def test_missing_data_will_not_work(self):
        # Only what is asked for with GPUINFER_DATA is broken.
        (self.folder / "configs/devices").mkdir(parents=True)
        (self.folder / "configs/devices/bad.yaml").write_text("schema: gpuinfer/1\ncolour: red\n")
        found = self.checks(3, f"--device=virtual:{self.small}", GPUINFER_DATA=str(self.folder))
        self.assertEqual(found["published devices"]["status"], "fail")
        self.assertIn("bad.yaml", found["published devices"]["seen"])

    def test_mps(self):
        self.assertEqual(self.checks(4, CUDA_MPS_PIPE_DIRECTORY=str(self.folder))["MPS"]["status"], "ok")
        self.write("control", "")
        self.assertEqual(self.checks(4, CUDA_MPS_PIPE_DIRECTORY=str(self.folder))["MPS"]["status"], "warn")

    def test_what_the_driver_says(self):
        (self.folder / "libnvidia-ml.so.1").symlink_to(os.environ["FAKE_NVML"])
        said = {
            "gpus": "1",
            "compute_mode": "2",
            "mig": "1",
            "sm_clock": "345",
            "sm_clock_limit": "1980",
            "reasons": str(0x1 | 0x40),
            "processes": "4711 815",
            "ecc": "1",
            "corrected": "5",
            "uncorrected": "1",
            "rows_after_corrected": "0",
            "rows_after_uncorrected": "0",
        }
        environment = {f"FAKE_NVML_{quantity}": value for quantity, value in said.items()}
        found = self.checks(4, LD_LIBRARY_PATH=str(self.folder), **environment)
        self.assertEqual(found["driver"]["seen"], "version 580.65.06, 1 GPU")
        gpu = {name.removeprefix("GPU 0 (NVIDIA Fake) "): check for name, check in found.items() if name.startswith("GPU 0")}
        self.assertEqual(
            {name: check["status"] for name, check in gpu.items()},
            {"compute mode": "fail", "MIG": "warn", "clocks": "warn", "other processes": "warn", "ECC": "warn"},
        )
        self.assertEqual(gpu["clocks"]["seen"], "SM 345 MHz of at most 1980, set by idleness, held down by thermal slowdown by the hardware")
        self.assertTrue(gpu["other processes"]["seen"].startswith("2 with a compute context"))
        self.assertIn("5 errors corrected, 1 uncorrected", gpu["ECC"]["seen"])
        environment["FAKE_NVML_init"] = "error 9"
        found = self.checks(4, LD_LIBRARY_PATH=str(self.folder), **environment)
        self.assertIn("Driver Not Loaded", found["driver"]["seen"])


def chase(size, stride, laps, sets=4, ways=4, line=64):
    """Latencies of an LRU cache after one lap."""
    cache = [collections.OrderedDict() for _ in range(sets)]

    def load(address):
        tag = address // line
        lines = cache[tag % sets]
        hit = tag in lines
        lines[tag] = True
        lines.move_to_end(tag)
        if len(lines) > ways:
            lines.popitem(last=False)
        return hit

    offsets = range(0, size, stride)
    for offset in offsets:
        load(offset)
    return [30 + i % 3 if load(offset) else 200 + i % 4 for i, offset in enumerate(list(offsets) * laps)]


class OthersRecordings(harness.ProgramTest):
    """Of a cache of 1024 bytes: 4 sets, 4 ways, lines of 64 bytes."""

    def rows(self, name, header, sizes, stride=4):
        text = header + "".join(",".join(map(str, [size] + chase(size, stride, 2))) + "\n" for size in sizes)
        return self.write(name, text)

    def inferred(self, *files):
        profile = json.loads(self.expect(3, "infer", *files, "--quiet", "--format=json").stdout)
        return profile["caches"]["L1tex"], profile["evidence"]["L1tex"]

    def test_sizes_of_mt4g(self):
        cache, evidence = self.inferred(self.rows("sizes.csv", "# stride 4\n", range(512, 1600, 32)))
        self.assertIn(cache["capacity_bytes"], (1024, None))
        self.assertIn(cache["line_bytes"], (64, None))
        self.assertEqual(cache["line_bytes"], 64)
        self.assertIn("arrays of 1024 bytes fit, and of 1056 bytes do not", evidence["onset_bytes"].get("reason", ""))
        self.assertIn({"policy": "lru"}, evidence["replacement"]["alternatives"])

    def test_sizes_up_to_twice_the_cache_tell_the_onset(self):
        cache, evidence = self.inferred(self.rows("sizes.csv", "size,latency\n# stride 4\n", range(512, 2112, 64)))
        self.assertEqual(evidence["onset_bytes"]["status"], "resolved")
        self.assertEqual(cache["onset_bytes"], 1024)
        self.assertIn(cache["ways"], ([4, 4, 4, 4], None))

    def test_sizes_far_apart_do_not_tell_the_capacity(self):
        cache, evidence = self.inferred(self.rows("sizes.csv", "# stride 4\n", (512, 768, 2048, 4096)))
        self.assertIsNone(cache["capacity_bytes"])
        self.assertIsNone(cache["ways"])
        self.assertIsNone(cache.get("onset_bytes"))
        self.assertIn("arrays of 768 bytes fit, and of 2048 bytes do not", evidence["onset_bytes"]["reason"])
        details = evidence["capacity_bytes"]
        self.assertEqual(details["largest_array_without_miss_bytes"], 768)
        self.assertEqual(details["smallest_array_with_misses_bytes"], 2048)
        self.assertEqual(evidence["index"]["bytes_that_miss_together"], [[0, 2047]])

    def test_sizes_in_unknown_steps_tell_the_onset(self):
        rows = "".join(",".join(map(str, [size] + chase(size, 32, 2)[size // 32 : size // 32 + 16])) + "\n" for size in range(512, 1600, 64))
        cache, evidence = self.inferred(self.write("L1 Size.txt", rows))
        self.assertIn("arrays of 1024 bytes fit, and of 1088 bytes do not", evidence["onset_bytes"]["reason"])
        self.assertEqual(evidence["capacity_bytes"]["smallest_array_with_misses_bytes"], 1088)
        self.assertEqual(cache["latency_cycles"], {"hit": 31, "miss": 202})
        self.assertIsNone(cache["capacity_bytes"])
        self.expect(2, "validate", self.small, "L1 Size.txt")

    def test_rows_with_strides(self):
        rows = [[stride, size] + chase(size, stride, 2) for stride in (4, 8, 16, 32, 64, 128) for size in (1024, 2048)]
        cache, _ = self.inferred(self.write("lines.csv", "".join(",".join(map(str, row)) + "\n" for row in rows)))
        for leaf, true in (("capacity_bytes", 1024), ("line_bytes", 64), ("sector_bytes", 64), ("ways", [4, 4, 4, 4])):
            self.assertIn(cache[leaf], (true, None), leaf)
        self.assertEqual(cache["sector_bytes"], 64)

    def test_sequences_over_one_set(self):
        cache, evidence = self.inferred(
            self.write("set.txt", "<wbinvd> B0 B1 B2 B3 B0? -> 1\n<wbinvd> B0 B1 B2 B3 B0 B4 B0? B1? -> HIT MISS\n")
        )
        self.assertEqual({leaf for leaf in ("capacity_bytes", "ways", "replacement") if cache[leaf] is not None}, set())
        alternatives = evidence["replacement"]["alternatives"]
        self.assertIn({"policy": "lru"}, alternatives)
        self.assertNotIn({"policy": "fifo"}, alternatives)

    def test_bad_files(self):
        self.assertIn("sizes.csv:1", self.expect(2, "validate", self.small, self.rows("sizes.csv", "", (512, 1024))).stderr)
        self.assertIn("set.txt:1", self.expect(2, "infer", self.write("set.txt", "B0 B0? -> 1\n")).stderr)
        rows = self.write("set.txt", "<wbinvd> B0 B0? -> 1\n")
        self.assertIn("set.txt", self.expect(2, "validate", self.small, rows).stderr)
        self.assertIn("small.csv", self.expect(2, "infer", rows, self.write("small.csv", "0,30\n")).stderr)


class Devices(harness.ProgramTest):
    def test_lists_what_each_can_do(self):
        lines = self.expect(0, "list", "devices").stdout.splitlines()
        # Columns are two blanks apart; a path may have one.
        columns = [[column for column in line.split("  ") if column] for line in lines]
        targets = {line[0].rsplit("/")[-1]: line[-1].split() for line in columns}
        self.assertIn("Shared", targets["virtual:gtx980"])
        self.assertEqual(targets["h200.h5"][:3], ["L1tex", "ReadOnly", "Texture"])
        self.assertIn("Bandwidth", targets["h200.h5"])


if __name__ == "__main__":
    assert pathlib.Path(os.environ["FAKE_NVML"]).is_file()
    harness.main()
