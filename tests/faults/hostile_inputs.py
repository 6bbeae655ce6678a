# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of input that the program reads: whole ones, how they are changed, and who reads them."""

import dataclasses
import json
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable

import harness

REPLAYED = f"{sys.executable} -ISu {shlex.quote(str(pathlib.Path(__file__).with_name('replayed_process.py')))}"
FORMATS = ("gpgpusim", "accelsim", "accelsim-tuner", "mt4g", "ppt-gpu", "json", "csv", "latex", "markdown")

MEI = "=====Visiting the 0.019531 KB array, loop 4*1 times======\n0\t250.0\n1\t488.5\n2\t246.0\n3\t250.0\n\n"
MEI_COLD = (
    "=====0 GB array, cold cache miss====\nStride = 1 element, 4 bytes\n1\t296\n2\t220\n0\t220\n1\t220\n====================\n\n"
    "=====0 GB array, cold cache miss====\nStride = 2 element, 8 bytes\n2\t296\n1\t220\n0\t221\n2\t220\n====================\n"
)
NANOBENCH = "# L1\n" + "".join(
    f"<wbinvd> {' '.join(f'B{(i * step) % 6}{mark}' for i, mark in enumerate(['', '', '?', '', '?', '?']))} -> {hits}\n"
    for step, hits in ((1, 0), (5, 1), (1, "MISS MISS HIT"), (2, 3))
)


def mt4g(begin, latencies=63):
    return begin + "".join(f",{38 if i % 2 else 270}" for i in range(latencies)) + "\n"


def binary_change(rng, content):
    """Bytes, numbers and stretches, as often in the first pages as behind them."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 50))):
        place = rng.randrange(min(len(content), rng.choice((200, 4096, len(content)))) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            content[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            number = rng.choice((0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1))
            form = rng.choice(("<Q", "<I", ">I", ">H"))
            content[place : place + struct.calcsize(form)] = struct.pack(form, number % (1 << 8 * struct.calcsize(form)))
        elif kind == 2:
            length = rng.randrange(1, 4096)
            content[place : place + length] = bytes(length)
        elif kind == 3 and rng.random() < 0.3:
            del content[place : place + rng.randrange(1, 100)]
        elif kind == 4:
            other = rng.randrange(len(content) + 1)
            length = rng.randrange(1, 1000)
            content[place : place + length] = content[other : other + length]
        elif kind == 5 and rng.random() < 0.3:
            del content[place:]
        if not content:
            break
    return bytes(content)


NUMBERS = ("0", "1", "-1", "0.5", "3", "4294967296", "18446744073709551616", "9" * 400, "1e308", "-1e-300", "nan", "inf", "null", "[]", "0x10")
ODD = ("\x9b", "\x1b[2J", "\u202e", "[" * 2000, "{", "}", "-", "null", ": ", "\x00", "\\ud83c", '"', "'", "\\", "&a", "*a", "!!binary ", "---\n", "\r", "\n", "\xff", "# ", ",", "?", "->")


def text_change(rng, content):
    """Bytes, numbers, words and lines."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 50))):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            content[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del content[place : place + rng.randrange(1, 30)]
        elif kind == 2:
            other = rng.randrange(len(content) + 1)
            content[place:place] = content[other : other + rng.randrange(1, 200)]
        elif kind == 3:
            content[place:place] = rng.choice(ODD).encode(rng.choice(("utf-8", "utf-8", "utf-16-le")))
        elif kind in (4, 5):
            if number := re.compile(rb"[0-9.]+").search(content, place):
                content[number.start() : number.end()] = rng.choice(NUMBERS).encode()
        elif kind == 6:
            lines = content.splitlines(keepends=True)
            if lines:
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                if rng.random() < 0.5:
                    lines.pop(rng.randrange(len(lines)))
            content = bytearray(b"".join(lines))
        elif rng.random() < 0.3:
            del content[place:]
    return bytes(content)


def sed_script(rng, content):
    """What is done to lines that another process says, of which there are so many in `content`."""
    commands = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        line = rng.choice(("1", str(rng.randrange(1, 200)), f"{rng.randrange(1, 200)},$"))
        digits = "[0-9][0-9]*"
        commands.append(line + rng.choice((
            "d", "p", f"s/{digits}/{rng.choice(NUMBERS)}/{rng.randrange(1, 9)}", f"s/{digits}/{rng.randrange(400)}/g", f"s/{digits}/&0/g",
            "s/30/200/g", "s/200/30/g", "s/200/31/g", "s/latency/error/", "s/,/,,/", "s/.$//", "s/^/\\xff/", "s/$/\\x1b]0;x\\a/", "s/^.*$/{}/",
        )))  # fmt: skip
    return "\n".join(commands).encode()


@dataclasses.dataclass(frozen=True)
class Kind:
    """`uses`: command lines with what stands for the changed file, IN; its name ends with `suffix`."""

    name: str
    suffix: str
    whole: tuple  # names of seeds
    uses: tuple
    change: Callable = text_change
    beside: tuple = ()  # further seeds that these command lines need
    checks: Callable = lambda ended, folder, seeds: ()  # problems


def lines_that_are_no_json(ended, folder, seeds):
    for line in ended.stdout.decode(errors="replace").splitlines():
        try:
            json.loads(line)
        except ValueError:
            yield f"said {line[:200]!r}"


def caches_of(profile):
    return profile.partition(b"\ncaches:")[2].partition(b"\nevidence:")[0]


def other_caches(ended, folder, seeds):
    """A damaged answer is asked again, so what is found out is the same."""
    if ended.status == 0 and (folder / "out.yaml").exists() and caches_of((folder / "out.yaml").read_bytes()) != caches_of(seeds["profile.yaml"]):
        yield "found out something else"


OF_DESCRIPTIONS = (
    "show IN", "show IN --explain", "show IN@0", "show IN -o out.svg", "report IN -o out.html", "report IN walk.h5 -o out.html", "diff IN",
    "diff IN small.yaml", "merge IN small.yaml -o out.yaml", "validate IN walk.h5", "simulate IN --target=L1tex --sequence=random:2K,32,1000 --explain",
    "simulate IN --target=L1tex --map", "simulate IN --target=L1tex --curve=misses:512,2K,64", "simulate IN --path=global --sequence=cyclic:4K,32,2",
    "run --target=all --device=virtual:IN --timeout=2 --quiet -o out.yaml", "run --target=L1tex --device=virtual:IN --timeout=2 --quiet -o out.yaml",
    "probe --target=L1tex --device=virtual:IN --sequence=cyclic:2K,32", "serve --device=virtual:IN < asked.jsonl", "doctor --device=virtual:IN",
    "survey --target=L1tex --device=virtual:IN --timeout=2 --quiet -o out.yaml", *(f"export IN --to={form}" for form in FORMATS),
)  # fmt: skip
OF_RECORDINGS = ("infer IN --timeout=2 --quiet -o out.yaml", "infer IN --timeout=2 --explain", "validate small.yaml IN", "report small.yaml IN -o out.html")
OF_PROCESSES = (
    "run --target=L1tex --device=PROCESS --timeout=1 --quiet -o out.yaml", "run --target=all --device=PROCESS --timeout=1 --patience=1 --record=out.h5",
    "run --target=L1tex --device=PROCESS --device=virtual:small.yaml --timeout=1 --quiet -o out.yaml",
    "probe --target=L1tex --device=PROCESS --patience=1 --sequence=cyclic:2K,32", "doctor --device=PROCESS --timeout=1",
    "serve --device=PROCESS --patience=1 < asked.jsonl", "survey --target=L1tex --device=PROCESS --timeout=1 --device-timeout=5 --quiet -o out.yaml",
)  # fmt: skip


def of_processes(*processes):
    return tuple(use.replace("PROCESS", shlex.quote("exec:" + process)) for use in OF_PROCESSES for process in processes)


KINDS = (
    Kind("YAML", ".yaml", ("small.yaml", "profile.yaml", "fleet.yaml", "key*.yaml"), OF_DESCRIPTIONS, beside=("walk.h5", "asked.jsonl")),
    Kind("JSON", ".json", ("small.json", "profile.json", "fleet.json", "key*.json"), OF_DESCRIPTIONS, beside=("walk.h5", "asked.jsonl")),
    Kind("CSV", ".csv", ("chase.csv", "walk.csv"), (
        *OF_RECORDINGS, "simulate small.yaml --sequence=csv:IN", "simulate small.yaml --warm=csv:IN --sequence=csv:IN",
        "probe --target=L1tex --device=virtual:small.yaml --sequence=csv:IN",
    )),
    Kind("foreign texts", ".txt", ("mei.txt", "mei-cold.txt", "nanobench.txt", "mt4g*.txt"), OF_RECORDINGS),
    Kind("HDF5", ".h5", ("run.h5", "walk.h5"), (
        *OF_RECORDINGS, "diff IN small.yaml", "run --target=all --device=recorded:IN --timeout=2 --quiet -o out.yaml",
        "run --target=L1tex --device=virtual:small.yaml --resume=IN --timeout=2 --quiet -o out.yaml", "doctor --device=recorded:IN",
        "probe --target=L1tex --device=recorded:IN --sequence=cyclic:2K,32", "probe --target=L1tex --device=virtual:small.yaml --sequence=archive:IN",
        "simulate small.yaml --sequence=archive:IN", "serve --device=recorded:IN < asked.jsonl",
        "survey --target=L1tex --device=recorded:IN --timeout=2 --quiet -o out.yaml",
    ), binary_change, ("asked.jsonl",)),
    Kind("journal", ".h5.journal", ("cut.h5.journal",), (
        "run --target=L1tex --device=virtual:small.yaml --resume=in.h5 --quiet -o out.yaml",
        "run --target=L1tex --device=virtual:small.yaml --resume=in.h5 --timeout=2 --quiet -o out.yaml",
        "run --target=L1tex --device=virtual:small.yaml --record=in.h5 --quiet -o out.yaml", "infer IN --timeout=2",
    ), binary_change, checks=other_caches),
    Kind("answers", ".jsonl", ("answers.jsonl",), of_processes(f"{REPLAYED} IN ends", f"{REPLAYED} IN stays"), beside=("asked.jsonl",)),
    Kind("answers that lie", ".sed", ("small.yaml",), of_processes("GPUINFER serve --device virtual:small.yaml | sed -uf IN"), sed_script,
         ("asked.jsonl",)),
    Kind("devices", ".txt", ("devices.txt",), (
        "survey --target=L1tex --devices=IN --timeout=1 --device-timeout=5 --quiet -o out.yaml",
        "survey --target=L1tex --devices=IN --timeout=1 --device-timeout=5 --jobs=1 --quiet --format=json -o out.json",
    )),
    Kind("survey.json", "", ("fleet.yaml.parts/*",), (
        "survey --target=L1tex --device=virtual:small.yaml --device=virtual:other.yaml --resume -o fleet.yaml --quiet --keep-parts",
    ), beside=("other.yaml", "fleet.yaml.parts/*")),
    Kind("requests", ".jsonl", ("asked.jsonl",), (
        "serve --device=virtual:small.yaml < IN", "serve --device=virtual:small.yaml --target=L1tex < IN", "serve --device=recorded:run.h5 < IN",
        "serve '--device=exec:GPUINFER serve --device virtual:small.yaml' --patience=2 < IN", "serve --device=faulty:random@1x20:virtual:small.yaml < IN",
    ), beside=("run.h5",), checks=lines_that_are_no_json),
)  # fmt: skip


def seeds(program):
    """Whole inputs by name, made by the program where it writes such."""
    texts = {
        "small.yaml": harness.CACHE,
        "other.yaml": harness.NOISE + harness.CACHE.replace("Small", "Other"),
        "chase.csv": "offset,latency\n" + "".join(f"{32 * (i % 40)},{30 if i > 40 else 200}\n" for i in range(200)),
        "mei.txt": MEI,
        "mei-cold.txt": MEI_COLD,
        "nanobench.txt": NANOBENCH,
        "mt4g-sizes.txt": "# stride 32\n" + mt4g("1024") + mt4g("1056"),
        "mt4g-lines.txt": "stride,size,latencies\n" + mt4g("16,1602", 255) + mt4g("32,1602", 255),
        "mt4g-fetches.txt": "stride,latencies\n" + "".join(mt4g(str(stride)) for stride in range(4, 65, 4)),
        "mt4g-arrays.txt": mt4g("229376") + mt4g("229632"),
        "devices.txt": "# a fleet\nvirtual:small.yaml\nvirtual:other.yaml  # noisy\nexec:true\nrecorded:run.h5\nvirtual:gtx780\n",
    }
    keys = (harness.ROOT / "tests/schema/every_key.yaml").read_text().split("\n---\n")
    texts |= {f"key{number}.yaml": text for number, text in enumerate(keys)}
    serve = shlex.quote(program) + " serve --device virtual:small.yaml"
    made_by = (
        "run --target=L1tex --device=virtual:small.yaml --record=run.h5 -o profile.yaml --quiet",
        "run --target=L1tex --device=virtual:small.yaml -o profile.json --format=json --quiet",
        "run --target=L1tex --device=faulty:lost@60:virtual:small.yaml --record=cut.h5 -o part.yaml --quiet",
        f"run --target=L1tex '--device=exec:tee asked.jsonl | {serve} | tee answers.jsonl' -o served.yaml --quiet",
        "survey --target=L1tex --device=virtual:small.yaml --device=virtual:other.yaml -o fleet.yaml --keep-parts --quiet",
        "survey --target=L1tex --device=virtual:small.yaml --device=virtual:other.yaml -o fleet.json --format=json --quiet",
        "probe --target=L1tex --device=virtual:small.yaml --sequence=random:2K,32,2000 --record=walk.h5",
        "probe --target=L1tex --device=virtual:small.yaml --sequence=random:2K,32,500 -o walk.csv",
        "probe --target=L1tex --device=virtual:gtx780 --sequence=random:24K,32,500000 --record=long.h5",
        "export small.yaml --to=json -o small.json",
        *(f"export key{number}.yaml --to=json -o key{number}.json" for number in range(len(keys))),
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, text in texts.items():
            (folder / name).write_text(text)
        for command in made_by:
            done = subprocess.run([program, *shlex.split(command)], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 3):
                raise RuntimeError(f"gpuinfer {command}: ended with status {done.returncode}: {done.stderr}")
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def matching(seeds, patterns):
    return sorted(name for pattern in patterns for name in seeds if pathlib.PurePath(name).match(pattern))


def try_input(judge, kind, number, seeds):
    """Changes one of the whole ones and gives it to the next of those that read such."""
    rng = judge.rng
    chosen = rng.choice(matching(seeds, kind.whole))
    name = "in" + kind.suffix if kind.suffix else chosen
    files = {each: seeds[each] for each in ("small.yaml", *matching(seeds, kind.beside))}
    files[name] = kind.change(rng, seeds[chosen])
    use = kind.uses[number % len(kind.uses)].replace("GPUINFER", shlex.quote(judge.program))
    use = re.sub(r"\bIN\b", name, use)
    command, _, stdin = use.partition(" < ")
    arguments = shlex.split(command)
    # A survey allows each of its devices the time.
    timeout = re.search(r"--timeout=(\S+)", command)
    limit = float(timeout[1]) if timeout and arguments[0] != "survey" else None
    with judge.scratch(files) as folder:
        ended = judge.run(kind.name, arguments, folder, limit=limit, stdin=stdin or "/dev/null")
        for problem in kind.checks(ended, folder, seeds) if ended else ():
            judge.note(kind.name, arguments, None, stdin or "/dev/null", problem)
