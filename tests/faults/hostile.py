#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Random command lines, changed inputs, and runs that signals interrupt: nothing of it may harm anybody.

Whatever is tried has to end in time with a status from 0 to 4 and lines that a terminal can show, leave no process and
no temporary file, and end no later than a second after its --timeout or after a signal. The time in which other
programs had the cores does not count. Exit status 1 when anything is not so.
"""

import argparse
import functools
import multiprocessing
import pathlib
import random
import re
import shlex
import signal
import stat
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import hostile_inputs
import judge

COMMAND_LINES = "command lines"
INTERRUPTIONS = "interruptions"

# What may stand for each kind of value in `gpuinfer VERB --help`.
WORDS = (
    "", "x", "0", "1", "-1", "1e9", "0.01", "nan", "99999999999999999999", "L1tex", "l2", "all", "yaml", "json", "csv", "small.yaml", "virtual:small.yaml",
    "virtual:gtx780", "recorded:run.h5", "run.h5", "chase.csv", "out", "out.svg", "missing/out", "/dev/null", "/dev/full", "/proc/self/mem", "loop",
    "pipe", ".", "--", "-", "=", "\x1b[2J", "\u202e", "a" * 300, "exec:true", "exec:sleep 50", "exec:yes", "exec:cat", "faulty:lost@3:virtual:small.yaml",
    "cyclic:1K,32", "random:2K,32,1000", "csv:chase.csv", "archive:run.h5", "cuda:0", "host:", "policies", "devices", "bash", "gpgpusim",
)  # fmt: skip
INTERRUPTED = (
    "run --target=L1tex '--device=exec:GPUINFER serve --device virtual:small.yaml' --record=new.h5 -o out.yaml --quiet",
    "run --target=L1tex --device=virtual:small.yaml --record=new.h5 -o out.yaml --quiet",
    "run --target=all --device=virtual:gtx780 --record=new.h5 -o out.yaml --quiet",
    "run --target=L1tex '--device=exec:sleep 50 & sleep 51' -o out.yaml",
    "run --target=L1tex --device=virtual:gtx780 --device=virtual:gtx560ti -o fleet.yaml --quiet",
    "survey --target=L1tex --device=virtual:gtx780 '--device=exec:GPUINFER serve --device virtual:small.yaml' -o fleet.yaml --quiet",
    "simulate small.yaml --sequence=random:1K,32,20000000 -o rows.csv",
    "probe --target=L1tex --device=virtual:small.yaml --sequence=random:2K,32,3000000 --record=new.h5 -o rows.csv",
    "infer long.h5 -o out.yaml",
    "validate small.yaml long.h5",
    "report small.yaml long.h5 -o out.html",
    "list policies --classes",
)


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


def try_command_line(judged, options, seeds):
    with judged.scratch({name: seeds[name] for name in ("small.yaml", "chase.csv", "run.h5")}) as folder:
        # Those that hang as they should, waiting for a process or a pipe, are ended.
        judged.run(COMMAND_LINES, command_line(judged.rng, options), folder, (2.0, signal.SIGTERM))


def try_interruption(judged, seeds):
    rng = judged.rng
    arguments = shlex.split(rng.choice(INTERRUPTED).replace("GPUINFER", shlex.quote(judged.program)))
    moment = rng.choice((0.0, 0.02, 0.1, rng.uniform(0, 1), rng.uniform(0, 4)))
    interruption = (moment, rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)))
    with judged.scratch({name: seeds[name] for name in ("small.yaml", "long.h5")}) as folder:
        judged.run(INTERRUPTIONS, arguments, folder, interruption)
        kept = [name for name in ("new.h5", "new.h5.journal") if (folder / name).exists()]
        if (folder / "out.yaml").exists():
            expect(judged, folder, ("show", "out.yaml"), interruption)
        if kept and "--target=L1tex" in arguments:
            resumed = [word.replace("--record", "--resume") for word in arguments]
            expect(judged, folder, resumed, interruption)
            if arguments[0] == "run" and hostile_inputs.caches_of((folder / "out.yaml").read_bytes()) != hostile_inputs.caches_of(seeds["profile.yaml"]):
                judged.note(INTERRUPTIONS, arguments, interruption, "/dev/null", "resumed, it found out something else")


def expect(judged, folder, arguments, interruption):
    ended = judged.run(INTERRUPTIONS, arguments, folder)
    if ended is None or ended.status != 0:
        said = ended and (ended.status, ended.stderr[-300:])
        judged.note(INTERRUPTIONS, arguments, interruption, "/dev/null", f"what was left is not whole: {said}")


def share(given, seeds, worker):
    """The part of one of the processes; what comes out of it, by kind."""
    rng = random.Random(f"{given.seed}/{worker}")
    judged = judge.Judge(given.gpuinfer, rng, given.keep, f"{given.seed}-{worker}")
    options = options_of_verbs(given.gpuinfer)
    asked = {COMMAND_LINES: given.command_lines, **{kind.name: given.inputs for kind in hostile_inputs.KINDS}, INTERRUPTIONS: given.interruptions}
    kinds = {kind.name: kind for kind in hostile_inputs.KINDS}
    tries = [(name, number) for name, count in asked.items() for number in range(worker, count, given.jobs)]
    rng.shuffle(tries)
    for name, number in tries:
        if given.seconds and time.monotonic() > given.began + given.seconds:
            break
        if name == COMMAND_LINES:
            try_command_line(judged, options, seeds)
        elif name == INTERRUPTIONS:
            try_interruption(judged, seeds)
        else:
            hostile_inputs.try_input(judged, kinds[name], number, seeds)
        judged.tallies[name].tried += 1
    return dict(judged.tallies)


def table(tallies):
    yield f"{'kind':<17} {'tried':>6} {'runs':>6} " + "".join(f"{status:>6}" for status in range(5)) + " killed  problems  slowest end  most MB"
    for name, tally in tallies.items():
        statuses = "".join(f"{tally.statuses[status]:>6}" for status in range(5))
        killed = sum(count for status, count in tally.statuses.items() if status not in range(5))
        end = f"{tally.slowest_end:.2f} s"
        yield f"{name:<17} {tally.tried:>6} {tally.runs:>6} {statuses} {killed:>6} {len(tally.problems):>9} {end:>12} {tally.megabytes:>8.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpuinfer", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--command-lines", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=3, help="of each kind")
    parser.add_argument("--interruptions", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, help="begin nothing more after so long")
    parser.add_argument("--keep", type=lambda path: pathlib.Path(path).resolve(), help="a folder for inputs that make problems")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.jobs} processes", flush=True)
    seeds = hostile_inputs.seeds(given.gpuinfer)
    given.began = time.monotonic()
    with multiprocessing.Pool(given.jobs) as pool:
        shares = pool.map(functools.partial(share, given, seeds), range(given.jobs), chunksize=1)
    tallies = {name: judge.Tally() for name in (COMMAND_LINES, *(kind.name for kind in hostile_inputs.KINDS), INTERRUPTIONS)}
    for tallies_of_share in shares:
        for name, tally in tallies_of_share.items():
            tallies[name].add(tally)
    print("\n".join(table(tallies)))
    problems = [problem for tally in tallies.values() for problem in tally.problems]
    for device in ("/dev/null", "/dev/full"):
        if not stat.S_ISCHR(pathlib.Path(device).stat().st_mode):
            problems.append(f"{device} is no device any more")
    print(f"{sum(tally.runs for tally in tallies.values())} runs in {time.monotonic() - given.began:.0f} s, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
