# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: the exit status, and one sentence that says what, where, and what to do."""


import harness


class BadCommandLine(harness.ProgramTest):
    def test_nothing_asked(self):
        self.assertIn("--help", self.expect(2).stderr)

    def test_unknown_verb_names_the_verbs(self):
        self.assertIn("run, probe, infer, validate, simulate, list, show, report, export, diff, merge, survey, doctor, serve, completion, man", self.expect(2, "frobnicate").stderr)

    def test_unknown_option(self):
        self.assertIn("--frobnicate", self.expect(2, "--target", "L1tex", "--frobnicate").stderr)

    def test_options_with_the_name_of_a_placeholder(self):
        for option in ("--%canonical_option%", "--%canonical_option%=", "-%canonical_option%", "--%option%", "--%value%"):
            with self.subTest(option):
                self.assertIn(f"'{option.rstrip('=')}'", self.expect(2, "--target", "L1tex", option).stderr)

    def test_abbreviated_option(self):
        self.expect(2, "--targ", "L1tex")

    def test_missing_target(self):
        self.assertIn("--target", self.expect(2, "run", "--device", "virtual:small.yaml").stderr)

    def test_unknown_target_names_the_targets(self):
        self.assertIn("L1tex", self.expect(2, "--target", "L9", "--device", "virtual:small.yaml").stderr)

    def test_target_that_the_device_does_not_offer(self):
        self.assertIn("L1tex", self.expect(2, "--target", "L2", "--device", "virtual:small.yaml").stderr)

    def test_unknown_devices(self):
        for device in ("gtx780", "virtual:", "virtual:gtx9999", "cuda:", "cuda:x", "host", "recorded:nowhere.h5", ""):
            with self.subTest(device):
                self.expect(2, "--target", "L1tex", f"--device={device}")

    def test_numbers(self):
        for option in (
            "--seed=-1",
            "--seed=one",
            "--budget=1e6",
            "--timeout=0",
            "--timeout=nan",
            "--carveout=101",
            "--seed=99999999999999999999",
        ):
            with self.subTest(option):
                stderr = self.expect(2, "--target", "L1tex", "--device", "virtual:small.yaml", option).stderr
                self.assertIn(option.split("=")[0], stderr)

    def test_format_and_method(self):
        self.expect(2, "--target", "L1tex", "--device", "virtual:small.yaml", "--format", "xml")
        self.expect(2, "--target", "L1tex", "--device", "virtual:small.yaml", "--method", "guess")

    def test_missing_and_superfluous_words(self):
        self.expect(2, "infer")
        self.expect(2, "validate", self.small)
        self.expect(2, "show")
        self.expect(2, "doctor", self.small)
        self.expect(2, "list", "everything")


class BadFile(harness.ProgramTest):
    def test_unknown_key_has_file_line_and_key(self):
        bad = self.write("bad.yaml", harness.CACHE + "    colour: red\n")
        line = len((harness.CACHE + "x").splitlines())
        stderr = self.expect(2, "--target", "L1tex", "--device", f"virtual:{bad}").stderr
        self.assertIn(f"bad.yaml:{line}", stderr)
        self.assertIn("colour", stderr)

    def test_ways_list_of_the_wrong_length(self):
        bad = self.write("bad.yaml", harness.CACHE.replace("[4, 4, 4, 4]", "[8, 8]"))
        for arguments in (("show", bad), ("simulate", bad, "--map"), ("--target", "L1tex", "--device", f"virtual:{bad}")):
            with self.subTest(arguments):
                self.assertIn("ways", self.expect(2, *arguments).stderr)

    def test_null_that_a_simulation_needs(self):
        bad = self.write("bad.yaml", harness.CACHE.replace("{policy: lru}", "null"))
        self.assertIn("replacement", self.expect(2, "--target", "L1tex", "--device", f"virtual:{bad}").stderr)
        self.assertIn("replacement", self.expect(2, "simulate", bad, "--sequence", "cyclic:1K,32").stderr)

    def test_negative_latency_has_file_and_line(self):
        trace = self.write("trace.csv", "offset,latency\n0,200\n32,-5\n")
        self.assertIn("trace.csv:3", self.expect(2, "infer", trace).stderr)
        self.assertIn("trace.csv:3", self.expect(2, "validate", self.small, trace).stderr)

    def test_truncated_archive(self):
        self.expect(0, "probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cyclic:2K,32", "--record=whole.h5")
        whole = (self.folder / "whole.h5").read_bytes()
        (self.folder / "half.h5").write_bytes(whole[: len(whole) // 2])
        for arguments in (("infer", "half.h5"), ("--target", "L1tex", "--device", "recorded:half.h5")):
            with self.subTest(arguments):
                self.assertIn("half.h5", self.expect(2, *arguments).stderr)

    def test_recording_of_a_run_that_resolved_nothing(self):
        recording = harness.recorded("Outstanding", ".h5")
        self.assertEqual(self.expect(3, "infer", recording, "--target=Outstanding", "--quiet").stderr, "")

    def test_sequence_outside_the_buffer(self):
        self.expect(2, "probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cold:64,32,1024G")
        self.expect(2, "probe", "--target=L1tex", "--device=virtual:small.yaml", "--sequence=cold:64,3")


class NoDevice(harness.ProgramTest):
    def test_no_such_gpu(self):
        self.expect(4, "--target", "L1tex", "--device", "cuda:1023", "-o", "profile.yaml")
        self.assertFalse((self.folder / "profile.yaml").exists())

    def test_process_that_does_not_greet(self):
        self.expect(4, "--target", "L1tex", "--device", "exec:true")


class Output(harness.ProgramTest):
    def test_missing_folder_is_found_before_anything_is_measured(self):
        # A process that is never started leaves no mark.
        device = f"exec:touch {self.folder}/started"
        for option in ("-o", "--record"):
            with self.subTest(option):
                stderr = self.expect(2, "--target=L1tex", "--device=virtual:small.yaml", option, "missing/out").stderr
                self.assertIn("missing/out", stderr)
        self.expect(2, "--target", "L1tex", "--device", device, "-o", "missing/profile.yaml")
        self.assertFalse((self.folder / "started").exists())

    def test_failure_leaves_no_profile(self):
        self.expect(4, "--target", "L1tex", "--device", "exec:true", "-o", "profile.yaml")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["small.yaml"])

    def test_full_disk(self):
        done = self.run_program("simulate", self.small, "--map", "-o", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    harness.main()
