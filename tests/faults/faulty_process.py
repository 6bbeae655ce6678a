#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""faulty_process.py SPEC.json FAULT AT HEALED [once]: hidden_device.py, with something wrong at question AT.

Once the file HEALED is there, nothing is wrong any more; with `once`, the fault makes it.
"""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hidden"))
from hidden_device import TARGET, Device

ENDLESS = "1" * (1 << 16)


def say(thing):
    sys.stdout.write(thing if isinstance(thing, str) else json.dumps(thing))
    sys.stdout.write("\n")
    sys.stdout.flush()


def latencies(answer, changed):
    return {**answer, "latency": [changed] * len(answer["latency"])} if "latency" in answer else answer


def flood(text):
    while True:
        sys.stdout.write(text)


# What is said in place of the right answer; some never come back.
SAID = {
    "not_json": lambda answer: "latency: 7",
    "truncated": lambda answer: json.dumps(answer)[:-3],
    "wrong_types": lambda answer: latencies(answer, "7"),
    "nan": lambda answer: latencies(answer, float("nan")),
    "infinite": lambda answer: latencies(answer, float("inf")),
    "negative": lambda answer: latencies(answer, -1),
    "huge": lambda answer: latencies(answer, 1e30),
    "nothing": lambda answer: latencies(answer, 0),
    "missing_latency": lambda answer: {"id": answer["id"]},
    "missing_id": lambda answer: {"latency": answer.get("latency", [])},
    "list": lambda answer: [answer],
    "too_few": lambda answer: {**answer, "latency": answer.get("latency", [1])[1:]},
    "too_many": lambda answer: {**answer, "latency": [*answer.get("latency", []), 1]},
    "error": lambda answer: {"id": answer["id"], "error": "the GPU is busy"},
    "unknown_id": lambda answer: {**answer, "id": answer["id"] + 1_000_000},
    "negative_id": lambda answer: {**answer, "id": -1},
    "text_id": lambda answer: {**answer, "id": str(answer["id"])},
    "dies": lambda answer: os._exit(7),
    "is_killed": lambda answer: os.kill(os.getpid(), 9),
    "closes": lambda answer: (os.close(1), time.sleep(600)),
    "hangs": lambda answer: time.sleep(600),
    "endless_line": lambda answer: flood(ENDLESS),
    "endless_lines": lambda answer: flood(json.dumps(answer) + "\n"),
    "endless_blanks": lambda answer: flood("\n"),
}
# Of a pair of questions.
PAIRED = {
    "duplicate_id": lambda one, other: [one, {**other, "id": one["id"]}],
    "swapped_ids": lambda one, other: [{**one, "id": other["id"]}, {**other, "id": one["id"]}],
    "other_order": lambda one, other: [other, one],
}
FAULTS = [*SAID, *PAIRED, "greets_nonsense", "greets_not", "changes_into_another"]


def main():
    spec_file, fault, at, healed, *once = sys.argv[1:]
    if pathlib.Path(healed).exists():
        fault = None
    spec = json.loads(pathlib.Path(spec_file).read_text())
    if fault == "greets_nonsense":
        say("hello")
    if fault == "greets_not":
        time.sleep(600)
    device = Device(spec)
    changes = fault is None and once and "another" in once
    say(
        {
            "gpuinfer": 1,
            "device": {"name": "another" if changes else "hidden"},
            "targets": [TARGET],
            "buffer_bytes": spec["buffer_bytes"],
            "address_of_buffer": spec["address_of_buffer"],
        }
    )
    questions = (json.loads(line) for line in sys.stdin)
    for number, question in enumerate(questions):
        answer = {"id": question["id"], **device.answer(question)}
        if fault is None or number != int(at):
            say(answer)
            continue
        if once:
            pathlib.Path(healed).touch()
        if fault in PAIRED:
            other = next(questions, None)
            said = PAIRED[fault](answer, {"id": other["id"], **device.answer(other)}) if other else [answer]
            for each in said:
                say(each)
        elif fault == "changes_into_another":
            sys.exit(3)
        else:
            say(SAID[fault](answer))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)
