# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program and judges how it ended."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

LONGEST_SECONDS = 60
ENDING_SECONDS = 1.0
# For the interpreter to see it.
ALLOWANCE_SECONDS = 0.3
MARK = "GPUINFER_HOSTILE"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
OF_LIBRARIES = (b"filesystem error", b"basic_", b"std::", b"terminate called")
TEMPORARY = ".gpuinfer-"


@dataclasses.dataclass
class Tally:
    """What came out of the runs of one kind."""

    tried: int = 0
    runs: int = 0
    statuses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    problems: list = dataclasses.field(default_factory=list)
    slowest_end: float = 0.0
    megabytes: float = 0.0

    def add(self, other):
        self.tried += other.tried
        self.runs += other.runs
        self.statuses += other.statuses
        self.problems += other.problems
        self.slowest_end = max(self.slowest_end, other.slowest_end)
        self.megabytes = max(self.megabytes, other.megabytes)


@dataclasses.dataclass
class Ended:
    status: int
    stdout: bytes
    stderr: bytes


class Judge:
    """`keep`: a folder for the inputs of runs with problems; none: they are not kept."""

    def __init__(self, program, rng, keep=None, name=""):
        self.program = program
        self.rng = rng
        self.keep = keep
        self.name = name
        self.tallies = collections.defaultdict(Tally)
        self.files = {}
        self.scratches = 0

    @contextlib.contextmanager
    def scratch(self, files):
        """A folder with these files, contents by name, and some that are none."""
        self.files = files
        self.scratches += 1
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuinfer-hostile-"))
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "loop").symlink_to("loop")
        os.mkfifo(folder / "pipe")
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def run(self, what, arguments, folder, interruption=None, limit=None, stdin="/dev/null"):
        """How it ended; none: it did not. `interruption`: seconds and a signal; `limit`: seconds that it was allowed."""
        tally = self.tallies[what]
        before = {path.name for path in folder.iterdir()}
        environment = {"GPUINFER_DATA": str(ROOT), **os.environ, MARK: str(folder), "TMPDIR": str(folder)}
        with open(folder / stdin, "rb") as said, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(
                [self.program, *arguments], cwd=folder, stdin=said, stdout=stdout, stderr=stderr, env=environment, preexec_fn=heed_hangups
            )
            watch = Watch(process)
            sent = None
            if interruption:
                wait_until_signals_are_caught(process, watch)
                if not watch.ends_within(interruption[0]):
                    sent = interruption[1]
                    watch.restart()
                    os.kill(process.pid, sent)
            said_to_end = watch.ends_within(LONGEST_SECONDS)
            if not said_to_end:
                os.kill(process.pid, signal.SIGKILL)
                watch.ends_within(LONGEST_SECONDS)
            stdout.seek(0)
            stderr.seek(0)
            ended = Ended(process.returncode, stdout.read(), stderr.read())
        tally.runs += 1
        tally.statuses[ended.status] += 1
        tally.megabytes = max(tally.megabytes, watch.megabytes)

        def note(problem):
            self.note(what, arguments, interruption, stdin, problem)

        if not said_to_end:
            note(f"did not end in {LONGEST_SECONDS} s")
        elif limit or (sent and sent != signal.SIGKILL):
            allowed = 0.0 if sent else limit  # how soon it ends by SIGKILL is the kernel's
            tally.slowest_end = max(tally.slowest_end, watch.seconds() - allowed)
            if watch.seconds() > allowed + ENDING_SECONDS + ALLOWANCE_SECONDS:
                waited = sum(watch.waited().values()) * 1e-9
                note(f"ended {watch.seconds() - allowed:.1f} s after it was to; all of its threads waited {waited:.1f} s for cores")
        if said_to_end and ended.status not in range(5) and not (sent == signal.SIGKILL and ended.status == -signal.SIGKILL):
            note(f"ended with status {ended.status}")
        for stream, text in (("stdout", ended.stdout), ("stderr", ended.stderr)):
            if found := UNSEEN.search(text.decode(errors="replace")):
                note(f"steers a terminal on {stream}: {found.string[max(0, found.start() - 80) : found.start() + 40]!r}")
        if any(words in ended.stderr for words in OF_LIBRARIES):
            note(f"speaks as a library: {ended.stderr[-200:]!r}")
        self.look_for_children(note, folder)
        for name in sorted({path.name for path in folder.iterdir()} - before):
            if name.startswith(TEMPORARY):
                note(f"left {name}")
        return ended if said_to_end else None

    def look_for_children(self, note, folder):
        until = time.monotonic() + 5
        while time.monotonic() < until:
            left = marked_processes(folder)
            if not left:
                return
            time.sleep(0.02)
        note(f"left processes: {left}")
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def note(self, what, arguments, interruption, stdin, problem):
        how = f" after {interruption[0]:.2f} s and {interruption[1].name}" if interruption else ""
        command = shlex.join(["gpuinfer", *arguments]) + ("" if stdin == "/dev/null" else f" < {stdin}")
        problems = self.tallies[what].problems
        problems.append(f"{what}: {command}{how}: {problem}")
        if self.keep:
            kept = self.keep / f"{what.replace(' ', '-')}-{self.name}-{self.scratches}"
            for name, content in self.files.items():
                (kept / name).parent.mkdir(parents=True, exist_ok=True)
                (kept / name).write_bytes(content)
            with (kept / "problems").open("a") as told:
                told.write(problems[-1] + "\n")
            problems[-1] += f" (in {kept})"
        print(problems[-1].encode("ascii", "backslashreplace").decode(), file=sys.stderr, flush=True)


class Watch:
    """The time that a process has had since, beside that in which others had the cores; and its end."""

    STEP_SECONDS = 0.02

    def __init__(self, process):
        self.process = process
        self.delays = {}  # nanoseconds, by process and thread
        self.megabytes = 0.0
        self.restart()

    def restart(self):
        self.look()
        self.delays_before = dict(self.delays)
        self.began = time.monotonic()
        self.ended_at = None

    def ends_within(self, seconds):
        due = 0.0
        while self.process.returncode is None:
            process, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            now = time.monotonic()
            if process:
                self.ended_at = now
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.megabytes = usage.ru_maxrss / 1024
            elif now >= due:
                self.look()
                due = now + self.STEP_SECONDS
                if self.seconds() > seconds:
                    return False
            time.sleep(min(0.003, seconds))
        return True

    def seconds(self):
        return (self.ended_at or time.monotonic()) - self.began - self.lost()

    def lost(self):
        """Of each process the longest time that a thread could have run and had no core, as they wait for one another."""
        of_processes = collections.defaultdict(int)
        for (process, _), delay in self.waited().items():
            of_processes[process] = max(of_processes[process], delay)
        return sum(of_processes.values()) * 1e-9

    def waited(self):
        """Nanoseconds without a core since, by process and thread."""
        return {thread: delay - self.delays_before.get(thread, 0) for thread, delay in self.delays.items()}

    def look(self):
        waiting = [str(self.process.pid)]
        while waiting:
            process = waiting.pop()
            with contextlib.suppress(OSError):
                for task in pathlib.Path(f"/proc/{process}/task").iterdir():
                    self.delays[process, task.name] = int((task / "schedstat").read_text().split()[1])
                    waiting += (task / "children").read_text().split()


def heed_hangups():
    """Whoever runs this may ignore them (nohup)."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_until_signals_are_caught(process, watch):
    """Before that the program has not begun, and is ended as any other."""
    caught = 1 << (signal.SIGTERM - 1)
    until = time.monotonic() + LONGEST_SECONDS
    while not watch.ends_within(0) and time.monotonic() < until:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        if int(re.search(r"^SigCgt:\s+(\w+)", status, re.M)[1], 16) & caught:
            return
        time.sleep(0.001)


def marked_processes(folder):
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
    return found
