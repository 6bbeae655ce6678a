#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""hidden_device.py SPEC.json: a device for --device "exec:...", with the cache and the noise that SPEC describes.

Beside the keys of hidden_cache.py, SPEC holds buffer_bytes, address_of_buffer, latency_cycles {hit, miss}, noise
{jitter_cycles, outlier_probability, outlier_cycles, misread_probability}, refused_states, seed, and, when the accesses
are to be counted, count_file. Of caches to which one can store latency_cycles may have dirty_miss.
"""

import json
import math
import random
import signal
import sys
from operator import add

from hidden_cache import make_cache
from hidden_hints import KINDS

TARGET = "L1tex"


class Rare:
    """Positions of events of a small probability in a stream of accesses, without a draw for each access."""

    def __init__(self, probability, rng):
        self._scale = 1 / math.log1p(-probability) if probability else None
        self._rng = rng
        self._wait = self._gap()

    def _gap(self):
        return int(math.log(1 - self._rng.random()) * self._scale) if self._scale else math.inf

    def among(self, count):
        """Positions within the next `count` accesses."""
        while self._wait < count:
            yield self._wait
            self._wait += 1 + self._gap()
        self._wait -= count


class Clock:
    """Turns hits and misses into the latencies that a noisy timer reads."""

    STOCK = 1 << 16

    def __init__(self, spec, rng):
        noise = spec["noise"]
        latency = spec["latency_cycles"]
        self._latency = (latency["hit"], latency["miss"], latency.get("dirty_miss", latency["miss"]))
        self._outlier_cycles = noise["outlier_cycles"]
        self._outliers = Rare(noise["outlier_probability"], rng)
        self._misreads = Rare(noise["misread_probability"], rng)
        self._rng = rng
        sigma = noise["jitter_cycles"]
        self._jitter = [round(rng.gauss(0, sigma)) for _ in range(self.STOCK)] if sigma else None
        self._may_reach_zero = sigma and min(self._latency) + min(self._jitter) < 1

    def read(self, misses):
        for at in self._misreads.among(len(misses)):
            misses[at] = 0 if misses[at] else 1
        latency = self._latency
        cycles = [latency[miss] for miss in misses]
        if self._jitter:
            cycles = list(map(add, cycles, self._jitter_for(len(cycles))))
            if self._may_reach_zero:
                cycles = [max(1, cycle) for cycle in cycles]
        for at in self._outliers.among(len(cycles)):
            cycles[at] += self._outlier_cycles
        return cycles

    def _jitter_for(self, count):
        first = self._rng.randrange(self.STOCK)
        if first + count <= self.STOCK:
            return self._jitter[first : first + count]
        return (self._jitter[first:] + self._jitter[:first]) * (1 + count // self.STOCK)


class Device:
    def __init__(self, spec):
        rng = random.Random(spec["seed"])
        self._cache = make_cache(spec, rng)
        self._carveouts_kb = [carveout["carveout_kb"] for carveout in spec.get("carveouts", [])]
        self._clock = Clock(spec, rng)
        self._refused = spec["refused_states"]
        self._buffer_bytes = spec["buffer_bytes"]
        self._stores = "store" in spec
        self._hints = "hints" in spec
        self._set_asides = spec.get("set_asides", []) if self._hints else []
        self.accesses = 0

    def answer(self, question):
        state, warm, record = question["state"], question["warm"], question["record"]
        if question["target"] != TARGET:
            return {"error": f"there is no {question['target']} here, ask {TARGET}"}
        if state in self._refused:
            return {"error": f"the state {state} cannot be given, ask another"}
        if any(max(part) + 4 > self._buffer_bytes or min(part) < 0 for part in (warm, record) if part):
            return {"error": f"an offset lies outside the buffer of {self._buffer_bytes} bytes"}
        if self._carveouts_kb:
            carveout_kb = question.get("carveout_kb")
            if carveout_kb not in (None, *self._carveouts_kb):
                return {"error": f"there is no carve-out of {carveout_kb} KB, ask {self._carveouts_kb}"}
            self._cache.choose(carveout_kb)
        if state == "clean":
            self._cache.power_on()
        elif state == "invalidated":
            self._cache.invalidate()
        elif state != "keep":
            return {"error": f"there is no state {state}, ask clean, invalidated or keep"}
        self.accesses += len(warm) + len(record)
        if "store" in question:
            return self._answer_with_stores(warm, record, question["store"])
        if "set_aside_bytes" in question or any(kind in question for kind in KINDS):
            return self._answer_with_hints(warm, record, question)
        self._cache.play(warm)
        return {"latency": self._clock.read(self._cache.play(record))}

    def _answer_with_stores(self, warm, record, stores):
        if not self._stores:
            return {"error": "nothing can be stored here, ask for loads"}
        self._cache.play(warm, {number for number in stores if number < len(warm)})
        stores = {number - len(warm) for number in stores if number >= len(warm)}
        cycles = self._clock.read(self._cache.play(record, stores))
        return {"latency": [0 if place in stores else cycle for place, cycle in enumerate(cycles)]}


    def _answer_with_hints(self, warm, record, question):
        size = question.get("set_aside_bytes")
        if not self._hints or (size is not None and not any(size <= each["bytes"] for each in self._set_asides)):
            return {"error": "no such hints can be given here, ask for loads without"}
        self._cache.set_aside(size)
        hints = {number: kind for kind in KINDS for number in question.get(kind, ())}
        self._cache.play(warm, hints)
        recorded = {number - len(warm): kind for number, kind in hints.items()}
        cycles = self._clock.read(self._cache.play(record, recorded))
        self._cache.set_aside(None)
        return {"latency": cycles}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    device = Device(spec)
    greeting = {
        "gpuinfer": 1,
        "device": {"name": "hidden"},
        "targets": [TARGET],
        "buffer_bytes": spec["buffer_bytes"],
        "address_of_buffer": spec["address_of_buffer"],
    }
    if "carveouts" in spec:
        carveouts_kb = [carveout["carveout_kb"] for carveout in spec["carveouts"]]
        greeting["heeded_circumstances"] = {"carveouts_kb": carveouts_kb}
    if "store" in spec:
        greeting["stores"] = True
    if "hints" in spec:
        greeting["hints"] = True
    if "set_asides" in spec:
        greeting["largest_set_aside_bytes"] = spec["set_asides"][-1]["bytes"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        print(json.dumps(greeting), flush=True)
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps({"id": question["id"], **device.answer(question)}), flush=True)
    finally:
        if "count_file" in spec:
            with open(spec["count_file"], "w", encoding="utf-8") as file:
                print(device.accesses, file=file)


if __name__ == "__main__":
    main()
