# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Draws random caches for hidden_device.py, most of them such that questions can tell everything about them."""

import math
from collections import Counter

from hidden_cache import index_function

MAX_LINES = 2048
MAX_WAYS = 96
MAX_WEIGHTED_WAYS = 16
MAX_BUFFER_BYTES = 8 << 20
MAX_TABLE_ENTRIES = 512
SET_COUNTS = {1: 3, 2: 3, 3: 1, 4: 5, 5: 1, 6: 1, 7: 1, 8: 3, 12: 1, 16: 2, 24: 1, 32: 1, 64: 1}
REFUSALS = {(): 75, ("clean",): 10, ("invalidated",): 8, ("clean", "invalidated"): 7}


def weighted(rng, weights):
    return rng.choices(list(weights), weights.values())[0]


def log_uniform(rng, low, high):
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


def is_power_of_two(number):
    return number & (number - 1) == 0


def rank(masks):
    """Of rows over GF(2)."""
    basis = []
    for mask in masks:
        for row in basis:
            mask = min(mask, mask ^ row)
        if mask:
            basis.append(mask)
    return len(basis)


def draw_ways(rng, sets, policy):
    most = min(MAX_WAYS, MAX_LINES // sets)
    if policy == "weighted_random":
        return [log_uniform(rng, 2, min(MAX_WEIGHTED_WAYS, most))] * sets
    ways = log_uniform(rng, 1, most)
    if rng.random() < 0.7:
        return [ways] * sets
    return [rng.randint(max(1, ways // 2), min(most, ways + ways // 2 + 1)) for _ in range(sets)]


def draw_replacement(rng, policy, ways):
    if policy != "weighted_random":
        return {"policy": policy}
    weights = [rng.randint(1, 8) for _ in range(ways[0])]
    if max(weights) < 2 * min(weights):
        weights[rng.randrange(len(weights))] = 3 * max(weights)
    return {"policy": policy, "victim_weights": weights}


def draw_xor(rng, lowest, count, buffer_bits, address):
    """Every set must be met within the buffer, so the rows are independent over the bits that change there."""
    changing = (1 << buffer_bits) - (1 << lowest)
    highest = max(buffer_bits, min(40, address.bit_length()))
    while True:
        rows = [
            sorted({lowest + place, *rng.sample(range(lowest, buffer_bits), rng.randint(0, 3))}) for place in range(count)
        ]
        if rows and highest > buffer_bits and rng.random() < 0.3:
            rows[0].append(rng.randrange(buffer_bits, highest))
        if rank([sum(1 << bit for bit in row) & changing for row in rows]) == count:
            return {"kind": "xor", "rows": rows, "constant": rng.randrange(1 << count)}


def draw_table(rng, granule, sets, buffer_bytes, address):
    def entries(count):
        table = [*range(sets), *(rng.randrange(sets) for _ in range(count - sets))]
        rng.shuffle(table)
        return table

    if rng.random() < 0.5 and buffer_bytes // granule <= MAX_TABLE_ENTRIES:
        whole = entries(buffer_bytes // granule)
        return {"kind": "table", "granule_bytes": granule, "sets_of": whole, "origin": address, "range_bytes": buffer_bytes}
    return {"kind": "table", "granule_bytes": granule, "sets_of": entries(sets * rng.randint(1, 4))}


def draw_index(rng, line, sets, buffer_bytes, address):
    lowest, buffer_bits = line.bit_length() - 1, buffer_bytes.bit_length() - 1
    granule = line << rng.choice((0, 0, 0, 1, 2, 3))
    kinds = ["modulo", "sum", "table"] + (["bits", "xor"] if is_power_of_two(sets) else [])
    kind = rng.choice(kinds)
    if kind == "modulo":
        return {"kind": kind, "granule_bytes": granule, "sets": sets}
    if kind == "table":
        return draw_table(rng, granule, sets, buffer_bytes, address)
    if kind == "sum":
        width = max(1, (sets - 1).bit_length())
        low = lowest + rng.choice((0, 0, 1, 2))
        fields = [list(range(first, first + width)) for first in range(low, buffer_bits - width + 1, width)]
        return {"kind": kind, "fields": fields[: rng.choice((2, 2, 3))], "sets": sets}
    count = sets.bit_length() - 1
    if kind == "xor":
        return draw_xor(rng, lowest, count, buffer_bits, address)
    if rng.random() < 0.5:
        first = lowest + rng.randint(0, 3)
        return {"kind": kind, "bits": list(range(first, first + count))}
    return {"kind": kind, "bits": rng.sample(range(lowest, lowest + count + 4), count)}


def draw_address(rng, buffer_bytes):
    kind = weighted(rng, {"zero": 45, "aligned": 45, "anywhere": 10})
    if kind == "zero":
        return 0
    if kind == "aligned":
        return rng.randrange(1, 1 << 20) * max(buffer_bytes, 2 << 20)
    return rng.randrange(1, 1 << 28) << 12


def draw_noise(rng):
    noise = {"jitter_cycles": 0, "outlier_probability": 0, "outlier_cycles": 0, "misread_probability": 0}
    kind = weighted(rng, {"none": 35, "outliers": 40, "misreads": 25})
    if kind != "none":
        noise["jitter_cycles"] = round(rng.uniform(0, 6), 1)
    if kind == "outliers":
        noise["outlier_probability"] = rng.choice((0.0002, 0.001, 0.003))
        noise["outlier_cycles"] = rng.randint(50, 1500)
    if kind == "misreads":
        noise["misread_probability"] = rng.choice((0.0005, 0.002, 0.005))
    return noise


def lines_of_sets(spec):
    """How many lines of the buffer fall into each set."""
    set_of, line = index_function(spec["index"]), spec["line_bytes"]
    first = spec["address_of_buffer"]
    return Counter(map(set_of, range(first, first + spec["buffer_bytes"], line)))


def unidentifiable(spec):
    """Why no question can tell everything about the cache, or None."""
    lines = lines_of_sets(spec)
    if any(lines[number] <= ways for number, ways in enumerate(spec["ways"])):
        return "a set cannot be filled from the buffer"
    if spec["replacement"]["policy"] == "weighted_random" and set(spec["refused_states"]) == {"clean", "invalidated"}:
        return "no set can be emptied, and the ways are numbered as an empty set fills"
    return None


def draw_cache(rng):
    line = rng.choice((32, 64, 128))
    sector = rng.choice([size for size in (32, 64) if size < line]) if line > 32 and rng.random() < 0.35 else line
    policy = weighted(rng, {"lru": 35, "fifo": 20, "random": 25, "weighted_random": 20})
    sets = weighted(rng, SET_COUNTS)
    ways = draw_ways(rng, sets, policy)
    buffer_bytes = 1 << max(16, (8 * sum(ways) * line - 1).bit_length()) + rng.choice((0, 0, 1))
    address = draw_address(rng, buffer_bytes)
    hit = rng.randint(20, 300)
    return {
        "line_bytes": line,
        "sector_bytes": sector,
        "ways": ways,
        "index": draw_index(rng, line, sets, buffer_bytes, address),
        "replacement": draw_replacement(rng, policy, ways),
        "buffer_bytes": buffer_bytes,
        "address_of_buffer": address,
        "latency_cycles": {"hit": hit, "miss": hit + rng.randint(60, 500)},
        "noise": draw_noise(rng),
        "refused_states": weighted(rng, REFUSALS),
    }


def draw(rng):
    """One hidden device. In a few of them a set cannot be filled, to see that nobody claims to know its ways."""
    small = rng.random() < 0.03
    while True:
        spec = draw_cache(rng)
        if spec["buffer_bytes"] > MAX_BUFFER_BYTES:
            continue
        lines = lines_of_sets(spec)
        if small and spec["index"].get("range_bytes") is None:
            spec["buffer_bytes"] = 1 << max(12, (sum(spec["ways"]) * spec["line_bytes"]).bit_length() - 1)
            if lines_of_sets(spec).keys() == lines.keys():
                return spec
        elif not small and all(lines[number] >= 2 * ways + 8 for number, ways in enumerate(spec["ways"])):
            return spec
