#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Random command lines, changed inputs, and runs that signals interrupt: nothing of it may harm anybody.

Whatever is tried has to end in time with a status from 0 to 4 and lines that a terminal can show, leave no process and
no temporary file, and end no later than a second after its --timeout or after a signal. The time in which other
programs had the cores does not count. Exit status 1 when anything is not so.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import harness

LONGEST_SECONDS = 60
ENDING_SECONDS = 1.0
# For the interpreter to see it.
ALLOWANCE_SECONDS = 0.3
MARK = "GPUINFER_HOSTILE"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
TEMPORARY = re.compile(r"\.gpuinfer-")

# What may stand for each kind of value in `gpuinfer VERB --help`.
WORDS = (
    "", "x", "0", "1", "-1", "1e9", "0.01", "nan", "99999999999999999999", "L1tex", "l2", "all", "yaml", "json", "csv", "small.yaml", "virtual:small.yaml",
    "virtual:gtx780", "recorded:run.h5", "run.h5", "chase.csv", "out", "out.svg", "missing/out", "/dev/null", "/dev/full", "/proc/self/mem", "loop",
    "pipe", ".", "--", "-", "=", "\x1b[2J", "\u202e", "a" * 300, "exec:true", "exec:sleep 50", "exec:yes", "exec:cat", "faulty:lost@3:virtual:small.yaml",
    "cyclic:1K,32", "random:2K,32,1000", "csv:chase.csv", "archive:run.h5", "cuda:0", "host:", "policies", "devices", "bash", "gpgpusim",
)  # fmt: skip


class Judge:
    def __init__(self, program, rng):
        self.program = program
        self.rng = rng
        self.problems = []
        self.statuses = collections.Counter()
        self.slowest = 0.0

    def scratch(self):
        """A folder with one of each kind of input."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuinfer-hostile-"))
        (folder / "small.yaml").write_text(harness.CACHE)
        (folder / "chase.csv").write_text("offset,latency\n" + "".join(f"{32 * (i % 40)},{30 if i > 40 else 200}\n" for i in range(200)))
        (folder / "loop").symlink_to("loop")
        shutil.copy(min((ROOT / "data/h200").glob("*.h5"), key=lambda each: each.stat().st_size), folder / "run.h5")
        os.mkfifo(folder / "pipe")
        return folder

    def run(self, arguments, folder, interruption=None, limit=None):
        """`interruption`: seconds and a signal; `limit`: seconds that it was allowed itself."""
        before = {path.name for path in folder.iterdir()}
        environment = {**os.environ, MARK: str(folder), "TMPDIR": str(folder)}
        process = subprocess.Popen(
            [self.program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        began, waited = time.monotonic(), waited_for_a_core(process.pid)
        longest = LONGEST_SECONDS
        sent = None
        try:
            if interruption:
                wait_until_signals_are_caught(process)
                try:
                    process.communicate(timeout=interruption[0])
                except subprocess.TimeoutExpired:
                    sent = interruption[1]
                    began, waited = time.monotonic(), waited_for_a_core(process.pid)
                    process.send_signal(sent)
                longest = ENDING_SECONDS
            elif limit:
                longest = limit + ENDING_SECONDS
            stdout, stderr, took = self.wait(process, began, waited)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.note(arguments, interruption, f"did not end in {LONGEST_SECONDS} s")
            return
        self.statuses[process.returncode] += 1
        over = took - longest
        if sent or limit:
            self.slowest = max(self.slowest, took - longest + ENDING_SECONDS)
        if (sent or limit) and over > ALLOWANCE_SECONDS:
            self.note(arguments, interruption, f"ended {over:.1f} s later than it may")
        if process.returncode not in range(5) and not (sent == signal.SIGKILL and process.returncode == -signal.SIGKILL):
            self.note(arguments, interruption, f"ended with status {process.returncode}")
        if UNSEEN.search(stderr.decode(errors="replace")) or (b"\x1b" in stdout):
            self.note(arguments, interruption, f"steers a terminal: {stderr[:200]!r}")
        for words in (b"filesystem error", b"basic_", b"std::", b"terminate called"):
            if words in stderr:
                self.note(arguments, interruption, f"speaks as a library: {stderr[-200:]!r}")
        self.look_for_children(arguments, interruption, folder)
        left = {path.name for path in folder.iterdir()} - before
        for name in sorted(left):
            if TEMPORARY.search(name):
                self.note(arguments, interruption, f"left {name}")

    def wait(self, process, began, waited):
        """What it said, and how long it took beside the time in which others had the cores."""
        lost = 0.0
        while True:
            lost = max(lost, waited_for_a_core(process.pid) - waited)
            try:
                stdout, stderr = process.communicate(timeout=0.02)
                return stdout, stderr, time.monotonic() - began - lost
            except subprocess.TimeoutExpired:
                if time.monotonic() - began - lost > LONGEST_SECONDS:
                    raise

    def look_for_children(self, arguments, interruption, folder):
        until = time.monotonic() + 5
        while time.monotonic() < until:
            left = marked_processes(folder)
            if not left:
                return
            time.sleep(0.02)
        self.note(arguments, interruption, f"left processes: {left}")
        for process in left:
            os.kill(int(process), signal.SIGKILL)

    def note(self, arguments, interruption, what):
        how = f" after {interruption[0]:.2f} s and {interruption[1].name}" if interruption else ""
        self.problems.append(f"{arguments}{how}: {what}")
        print(self.problems[-1], file=sys.stderr, flush=True)


def waited_for_a_core(process):
    try:
        return int(pathlib.Path(f"/proc/{process}/schedstat").read_text().split()[1]) * 1e-9
    except OSError:
        return 0.0


def wait_until_signals_are_caught(process):
    """Before that the program has not begun, and is ended as any other."""
    caught = 1 << (signal.SIGTERM - 1)
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        if int(re.search(r"^SigCgt:\s+(\w+)", status, re.M)[1], 16) & caught:
            return
        time.sleep(0.001)


def marked_processes(folder):
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


def options_of_verbs(program):
    """The verbs, and the long options that each takes, as its help names them."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  ([a-z]+) ", text, re.M)
    return {
        verb: re.findall(r"--([a-z][a-z-]+)", subprocess.run([program, verb, "--help"], capture_output=True, text=True, check=True).stdout)
        for verb in verbs
    }


def command_line(rng, options):
    verb = rng.choice(sorted(options))
    arguments = [verb]
    for _ in range(rng.randrange(6)):
        if rng.random() < 0.6 and options[verb]:
            arguments.append("--" + rng.choice(options[verb]))
        if rng.random() < 0.8:
            arguments.append(rng.choice(WORDS))
    if verb == "run" and rng.random() < 0.7:
        arguments += ["--target", "L1tex", "--device", rng.choice(WORDS), "-o", rng.choice(WORDS)]
    return arguments


def changed(rng, content):
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 50))):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            content[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del content[place : place + rng.randrange(1, 100)]
        elif kind == 2:
            content[place:place] = content[: rng.randrange(1, 200)]
        elif kind == 3:
            content[place:place] = rng.choice(("\x9b", "\u202e", "[" * 2000, "9" * 400, "-", "null", ": ", "\x00", "\\ud83c")).encode()
        else:
            del content[place:]
    return bytes(content)


def hostile_command_lines(judge, count):
    options = options_of_verbs(judge.program)
    for _ in range(count):
        folder = judge.scratch()
        # Those that hang as they should, waiting for a process or a pipe, are ended.
        judge.run(command_line(judge.rng, options), folder, (3.0, signal.SIGTERM))
        shutil.rmtree(folder)


def hostile_inputs(judge, count):
    for _ in range(count):
        folder = judge.scratch()
        name = judge.rng.choice(("small.yaml", "chase.csv", "run.h5"))
        path = folder / name
        path.write_bytes(changed(judge.rng, path.read_bytes()))
        asked = {
            "small.yaml": (("show", name), ("export", name, "--to=csv"), ("report", name), ("--target=L1tex", f"--device=virtual:{name}", "--timeout=2", "--quiet")),
            "chase.csv": (("infer", name, "--timeout=2", "--quiet"), ("validate", "small.yaml", name)),
            "run.h5": (("infer", name, "--timeout=2", "--quiet"), ("--target=all", f"--device=recorded:{name}", "--timeout=2", "--quiet")),
        }[name]
        arguments = judge.rng.choice(asked)
        judge.run(arguments, folder, limit=2.0 if "--timeout=2" in arguments else None)
        shutil.rmtree(folder)


def interrupted_runs(judge, count):
    serve = f"exec:{judge.program} serve --device virtual:small.yaml"
    for _ in range(count):
        folder = judge.scratch()
        (folder / "run.h5").unlink()
        arguments = judge.rng.choice((
            ("--target=L1tex", "--device", serve, "--record=run.h5", "-o", "out.yaml", "--quiet"),
            ("--target=all", "--device=virtual:gtx780", "--record=run.h5", "-o", "out.yaml", "--quiet"),
            ("--target=L1tex", "--device=exec:sleep 50 & sleep 51", "-o", "out.yaml"),
            ("--target=L1tex", "--device=virtual:gtx780", "--device=virtual:gtx560ti", "-o", "fleet.yaml", "--quiet"),
            ("survey", "--target=L1tex", "--device=virtual:gtx780", "--device", serve, "-o", "fleet.yaml", "--quiet"),
            ("simulate", "small.yaml", "--sequence=random:1K,32,20000000", "-o", "rows.csv"),
            ("list", "policies", "--classes"),
        ))  # fmt: skip
        moment = judge.rng.choice((0.0, 0.02, 0.1, judge.rng.uniform(0, 1), judge.rng.uniform(0, 4)))
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
        judge.run(arguments, folder, (moment, judge.rng.choice(signals)))
        whole = folder / "out.yaml"
        if whole.exists():
            judge.run(("show", "out.yaml"), folder)
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpuinfer", required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--command-lines", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--interruptions", type=int, default=8)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    judge = Judge(str(pathlib.Path(given.gpuinfer).resolve()), random.Random(given.seed))
    hostile_command_lines(judge, given.command_lines)
    hostile_inputs(judge, given.inputs)
    interrupted_runs(judge, given.interruptions)
    statuses = ", ".join(f"{count} with {status}" for status, count in sorted(judge.statuses.items()))
    print(f"{sum(judge.statuses.values())} runs ended, {statuses}; {len(judge.problems)} problems; slowest end {judge.slowest:.2f} s")
    sys.exit(1 if judge.problems else 0)


if __name__ == "__main__":
    main()
