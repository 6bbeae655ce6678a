#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""output_files_test.py GPUINFER: what is written takes its name whole, and no file of the user is harmed on the way."""

import os
import pathlib
import resource
import shlex
import stat
import subprocess
import threading
import time

import harness


class OutputFiles(harness.ProgramTest):
    def slow_device(self, seconds):
        return f"exec:sleep {seconds}; exec {shlex.quote(str(self.program))} serve --device virtual:{self.small}"

    def start(self, *arguments):
        process = subprocess.Popen([self.program, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def exported(self):
        return self.expect(0, "export", self.small, "--to", "csv", "--quiet").stdout

    def export_to(self, name, status=0, **options):
        return self.expect(status, "export", self.small, "--to", "csv", "--quiet", "-o", name, **options)

    def names(self):
        return {path.name for path in self.folder.iterdir()} - {"small.yaml"}

    def test_a_second_run_harms_no_result_of_the_first(self):
        first = self.start("--target=L1tex", "--device", self.slow_device(1), "--quiet", "-o", "out.yaml")
        self.expect(2, "--target=L1tex", "--device=virtual:nosuch", "-o", "out.yaml")
        self.expect(0, "report", self.small, "-o", "out.yaml")
        self.assertTrue((self.folder / "out.yaml").read_text().endswith("</html>\n"))
        self.assertEqual(self.names(), {"out.yaml"}, "nothing is made before there is something to write")
        _, stderr = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0, stderr)
        self.assertTrue((self.folder / "out.yaml").read_text().startswith("schema: gpuinfer/1\n"))
        self.expect(0, "show", "out.yaml")

    def test_files_that_have_the_name_of_a_temporary_one_of_others(self):
        victim = self.write("victim", "secret\n")
        for name in ("out.csv.partial", ".gpuinfer-0-0", ".out.csv.tmp"):
            (self.folder / name).symlink_to(victim)
        self.write("mine.csv.partial", "mine\n")
        self.export_to("out.csv")
        self.export_to("mine.csv")
        self.assertEqual(pathlib.Path(victim).read_text(), "secret\n")
        self.assertEqual((self.folder / "mine.csv.partial").read_text(), "mine\n")
        self.assertTrue((self.folder / "out.csv.partial").is_symlink())
        self.assertFalse((self.folder / "out.csv").is_symlink())

    def test_permissions_are_kept(self):
        kept = pathlib.Path(self.write("kept.csv", "x"))
        kept.chmod(0o600)
        self.export_to("kept.csv")
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertEqual(kept.read_text(), self.exported())
        self.export_to("new.csv", umask=0o027)
        self.assertEqual(stat.S_IMODE((self.folder / "new.csv").stat().st_mode), 0o640)

    def test_what_a_link_points_to_is_written(self):
        (self.folder / "elsewhere").mkdir()
        (self.folder / "elsewhere" / "there.csv").write_text("before")
        for target in ("there.csv", "not-yet.csv"):
            with self.subTest(target):
                link = self.folder / f"link-to-{target}"
                link.symlink_to(pathlib.Path("elsewhere") / target)
                self.export_to(link.name)
                self.assertTrue(link.is_symlink())
                self.assertEqual((self.folder / "elsewhere" / target).read_text(), self.exported())

    def test_devices_and_pipes_are_written_in_place(self):
        self.export_to("/dev/null")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
        reader.start()
        self.export_to("pipe")
        reader.join(timeout=10)
        self.assertEqual(read, [self.exported()])
        self.assertTrue(pipe.is_fifo())
        for name in ("/dev/null", "pipe"):
            with self.subTest(name):
                self.assertIn(name, self.expect(2, "--target=L1tex", f"--device=virtual:{self.small}", "--record", name).stderr)
        self.assertTrue(pipe.is_fifo())

    def test_names_that_clash_are_found_before_anything_is_measured(self):
        device = f"exec:touch {self.folder}/started"
        self.write("run.h5", "mine")
        self.write("profile.yaml", harness.CACHE)
        (self.folder / "folder").mkdir()
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "other").symlink_to("same")
        run = ("--target=L1tex", "--device", device)
        for arguments in (
            (*run, "-o", ""),
            (*run, "-o", "folder"),
            (*run, "-o", "loop"),
            (*run, "-o", "a" * 300),
            (*run, "--record", ""),
            (*run, "--record", "folder"),
            (*run, "--record", "run.h5"),
            (*run, "--record", "run.journal"),
            (*run, "--record", "same", "-o", "same"),
            (*run, "--record", "same", "-o", "other"),
            (*run, "--record", "same", "-o", "./same.journal"),
            (*run, "--record", "same", "-o", "same.journal-journal"),
            (*run, "--report", "same", "-o", "same"),
            ("--target=L1tex", "--device=virtual:profile.yaml", "-o", "profile.yaml"),
            ("infer", "run.h5", "-o", "run.h5"),
            ("report", "profile.yaml", "run.h5", "-o", "run.h5"),
            ("merge", "profile.yaml", "-o", "./profile.yaml"),
            ("survey", "--target=L1tex", "--devices=profile.yaml", "-o", "profile.yaml"),
        ):
            with self.subTest(arguments):
                before = self.names()
                self.expect(2, *arguments)
                self.assertEqual(self.names(), before)
        self.assertEqual((self.folder / "run.h5").read_text(), "mine")

    def test_a_folder_for_temporary_results_is_a_new_one(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        script = 'mkdir tmp/gpuinfer-survey-$$ && touch tmp/gpuinfer-survey-$$/mine && exec "$@"'
        survey = [self.program, "survey", "--target=L1tex", f"--device=virtual:{self.small}", "--quiet"]
        done = subprocess.run(
            ["sh", "-c", script, "sh", *survey], cwd=self.folder, env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True, text=True, timeout=120, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in temporary.glob("*/*")], ["mine"])
        self.assertEqual(len(list(temporary.iterdir())), 1)

    def test_a_limit_on_the_size_of_files(self):
        limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        self.assertIn("whole", self.expect(1, "report", self.small, "-o", "page.html", preexec_fn=limited).stderr)
        self.assertEqual(self.names(), set())

    def test_what_cannot_be_written_to_stdout_is_a_failure(self):
        for arguments in (
            ("show", self.small),
            ("list", "policies"),
            ("--help",),
            ("help", "infer"),
            ("infer", "--help"),
            ("man",),
            ("completion", "bash"),
            ("--version",),
            ("export", self.small, "--to=csv"),
            ("diff", self.small, self.small),
        ):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([self.program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Sentences(harness.ProgramTest):
    def test_no_words_of_a_library(self):
        (self.folder / "loop").symlink_to("loop")
        for arguments in (
            ("--target=L1tex", "--device=recorded:loop"),
            ("--target=L1tex", "--device=virtual:loop"),
            ("--target=L1tex", "--device=virtual:" + self.small, "--resume", "loop"),
            ("--target=L1tex", "--device=recorded:" + "a" * 300),
            ("infer", "/proc/self/mem"),
            ("show", "loop"),
        ):
            with self.subTest(arguments):
                stderr = self.expect(2, *arguments).stderr
                for words in ("filesystem error", "basic_filebuf", "std::", "iostream"):
                    self.assertNotIn(words, stderr)
        self.assertIn("/proc/self/mem", self.expect(2, "infer", "/proc/self/mem").stderr)


if __name__ == "__main__":
    harness.main()
