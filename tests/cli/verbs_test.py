# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""What the verbs give when all is well."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import harness


def rows(done):
    return list(csv.DictReader(io.StringIO(done.stdout)))


class Help(harness.ProgramTest):
    def test_every_verb_begins_with_examples(self):
        verbs = re.findall(r"^  (\w+) +\w", self.expect(0, "--help").stdout, re.MULTILINE)
        self.assertIn("survey", verbs)
        for verb in verbs:
            with self.subTest(verb):
                lines = self.expect(0, verb, "--help").stdout.splitlines()
                self.assertTrue(lines[0].startswith("gpuinfer "))
                self.assertIn(f"Usage: gpuinfer {verb}", "\n".join(lines))

    def test_version(self):
        self.assertRegex(self.expect(0, "--version").stdout, r"^gpuinfer \d+\.\d+\.\d+\n$")


    def test_help_and_version_are_verbs(self):
        self.assertEqual(self.expect(0, "help").stdout, self.expect(0, "--help").stdout)
        self.assertEqual(self.expect(0, "help", "show").stdout, self.expect(0, "show", "--help").stdout)
        self.assertEqual(self.expect(0, "version").stdout, self.expect(0, "--version").stdout)

    def test_did_you_mean(self):
        self.assertIn("did you mean `report`?", self.expect(2, "reprot").stderr)
        self.assertIn("did you mean `doctor`?", self.expect(2, "help", "docter").stderr)
        self.assertIn("did you mean `--device`?", self.expect(2, "--target=L1tex", "--devise=host").stderr)
        self.assertIn("did you mean `L1tex`?", self.expect(2, "--target=L1text").stderr)
        self.assertIn("did you mean `accelsim`?", self.expect(2, "export", "gtx780", "--to=accelsin").stderr)
        self.write("gpu.yaml", "")
        self.assertIn("did you mean `gpu.yaml`?", self.expect(2, "report", "gpu.yml").stderr)
        for profile in (("show", "gtx870"), ("--target=L1tex", "--device=virtual:gtx870"), ("diff", "gtx780", "gtx870")):
            self.assertIn("did you mean `gtx780`?", self.expect(2, *profile).stderr)
        for unlike in (("frobnicate",), ("show", "frobnicate")):
            self.assertNotIn("did you mean", self.expect(2, *unlike).stderr)


class List(harness.ProgramTest):
    def test_published_devices(self):
        devices = self.expect(0, "list", "devices").stdout
        for name in ("gtx560ti", "gtx780", "gtx980"):
            self.assertIn(f"virtual:{name} ", devices)

    def test_policies_one_in_a_line(self):
        self.assertEqual(self.expect(0, "list", "policies").stdout.splitlines()[:2], ["lru", "fifo"])

    def test_classes_of_policies(self):
        done = self.expect(0, "list", "policies", "--classes", "--ways", "2")
        classes = [line.split(" = ") for line in done.stdout.splitlines()]
        self.assertEqual(classes[0][:2], ["lru", "plru"])
        self.assertIn(["fifo"], [members[:1] for members in classes])
        names = [name for members in classes for name in members]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(f"{len(names)} policies are {len(classes)} classes in a set of 2 ways, exactly", done.stderr)
        self.assertIn("random (chance)", done.stderr)

    def test_classes_beyond_what_can_be_told_exactly_say_how_far(self):
        done = self.expect(0, "list", "policies", "--classes", "--ways", "12")
        self.assertRegex(done.stdout, r"(?m)^nru clear=on_access = .* \(in \d+ accesses at least\)$")
        self.assertIn("as far as their lines say", done.stderr)
        self.expect(2, "list", "policies", "--classes", "--ways", "0")
        self.expect(2, "list", "policies", "--ways", "4")
        self.expect(2, "list", "devices", "--classes")


PIECE = """
schema: gpuinfer/1
device: {name: Small, source: test, provenance: {gpu_id: aa}}
caches:
  L2: {line_bytes: 128}
"""


class Merge(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.l2 = self.write("l2.yaml", PIECE)

    def test_one_profile_of_several(self):
        done = self.expect(0, "merge", self.small, self.l2, "--format", "json")
        self.assertEqual(set(json.loads(done.stdout)["caches"]), {"L1tex", "L2"})
        self.assertIn("small.yaml does not say which device", done.stderr)
        self.assertEqual(self.expect(0, "merge", self.l2, self.l2).stderr, "")

    def test_what_cannot_be_of_one_device(self):
        other = self.write("other.yaml", PIECE.replace("aa", "bb"))
        wider = self.write("wider.yaml", PIECE.replace("128", "64"))
        self.assertIn("is of another device", self.expect(2, "merge", self.l2, other).stderr)
        self.assertIn("L2.line_bytes is 64", self.expect(2, "merge", self.l2, wider).stderr)

    def test_verbs_take_several(self):
        drawn = self.expect(0, "show", self.small, self.l2).stdout
        self.assertIn("L1tex", drawn)
        self.assertIn("L2", drawn)
        self.assertIn("L2", self.expect(0, "report", self.small, self.l2).stdout)
        self.assertIn("L2", self.expect(0, "export", self.small, self.l2, "--to", "csv").stdout)
        other = self.write("other.yaml", PIECE.replace("aa", "bb").replace("Small", "Other"))
        self.assertIn("L2.line_bytes", self.expect(0, "diff", self.small, self.l2, other, "--all").stdout)
        self.expect(2, "diff", self.small, self.l2, self.l2)


class ReportOfRun(harness.ProgramTest):
    def test_a_run_writes_its_page_too(self):
        run = ("--target=L1tex", f"--device=virtual:{self.small}", "--quiet", "--report=gpu.html")
        self.expect(0, *run, "-o", "gpu.yaml")
        page = self.expect(0, "report", "gpu.yaml").stdout
        self.assertEqual((self.folder / "gpu.html").read_text(), page)
        self.expect(2, *run, "--method=average")
        self.expect(2, *run, f"--device=virtual:{self.small}")


class Explain(harness.ProgramTest):
    def test_run_and_show_tell_what_was_asked_and_why(self):
        profile = str(self.folder / "profile.yaml")
        device = ("--target", "L1tex", "--device", f"virtual:{self.small}")
        done = self.expect(0, *device, "--explain", "--quiet", "-o", profile)
        for words in ("asked: ", "why: ", "learned: ", r"hypotheses \d{2,} -> \d\b"):
            self.assertRegex(done.stderr, words)
        self.assertIn("learned: ", self.expect(0, "show", profile, "--explain").stdout)
        self.assertNotIn("learned: ", self.expect(0, "show", profile).stdout)
        self.assertEqual(self.expect(0, *device, "--quiet").stderr, "")


class Simulate(harness.ProgramTest):
    def test_rows(self):
        done = self.expect(0, "simulate", self.small, "--sequence", "cyclic:96,32,2")
        self.assertEqual(
            done.stdout,
            "access,offset,set,outcome\n0,0,0,line_miss\n1,32,0,sector_miss\n2,64,1,line_miss\n"
            "3,0,0,hit\n4,32,0,hit\n5,64,1,hit\n",
        )

    def test_map(self):
        lines = rows(self.expect(0, "simulate", self.small, "--map"))
        self.assertEqual(len(lines), 16)
        self.assertEqual(lines[5], {"line": "5", "address": "320", "set": "1", "way": "1"})

    def test_sequence_from_csv(self):
        self.write("offsets.csv", "offset\n# twice the same\n64\n64\n")
        outcomes = [row["outcome"] for row in rows(self.expect(0, "simulate", self.small, "--sequence=csv:offsets.csv"))]
        self.assertEqual(outcomes, ["line_miss", "hit"])

    def test_texture_chase_one_element_too_long_misses_in_one_set(self):
        # Mei & Chu 2014, section 4.3: 3080 elements of 4 bytes in steps of 32 bytes.
        warm_and_sequence = ("--warm=cyclic:12320,32,1", "--sequence=cyclic:12320,32,1")
        chase = rows(self.expect(0, "simulate", "gtx560ti", "--target=l1TEX", *warm_and_sequence))
        missing = [row for row in chase if row["outcome"] != "hit"]
        self.assertEqual(len(missing), 97)
        self.assertEqual({row["set"] for row in missing}, {"0"})

    def test_figure_3_has_one_more_missing_set_for_every_four_lines(self):
        sets = {}
        for row in rows(self.expect(0, "simulate", "gtx560ti", "--figure", "3")):
            missing = sets.setdefault(int(row["array_bytes"]), set())
            if row["outcome"] != "hit":
                missing.add(row["set"])
        self.assertEqual([len(sets[12288 + 32 * k]) for k in range(17)], [0] + 4 * [1] + 4 * [2] + 4 * [3] + 4 * [4])

    def test_figure_9_rises_to_two_thirds(self):
        curve = rows(self.expect(0, "simulate", "gtx560ti", "--figure", "9"))
        self.assertEqual([row["array_bytes"] for row in curve], [str(size) for size in range(16384, 24577, 128)])
        self.assertEqual(float(curve[0]["miss_rate"]), 0)
        for row in curve[32:]:  # every set overflows, of two lines or of one
            self.assertAlmostEqual(float(row["miss_rate"]), 2 / 3, delta=0.001)

    def test_figure_11_has_a_step_of_18_pages_and_six_of_9(self):
        for device in ("gtx560ti", "gtx780", "gtx980"):
            with self.subTest(device):
                curve = rows(self.expect(0, "simulate", device, "--figure", "11"))
                missing = [int(row["misses"]) / 100 for row in curve]
                self.assertEqual(missing, [0, 0, 18, 27, 36, 45, 54, 63, 72])

    def test_figures_8_10_and_12_are_maps(self):
        self.assertEqual(len(rows(self.expect(0, "simulate", "gtx560ti", "--figure", "8"))), 128)
        self.assertEqual(len(rows(self.expect(0, "simulate", "gtx560ti", "--figure", "10"))), 65)
        self.assertEqual(len(rows(self.expect(0, "simulate", "gtx560ti", "--figure", "12"))), 384)

    def test_jobs_change_nothing(self):
        arguments = ("simulate", "gtx560ti", "--target=L1D", "--curve=misses:16K,20K,512")
        self.assertEqual(self.expect(0, *arguments, "--jobs=1").stdout, self.expect(0, *arguments, "--jobs=4").stdout)


class SimulatePath(harness.ProgramTest):
    def test_rows(self):
        self.write("offsets.csv", "0\n0\n32\n536870912\n")
        self.assertEqual(
            self.expect(0, "simulate", "gtx780", "--path=global", "--sequence=csv:offsets.csv").stdout,
            "access,offset,data,translation,window_switch,pattern,latency_cycles,source,partition\n"
            "0,0,memory,walk,0,P5,734,published,\n"
            "1,0,L2,L1TLB,0,P1,230,published,\n"
            "2,32,memory,L1TLB,0,P4,371,published,\n"
            "3,536870912,memory,walk,1,P6,1000,published,\n",
        )

    def test_published_patterns_of_fermi(self):
        # 17 pages round and round: one more than the first TLB holds.
        laps = ("--warm=cyclic:34M,2M", "--sequence=cyclic:34M,2M")
        for path, cycles in (("global_l1_off", "398"), ("global", "404")):
            with self.subTest(path):
                found = rows(self.expect(0, "simulate", "gtx560ti", "--path", path, *laps))
                keys = ("data", "translation", "pattern", "latency_cycles")
                self.assertIn(("L2", "L2TLB", "P2", cycles), {tuple(row[key] for key in keys) for row in found})

    def test_derived_latencies_say_so(self):
        self.write("offsets.csv", "offset\n4096\n")
        arguments = ("--path=global", "--warm=cyclic:34M,2M", "--sequence=csv:offsets.csv")
        row = rows(self.expect(0, "simulate", "gtx780", *arguments))[0]
        self.assertEqual((row["pattern"], row["latency_cycles"], row["source"]), ("", "377", "derived"))

    def test_partitions(self):
        parts = "    partitions: {index: {kind: bits, bits: [9]}, far_cycles: 150}\n"
        path = "paths: {global: {caches: [L1tex], memory_latency_cycles: {P1: 30, P4: 500}}}\n"
        device = self.write("far.yaml", harness.CACHE + parts + path)
        arguments = ("--path=global", "--warm=cyclic:1K,512", "--sequence=cyclic:1K,512")
        found = rows(self.expect(0, "simulate", device, *arguments))
        self.assertEqual(
            [(row["partition"], row["latency_cycles"], row["source"]) for row in found],
            [("near", "30", "published"), ("far", "180", "derived")],
        )

    def test_bad_command_lines(self):
        sequence = "--sequence=cyclic:1K,32"
        self.assertIn("describes global", self.expect(2, "simulate", "gtx780", "--path=local", sequence).stderr)
        self.expect(2, "simulate", "gtx780", "--path=global", "--target=L2", sequence)
        self.expect(2, "simulate", "gtx780", "--path=global", "--map")
        self.write("whole.yaml", harness.CACHE + "paths: {global: {caches: [L1tex]}}\n")
        self.assertIn(
            "whole.yaml: paths.global.memory_latency_cycles",
            self.expect(2, "simulate", "whole.yaml", "--path=global", sequence).stderr,
        )


class SimulateTexture(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        # Lines of 8 x 2 texels in sectors of 4 x 2, and rows of such lines.
        levels = "[{width: 4, height: 2}, {width: 2, height: 1}]"
        texture = f"{{texel_bytes: 4, width: 32, height: 64, levels: {levels}, cache: L1tex}}"
        self.texture = self.write("texture.yaml", harness.CACHE + f"textures: {{Texture2D: {texture}}}\n")

    def play(self, sequence, *options):
        return rows(self.expect(0, "simulate", self.texture, "--texture=Texture2D", f"--sequence={sequence}", *options))

    def test_rows(self):
        self.write("texels.csv", "x,y\n0,0\n3,1\n4,0\n0,2\n")
        arguments = ("simulate", self.texture, "--texture=Texture2D", "--sequence=csv:texels.csv")
        self.assertEqual(
            self.expect(0, *arguments).stdout,
            "access,x,y,offset,set,outcome\n0,0,0,0,0,line_miss\n1,3,1,28,0,hit\n2,4,0,32,0,sector_miss\n"
            "3,0,2,256,0,line_miss\n",
        )

    def test_every_texel_once_in_the_order_asked_for(self):
        for sequence, second in (("rows", (1, 0)), ("columns", (0, 1)), ("tiles:1,3", (0, 1)), ("tiles:5,3", (1, 0))):
            with self.subTest(sequence):
                texels = [(int(row["x"]), int(row["y"])) for row in self.play(f"texels:{sequence}")]
                self.assertEqual(texels[:2], [(0, 0), second])
                self.assertEqual(len(texels), 32 * 64)
                self.assertEqual(set(texels), {(x, y) for x in range(32) for y in range(64)})

    def test_a_layout_in_tiles_is_made_for_tiles(self):
        # 256 sectors; the four lines of a row are in four sets, and 32 rows of lines thrash sets of four ways.
        def misses(sequence):
            return sum(row["outcome"] != "hit" for row in self.play(sequence))

        self.assertEqual(misses("texels:tiles:4,2"), 256)
        self.assertEqual(misses("texels:rows"), 256)
        self.assertEqual(misses("texels:columns"), 4 * 256)

    def test_warm_up(self):
        self.write("texels.csv", "0,0\n")
        self.assertEqual(self.play("csv:texels.csv", "--warm=csv:texels.csv")[0]["outcome"], "hit")

    def test_bad_command_lines(self):
        def refusal(*arguments):
            return self.expect(2, "simulate", self.texture, *arguments).stderr

        self.assertIn("describes Texture2D", refusal("--texture=Texture3D", "--sequence=texels:rows"))
        self.assertIn("texels:rows", refusal("--texture=Texture2D", "--sequence=cyclic:1K,32"))
        for bad in ("texels:diagonal", "texels:tiles:4", "texels:tiles:0,4", "texels", "csv:nowhere.csv"):
            with self.subTest(bad):
                refusal("--texture=Texture2D", f"--sequence={bad}")
        self.write("outside.csv", "0,0\n32,0\n")
        self.assertIn("(32, 0)", refusal("--texture=Texture2D", "--sequence=csv:outside.csv"))
        self.write("short.csv", "0,0\n1\n")
        self.assertIn("short.csv:2: y", refusal("--texture=Texture2D", "--sequence=csv:short.csv"))


class Record(harness.ProgramTest):
    def test_probe_gives_rows_that_validate_reads(self):
        probe = ("probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cyclic:2K,32,3")
        self.write("chase.csv", self.expect(0, *probe).stdout)
        self.expect(0, *probe, "--record", "chase.h5")
        for trace in ("chase.csv", "chase.h5"):
            with self.subTest(trace):
                self.assertIn("192", self.expect(0, "validate", self.small, trace).stdout)

    def test_validate_tells_another_cache(self):
        self.expect(
            0, "probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cyclic:2K,32,3", "--record=chase.h5"
        )
        other = self.write("other.yaml", harness.CACHE.replace("1024", "2048").replace("4, 4, 4, 4", "8, 8, 8, 8"))
        self.expect(1, "validate", other, "chase.h5", "-o", "report.json", "--format", "json")
        report = json.loads((self.folder / "report.json").read_text())
        self.assertLess(report["traces"][0]["agreement"], 1)

    def test_chance_is_validated_as_chance(self):
        weighted = "{policy: weighted_random, victim_weights: [1, 3, 1, 1]}"
        true = self.write("true.yaml", harness.CACHE.replace("{policy: lru}", weighted))
        equal = self.write("equal.yaml", harness.CACHE.replace("{policy: lru}", "{policy: random}"))
        self.expect(0, "probe", "--target=L1tex", "--device=virtual:true.yaml", "--sequence=cyclic:1280,64,200", "--record=a.h5")
        done = self.expect(0, "validate", true, "a.h5")
        self.assertRegex(done.stdout, r"- +total\n")
        self.assertRegex(done.stdout, r"p of all: [01]\.\d+")
        report = json.loads(self.expect(1, "validate", equal, "a.h5", "--format=json").stdout)
        self.assertLess(report["total"]["p_value_of_chance"], 0.01)
        self.assertIsNone(report["traces"][0]["agreement"])
        self.assertEqual(sum(each["misses"] for each in report["traces"][0]["chance"]["sets"]), report["traces"][0]["chance"]["misses"])

    def test_validate_says_what_it_did_not_judge(self):
        probe = ("probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cyclic:512,32,3", "--record=chase.h5")
        self.expect(0, *probe)
        other = self.write("other.yaml", harness.CACHE.replace("miss: 200", "miss: 180"))
        self.assertIn("hits 30, in the profile 30; misses 200, in the profile 180", self.expect(0, "validate", other, "chase.h5").stdout)
        done = self.expect(0, "validate", other, "chase.h5", "--format=json")
        self.assertEqual(json.loads(done.stdout)["latency_cycles"]["L1tex"], {"recorded": {"hit": 30, "miss": 200}, "profile": {"hit": 30, "miss": 180}})
        stores = "    store: {allocate: true, write: back, granule_bytes: 32, fetches: true, touches: true}\n"
        self.write("stores.yaml", harness.CACHE + stores)
        self.expect(3, "--target=L1tex", "--device=virtual:stores.yaml", "--record=run.h5", "-o", "profile.yaml")
        self.assertRegex(self.expect(0, "validate", "stores.yaml", "run.h5").stdout, r"\nleft out: [1-9]\d* traces with stores or contended loads\n")

    def test_validate_that_can_judge_nothing_says_so(self):
        probe = ("probe", "--target=L1tex", "--device=virtual:small.yaml", "--state=keep")
        self.expect(0, *probe, "--sequence=cyclic:256,64", "--record=keep.h5")
        self.assertIn("nothing could be judged", self.expect(3, "validate", self.small, "keep.h5").stdout)

    def test_levels_that_the_profile_does_not_know_are_told_apart_in_all_recordings(self):
        without = self.write("without.yaml", harness.CACHE.replace("{hit: 30, miss: 200}", "{hit: null, miss: null}"))
        self.expect(0, "--target=L1tex", "--device=virtual:small.yaml", "--record=run.h5", "-o", "profile.yaml")
        self.expect(0, "validate", without, "run.h5")

    def test_questions_of_an_archive_can_be_asked_again(self):
        probe = ("probe", "--target=L1tex", "--device=virtual:small.yaml")
        self.expect(0, *probe, "--sequence=cyclic:2K,32", "--record=first.h5")
        self.expect(0, *probe, "--sequence=archive:first.h5", "--record=second.h5")
        self.expect(0, "validate", self.small, "first.h5", "second.h5")


class Show(harness.ProgramTest):
    def test_published_devices_in_100_columns(self):
        for device in ("gtx560ti", "gtx780", "gtx980"):
            with self.subTest(device):
                lines = self.expect(0, "show", device).stdout.splitlines()
                self.assertLessEqual(max(map(len, lines)), 100)

    def test_sets_by_ways(self):
        self.assertIn("4 sets x 96 ways", self.expect(0, "show", "gtx780", "--target", "L1tex").stdout)


class Serve(harness.ProgramTest):
    def test_answers_questions(self):
        question = {"id": 7, "target": "L1tex", "state": "clean", "warm": [0], "record": [0, 64]}
        done = self.expect(0, "serve", "--device", "virtual:small.yaml", input=json.dumps(question) + "\n")
        greeting, answer = map(json.loads, done.stdout.splitlines())
        self.assertEqual(greeting["targets"], ["L1tex"])
        self.assertEqual(answer, {"id": 7, "latency": [30, 200]})

    def test_prepares_for_what_is_offered(self):
        self.expect(0, "serve", "--device", "virtual:small.yaml", "--target", "l1tex", input="")
        self.assertIn("L2", self.expect(2, "serve", "--device", "virtual:small.yaml", "--target", "L2", input="").stderr)


class Ssh(harness.ProgramTest):
    """With an ssh that logs in to this host, by a shell as the true one does."""

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        for name, text in (("ssh", f'printf "%s\\n" "$@" > {self.folder}/asked; shift 3; exec sh -c "$*"'), ("gpuinfer", f'exec {shlex.quote(str(self.program))} "$@"')):
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n")
            (self.folder / "bin" / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def test_reaches_a_device_of_another_host(self):
        there = self.write("it's $HOME; and more.yaml", harness.CACHE)
        here = json.loads(self.expect(0, "--target=L1tex", f"--device=virtual:{there}", "--seed=7", "--format=json").stdout)
        device = f"ssh:me@node7:virtual:{there}"
        found = json.loads(self.expect(0, "--target=l1tex", f"--device={device}", "--seed=7", "--format=json", env=self.env).stdout)
        self.assertEqual(found["device"]["source"], device)
        self.assertEqual((found["caches"], found["evidence"]), (here["caches"], here["evidence"]))
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertEqual(asked[:3], ["-o", "BatchMode=yes", "me@node7"])
        self.assertEqual(shlex.split(asked[3]), ["gpuinfer", "serve", "--seed", "7", "--device", f"virtual:{there}", "--target", "L1tex"])

    def test_what_the_other_host_says_is_told(self):
        done = self.expect(4, "--target=L1tex", "--device=ssh:node7:virtual:nowhere", env=self.env)
        self.assertIn("nowhere", done.stderr)
        self.assertIn("--carveout", self.expect(4, "--target=L1tex", "--device=ssh:node7:host", "--carveout=8", env=self.env).stderr)

    def test_a_host_is_no_option_of_ssh(self):
        for device in ("ssh:-oProxyCommand=touch x:cuda:0", "ssh:node7", "ssh:node7:", "ssh::cuda:0"):
            self.assertIn("names no host and device", self.expect(2, "--target=L1tex", f"--device={device}", env=self.env).stderr)
        self.assertFalse((self.folder / "asked").exists())


class Run(harness.ProgramTest):
    arguments = ("--target=l1tex", "--device=virtual:small.yaml")

    def test_the_same_bytes_each_time_however_spelled(self):
        first = self.expect(0, *self.arguments)
        self.assertEqual(first.stdout, self.expect(0, "run", *self.arguments, "--seed=1", "--quiet").stdout)
        self.expect(0, *self.arguments, "-o", "profile.yaml", "--record", "run.h5")
        self.assertEqual(first.stdout, (self.folder / "profile.yaml").read_text())

    def test_quiet_is_quiet(self):
        self.assertEqual(self.expect(0, *self.arguments, "--quiet").stderr, "")

    def test_the_recording_yields_the_same_caches(self):
        whole = json.loads(self.expect(0, *self.arguments, "--seed=5", "--format=json", "--record=run.h5").stdout)
        for again in (("--target=L1tex", "--device=recorded:run.h5"), ("infer", "run.h5")):
            with self.subTest(again):
                replayed = json.loads(self.expect(0, *again, "--format=json").stdout)
                self.assertEqual(replayed["caches"], whole["caches"])
                self.assertEqual(replayed["evidence"], whole["evidence"])

    def test_parts_of_an_l2_are_found_or_left_open(self):
        """Against the description itself; sets of 8 ways, so that not even a page of 2 MB fits."""
        cache = (
            "schema: gpuinfer/1\ndevice: {name: parts, sm_count: 6}\nnoise: {jitter_cycles: 2}\ncaches:\n"
            "  L2: {line_bytes: 64, sector_bytes: 32, ways: [8, 8, 8, 8, 8, 8, 8, 8],\n"
            "    index: {kind: bits, bits: [6, 7, 8]}, replacement: {policy: lru}, latency_cycles: {hit: 260, miss: 600}"
        )
        halves = "sms: [[1, 2, 5], [0, 3, 4]]"
        found = {"status": "resolved", "bits": [[5, 12, 19]], "far": 90, "sms": [[0, 3, 4], [1, 2, 5]]}
        index = "index: {kind: xor, rows: [[5, 12, 19, 22]], constant: 1}, "
        for parts, expected in (
            ("", {"status": "resolved"}),
            (index + "far_cycles: 90, keeps_copies: true, " + halves, found | {"copies": True}),
            (index + "far_cycles: 90, " + halves, found),
            (index + "far_cycles: 90, near: 1", found | {"sms": [[0, 1, 2, 3, 4, 5]]}),
            (index + "far_cycles: 6, " + halves, {"status": "unknown"}),
            ("index: {kind: bits, bits: [12, 13]}, far_cycles: 90, " + halves, {"status": "unknown"}),
        ):
            device = self.write("parts.yaml", cache + (f", partitions: {{{parts}}}}}\n" if parts else "}\n"))
            status = 0 if expected["status"] == "resolved" else 3
            arguments = ("--target=L2", f"--device=virtual:{device}", "--quiet", "--format=json")
            profile = json.loads(self.expect(status, *arguments).stdout)
            with self.subTest(parts):
                l2 = profile["caches"]["L2"]
                told = {"status": profile["evidence"]["L2"]["partitions"]["status"]}
                if l2.get("partitions"):
                    told |= {"bits": l2["partitions"]["index"]["rows"], "sms": l2["partitions"]["sms"]}
                    told |= {"copies": True} if l2["partitions"].get("keeps_copies") else {}
                    told["far"] = 90 if abs(l2["partitions"]["far_cycles"] - 90) <= 2 else l2["partitions"]["far_cycles"]
                self.assertEqual(told, expected)
                self.assertAlmostEqual(l2["latency_cycles"]["hit"], 260, delta=6)
                self.assertEqual(l2["ways"], [8] * 8)

    def test_the_profile_is_a_virtual_device(self):
        self.expect(0, *self.arguments, "-o", "profile.yaml")
        self.expect(0, "--target=L1tex", "--device=virtual:profile.yaml", "--quiet")
        self.expect(0, "show", "profile.yaml")

    def test_a_budget_that_is_too_small_ends_with_3(self):
        done = self.expect(3, *self.arguments, "--budget=100", "-o", "profile.yaml")
        self.assertIn("--budget", done.stderr)
        self.assertTrue((self.folder / "profile.yaml").exists())

    def test_interrupt_ends_with_what_is_known(self):
        # A device that answers slowly enough to be interrupted, and lets Ctrl-C pass.
        slow = self.write(
            "slow.py",
            "import json, signal, sys, time\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "print(json.dumps({'gpuinfer': 1, 'device': {'name': 'slow'}, 'targets': ['L1tex'],"
            " 'buffer_bytes': 1 << 20, 'address_of_buffer': 0}), flush=True)\n"
            "for line in sys.stdin:\n"
            "    question = json.loads(line)\n"
            "    time.sleep(0.05)\n"
            "    print(json.dumps({'id': question['id'], 'latency': [30 for _ in question['record']]}), flush=True)\n",
        )
        command = [self.program, "--target=L1tex", f"--device=exec:python3 {slow}", "-o", "profile.yaml"]
        with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True) as process:
            self.assertIn("L1tex", process.stderr.readline())
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, stderr)
        self.assertTrue((self.folder / "profile.yaml").exists())

    def test_disturbances_are_told_and_kept_once(self):
        # The served device says with every answer what happened to it.
        serve = f"{shlex.quote(str(self.program))} serve --device virtual:{self.small}"
        says = "s/^{\"id\"/{\"disturbances\":[\"it rained; wait\",\"it blew; wait\"],\"id\"/"
        device = f"--device=exec:{serve} | sed -u '{says}'"
        done = self.expect(3, "--target=L1tex", device, "--quiet", "--record=run.h5", "--format=json")
        warnings = [line.rpartition(": ")[2] for line in done.stderr.splitlines() if ": warning: exec:" in line]
        self.assertEqual(warnings, ["it rained; wait", "it blew; wait"])
        self.assertEqual(len(done.stderr.splitlines()), 2)
        kept = json.loads(done.stdout)["device"]["provenance"]["disturbances"]
        self.assertEqual(kept, "it rained; wait. it blew; wait")
        again = json.loads(self.expect(3, "infer", "run.h5", "--format=json", "--quiet").stdout)
        self.assertEqual(again["device"]["provenance"]["disturbances"], kept)
        self.assertEqual(again["caches"], json.loads(done.stdout)["caches"])
        probing = ("probe", "--target=L1tex", "--sequence=cyclic:96,32", device)
        self.assertEqual(self.expect(0, *probing).stderr.count("warning: "), 2)
        self.assertNotIn("disturbances", self.expect(0, *self.arguments).stdout)

    def test_without_a_gpu_a_target_is_taken_from_its_own_recording(self):
        without_gpu = {**os.environ, **harness.WITHOUT_GPU}
        done = self.expect(0, "--target=instruction", "--quiet", "-o", "code.yaml", env=without_gpu)
        self.assertIn(str(harness.recorded("Instruction", ".h5")), done.stderr)
        for line in (done.stderr.splitlines()[0], done.stderr.splitlines()[-1]):
            self.assertIn("another machine's GPU, NVIDIA H200", line)
        self.assertIn("--device gpu: CUDA shows no GPU, Vulkan neither", self.expect(4, "--target=L1tex", "--device=gpu", env=without_gpu).stderr)
        drawn = self.expect(0, "show", "code.yaml").stdout
        self.assertIn("up to 32 KiB      77 cycles", drawn)
        served = self.expect(0, "--target=Instruction", "--device=virtual:code.yaml", "--quiet", "--format=json")
        levels = json.loads(served.stdout)["code"]["Instruction"]["levels"]
        self.assertEqual([level["fits_bytes"] for level in levels], [32768, 133120, None])

    def test_without_a_gpu_all_is_every_recording_of_one(self):
        without_gpu = {**os.environ, **harness.WITHOUT_GPU, "GPUINFER_DATA": str(self.folder)}
        recordings = self.folder / "data" / "h200"
        recordings.mkdir(parents=True)
        for target in ("L1tex", "L2"):
            small = self.write("one.yaml", harness.CACHE.replace("L1tex", target))
            self.expect(0, f"--target={target}", f"--device=virtual:{small}", "--quiet", f"--record={recordings / target}.h5")
        done = self.expect(0, "--target=all", "--format=json", env=without_gpu)
        self.assertEqual(set(json.loads(done.stdout)["caches"]), {"L1tex", "L2"})
        self.assertIn("L2.h5", done.stderr.splitlines()[0])
        self.assertIn("another machine's GPU, Small", done.stderr.splitlines()[-1])

    def test_a_second_bundled_gpu_is_data(self):
        without_gpu = {**os.environ, **harness.WITHOUT_GPU, "GPUINFER_DATA": str(self.folder)}
        for gpu, target in (("first", "L1tex"), ("second", "L2")):
            folder = self.folder / "data" / gpu
            folder.mkdir(parents=True)
            described = self.write(f"{gpu}.yaml", harness.CACHE.replace("L1tex", target).replace("Small", f"The {gpu}"))
            self.expect(0, f"--target={target}", f"--device=virtual:{described}", "--quiet", f"--record={folder / target}.h5")
        # What is not named after a target is of no bundled GPU.
        (self.folder / "data" / "zero").mkdir()
        shutil.copy(self.folder / "data/first/L1tex.h5", self.folder / "data/zero/run.h5")
        listed = re.findall(r"^recorded:(\S+) +bundled recording, (The \w+) +(.*)$", self.expect(0, "list", "devices", env=without_gpu).stdout, re.MULTILINE)
        self.assertEqual([line[1:] for line in listed], [("The first", "L1tex"), ("The second", "L2")])
        self.assertIn("GPU, The second", self.expect(0, "--target=L2", "--quiet", env=without_gpu).stderr)
        self.assertIn("GPU, The first", self.expect(0, "--target=L1tex", "--quiet", env=without_gpu).stderr)
        checks = self.run_program("doctor", env=without_gpu).stdout
        self.assertRegex(checks, r"ok +recordings +1 recording of The first in \S+/first, 1 recording of The second in")
        (self.folder / "data/second/L2.h5").write_text("no archive")
        self.assertRegex(self.run_program("doctor", env=without_gpu).stdout, r"fail +recordings .*second/L2.h5")

    def test_average_methods(self):
        done = self.run_program("--target=L1tex", "--device=virtual:gtx780", "--method=average", "--format=json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertEqual(set(json.loads(done.stdout)[0]["methods"]), {"saavedra", "wong"})


if __name__ == "__main__":
    harness.main()
