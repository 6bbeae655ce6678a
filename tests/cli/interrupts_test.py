#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""interrupts_test.py GPUINFER: signals end every verb at once, and with it whatever it has started."""

import os
import pathlib
import random
import shlex
import signal
import subprocess
import time

import harness

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A second is promised on a machine whose cores are not all taken; others may run beside this test.
SECONDS = 5 * harness.PATIENCE


class Interrupts(harness.ProgramTest):
    sleeps = 0

    def sleeper(self):
        """A time to sleep that nobody else sleeps, by which a process can be found again."""
        Interrupts.sleeps += 1
        return f"3{os.getpid()}.{Interrupts.sleeps}"

    def processes(self, word):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if word.encode() in words and state != "Z":
                found.append(process.name)
        return found

    def wait_for(self, condition):
        until = time.monotonic() + SECONDS
        while not condition() and time.monotonic() < until:
            time.sleep(0.02)
        self.assertTrue(condition())

    def start(self, *arguments, **options):
        # Whoever runs the tests may ignore SIGHUP (nohup), and the program would, too.
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL), **options}
        process = subprocess.Popen([self.program, *arguments], cwd=self.folder, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        return process

    def ends(self, process):
        """What it says on stderr, if it ends in time."""
        began = time.monotonic()
        status = process.wait(timeout=60)
        self.assertLess(time.monotonic() - began, SECONDS)
        stderr = process.stderr.read()
        self.assertIn(status, (3, 4), stderr)
        self.assertIn("gpuinfer: ", stderr)
        return stderr

    def names(self):
        return {path.name for path in self.folder.iterdir()} - {"small.yaml"}

    def test_a_process_that_does_not_greet(self):
        for number in SIGNALS:
            with self.subTest(number.name):
                asleep = self.sleeper()
                process = self.start("--target=L1tex", "--device", f"exec:sleep {asleep}", "-o", "out.yaml")
                self.wait_for(lambda: self.processes(asleep))
                process.send_signal(number)
                self.ends(process)
                self.wait_for(lambda: not self.processes(asleep))
                self.assertEqual(self.names(), set())

    def test_signals_while_it_starts(self):
        """Before there are handlers a signal ends the program as any other, afterwards with a sentence."""
        asleep = self.sleeper()
        chance = random.Random(1)
        for _ in range(60):
            process = self.start("--target=L1tex", "--device", f"exec:sleep {asleep} & sleep {asleep}", start_new_session=True)
            time.sleep(chance.uniform(0, 0.06))
            number = chance.choice(SIGNALS)
            chance.choice((os.kill, os.killpg))(process.pid, number)
            began = time.monotonic()
            self.assertIn(process.wait(timeout=60), (3, -number))
            self.assertLess(time.monotonic() - began, SECONDS)
        self.wait_for(lambda: not self.processes(asleep))

    def test_whatever_it_started_ends_with_a_killed_program(self):
        for verb in ((), ("survey",)):
            with self.subTest(verb):
                asleep = [self.sleeper() for _ in range(3)]
                # One in a session of its own, and one that ignores what it can.
                command = f"setsid sleep {asleep[0]} & (trap '' TERM HUP INT; sleep {asleep[1]}) & sleep {asleep[2]}"
                process = self.start(*verb, "--target=L1tex", "--device", f"exec:{command}", "-o", "out.yaml", "--quiet")
                self.wait_for(lambda: all(self.processes(each) for each in asleep))
                process.kill()
                self.wait_for(lambda: not any(self.processes(each) for each in asleep))

    def test_a_device_that_took_too_long_leaves_nothing(self):
        asleep = self.sleeper()
        done = self.expect(1, "survey", "--target=L1tex", "--device", f"exec:sleep {asleep}", "--device-timeout=1", "-o", "k.yaml", "--quiet")
        self.assertIn("gave no result", done.stderr)
        self.wait_for(lambda: not self.processes(asleep))

    def test_a_process_whose_child_keeps_the_pipe_has_ended(self):
        asleep = self.sleeper()
        began = time.monotonic()
        stderr = self.expect(4, "--target=L1tex", "--device", f"exec:sleep {asleep} & exit 7").stderr
        self.assertLess(time.monotonic() - began, SECONDS)
        self.assertIn("ended with status 7", stderr)
        self.assertEqual(self.processes(asleep), [])

    def test_every_verb(self):
        os.mkfifo(self.folder / "pipe")
        large = self.write("large.csv", "offset,latency\n" + "0,30\n128,200\n" * 2000000)
        loads = "cyclic:1K,32,3000000"
        for number, arguments in enumerate((
            ("simulate", self.small, "--sequence", loads, "-o", "rows.csv"),
            ("probe", "--target=L1tex", f"--device=virtual:{self.small}", "--sequence", loads),
            ("infer", large),
            ("validate", self.small, large),
            ("report", self.small, large, "-o", "page.html"),
            ("infer", "pipe"),
            ("validate", self.small, "pipe"),
            ("export", self.small, "--to=csv", "-o", "pipe"),
            ("serve", f"--device=virtual:{self.small}"),
            ("survey", "--target=L1tex", "--devices=pipe", "-o", "fleet.yaml"),
        )):
            with self.subTest(arguments):
                before = self.names()
                process = self.start(*arguments, stdout=subprocess.DEVNULL)
                time.sleep(0.3)
                self.assertIsNone(process.poll(), "it takes longer than that")
                process.send_signal(SIGNALS[number % len(SIGNALS)])
                self.ends(process)
                self.assertEqual(self.names(), before)

    def cpu_seconds(self, process):
        try:
            words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_seconds_to_end(self, process, signal_number):
        """What it takes from the signal on, which it must not have ended before."""
        self.assertIsNone(process.poll())
        before = self.cpu_seconds(process)
        process.send_signal(signal_number)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime - before

    def test_what_was_measured_is_told(self):
        self.expect(0, "probe", "--target=L1tex", "--device=virtual:gtx780", "--sequence=random:24K,32,1000000", "--record=walk.h5", "-o", "/dev/null")
        for arguments, seconds in (
            (("infer", "walk.h5", "-o", "out.yaml"), 1.5),
            (("--target=all", "--device=virtual:gtx780", "-o", "out.yaml"), 0.5),
        ):
            with self.subTest(arguments):
                process = self.start(*arguments, "--quiet", stdout=subprocess.DEVNULL)
                while process.poll() is None and self.cpu_seconds(process) < seconds:
                    time.sleep(0.01)
                self.assertIsNone(process.poll(), "it takes longer than that")
                self.assertLess(self.cpu_seconds_to_end(process, signal.SIGTERM), 1.0)
                self.assertEqual(process.returncode, 3)
                self.assertIn("it was ", self.expect(0, "show", "--explain", "out.yaml").stdout)
                (self.folder / "out.yaml").unlink()

    def test_the_time_allowed_holds(self):
        large = self.write("large.csv", "offset,latency\n" + "0,30\n128,200\n" * 400000)
        began = time.monotonic()
        self.expect(3, "infer", large, "--timeout=0.5", "--quiet")
        self.assertLess(time.monotonic() - began, SECONDS)

    def test_the_time_allowed_holds_for_a_long_recording(self):
        """What there was no time for is neither found nor said to be missing in the recording."""
        self.expect(0, "probe", "--target=L1tex", "--device=virtual:gtx780", "--sequence=random:24K,32,5000000", "--record=walk.h5", "-o", "/dev/null")
        process = self.start("infer", "walk.h5", "--jobs=1", "--quiet", "-o", "out.yaml", stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        self.assertLess(self.cpu_seconds_to_end(process, signal.SIGINT), 1)
        (self.folder / "out.yaml").unlink(missing_ok=True)
        for allowed in (0.5, 1.0, 2.0):
            with self.subTest(allowed):
                process = self.start("infer", "walk.h5", f"--timeout={allowed}", "--jobs=1", "--quiet", "-o", "out.yaml", stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(process.returncode, 3)
                # One thread takes no more of a core than the time that passes.
                self.assertLess(usage.ru_utime + usage.ru_stime, allowed + 1)
                if not (self.folder / "out.yaml").exists():
                    continue  # there was no time to read it
                told = self.expect(0, "show", "--explain", "out.yaml").stdout
                self.assertIn("it was stopped", told)
                self.assertNotIn("the recordings hold", told)
                (self.folder / "out.yaml").unlink()

    def test_a_replay_without_time_is_none_that_failed(self):
        self.expect(0, "--target=L1tex", f"--device=virtual:{self.small}", "--record=run.h5", "--quiet", "-o", "/dev/null")
        done = self.expect(3, "infer", "run.h5", "--timeout=0.000001", "--quiet", "-o", "out.yaml")
        self.assertIn("before all was found out", done.stderr)
        self.assertNotIn("do not fit", done.stderr)
        self.assertIn("not asked: the time allowed is over", self.expect(0, "show", "--explain", "out.yaml").stdout)

    def test_a_probe_that_is_kept_goes_on_later(self):
        arguments = ("probe", "--target=L1tex", "--device=virtual:gtx780", "--sequence=random:24K,32,20000", "--repeat=100", "-o", "out.csv")
        whole = self.expect(0, *arguments).returncode
        self.assertEqual(whole, 0)
        expected = (self.folder / "out.csv").read_text()
        (self.folder / "out.csv").unlink()
        for number in SIGNALS:
            with self.subTest(number.name):
                process = self.start(*arguments, "--record=new.h5", stdout=subprocess.DEVNULL)
                self.wait_for(lambda: "new.h5.journal-journal" in self.names())
                process.send_signal(number)
                self.assertIn("every answer is kept; go on with", self.ends(process))
                self.assertEqual(self.names(), {"new.h5.journal"})
                self.expect(0, *arguments, "--resume=new.h5")
                self.assertEqual(self.names(), {"new.h5", "out.csv"})
                self.assertEqual((self.folder / "out.csv").read_text(), expected)
                for name in self.names():
                    (self.folder / name).unlink()

    def test_an_archive_on_its_way_is_given_up(self):
        arguments = ("--target=all", "--device=virtual:gtx780", "-o", "out.yaml", "--quiet")
        process = self.start(*arguments, "--record=new.h5", stdout=subprocess.DEVNULL)
        while "out.yaml" not in self.names():
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        self.assertLess(self.cpu_seconds_to_end(process, signal.SIGTERM), 0.4)
        self.assertIn("every answer is kept; go on with", self.ends(process))
        self.assertEqual(self.names(), {"new.h5.journal", "out.yaml"})
        self.expect(0, *arguments, "--resume=new.h5")
        self.assertEqual(self.names(), {"new.h5", "out.yaml"})

    def test_one_long_question_ends_within_a_second(self):
        process = self.start("probe", "--target=L1tex", f"--device=virtual:{self.small}", "--sequence=random:2K,32,30000000", "--record=new.h5")
        while process.poll() is None and self.cpu_seconds(process) < 0.5:
            time.sleep(0.01)
        self.assertLess(self.cpu_seconds_to_end(process, signal.SIGTERM), 1.0)
        self.assertEqual(process.returncode, 3)

    def test_no_archive_of_nothing(self):
        asleep = self.sleeper()
        serve = f"{shlex.quote(str(self.program))} serve --device virtual:{self.small}"
        self.write("device.sh", f"if [ -e ready ]; then exec {serve}; fi\n{serve} < /dev/null | head -n 1\nsleep {asleep}\n")
        arguments = ("--target=L1tex", "--device=exec:sh device.sh", "--quiet", "-o", "out.yaml")
        process = self.start(*arguments, "--record=new.h5")
        self.wait_for(lambda: "new.h5.journal" in self.names() and self.processes(asleep))
        process.send_signal(signal.SIGINT)
        self.assertIn("go on with", self.ends(process))
        self.assertEqual(self.names(), {"device.sh", "new.h5.journal", "out.yaml"})
        self.write("ready", "")
        self.expect(0, *arguments, "--resume=new.h5")
        self.expect(0, "infer", "new.h5", "--quiet", "-o", "/dev/null")

    def test_several_devices_leave_nothing(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        process = self.start("--target=all", "--device=virtual:gtx780", "--device=virtual:gtx560ti", "-o", "fleet.yaml", "--quiet",
                             env={**os.environ, "TMPDIR": str(scratch)})
        while process.poll() is None and self.cpu_seconds(process) < 0.3:
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertEqual(list(scratch.iterdir()), [])

    def test_a_fleet_that_is_no_file_leaves_no_folder(self):
        (self.folder / "nowhere").symlink_to("/dev/null")
        self.expect(1, "survey", "--target=L1tex", "--device=exec:false", "-o", "nowhere", "--quiet")
        self.assertEqual(self.names(), {"nowhere"})

    def test_devices_that_do_not_answer_end_in_time(self):
        silent = "exec:trap '' TERM HUP INT; sleep 30"
        began = time.monotonic()
        done = self.run_program("doctor", "--device", silent, "--timeout=0.5")
        self.assertLess(time.monotonic() - began, 0.5 + SECONDS)
        self.assertEqual(done.returncode, 4)
        self.assertIn("had not answered", done.stdout)
        for arguments in (("--device", silent), ("--device", silent, "--device", silent), ("--device", silent, "--device=virtual:gtx780")):
            with self.subTest(arguments):
                began = time.monotonic()
                self.run_program("--target=L1tex", *arguments, "--timeout=0.5", "--quiet", "-o", "/dev/null")
                self.assertLess(time.monotonic() - began, 0.5 + SECONDS)

    def test_nohup(self):
        process = self.start("serve", f"--device=virtual:{self.small}", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertIn("gpuinfer", process.stdout.readline())
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=SECONDS), 0)


if __name__ == "__main__":
    harness.main()
