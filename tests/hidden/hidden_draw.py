# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Draws random caches for hidden_device.py, most of them such that questions can tell everything about them.

`noise_level` of a drawn cache is none, medium or high, and `category` is "library" or the name of a trap: a cache whose
policy the library does not have, or that is read too badly. Of a trap nothing wrong may be said, and nothing need be.
"swept" caches, of more tags than lines of data, are no traps, but "twisted" ones are.
"""

import math
from collections import Counter

from hidden_alike import keeps_strangers
from hidden_index import index_function
from hidden_policies import shift_register

MAX_LINES = 2048
MAX_WAYS = 96
MOST_WAYS = {"weighted_random": 16, "permutation": 16, "automaton": 6}
POLICIES = {
    "lru": 12,
    "fifo": 8,
    "lip": 5,
    "bip": 5,
    "plru": 9,
    "nru": 10,
    "mru": 3,
    "resetting_slru": 5,
    "clock": 5,
    "srrip": 7,
    "brrip": 4,
    "qlru": 10,
    "permutation": 6,
    "random": 8,
    "weighted_random": 8,
    "fermi": 4,
    "automaton": 5,
}
# Those that may also be a policy of sets of different numbers of ways.
ANY_WAYS = ("lru", "fifo", "lip", "bip", "plru", "mru", "resetting_slru", "clock", "srrip", "brrip", "qlru", "random")
NOISE_LEVELS = {"none": 34, "medium": 36, "high": 30}
CATEGORIES = {
    "library": 86,
    "swept": 2,
    "twisted": 2,
    "periodic": 2,
    "dueling": 2,
    "drifting": 2,
    "misread": 2,
    "other": 2,
}
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


def draw_ways(rng, sets, policy, most_lines=MAX_LINES):
    most = max(2, min(MAX_WAYS, most_lines // sets))
    most = min(most, MOST_WAYS.get(policy, most))
    if rng.random() < 0.02 and policy not in ("fermi", "weighted_random"):
        return [1] * sets
    # Trees are built for powers of two.
    powers = [1 << exponent for exponent in range(1, most.bit_length())]
    ways = rng.choice(powers) if policy == "plru" and rng.random() < 0.5 else log_uniform(rng, 2, most)
    if policy not in ANY_WAYS or rng.random() < 0.75:
        return [ways] * sets
    return [rng.randint(max(1, ways // 2), min(most, ways + ways // 2 + 1)) for _ in range(sets)]


def draw_weights(rng, ways):
    weights = [rng.randint(1, 8) for _ in range(ways)]
    if rng.random() < 0.15:
        weights = [weight if rng.random() < 0.7 else 0 for weight in weights]
    if max(weights) < 2 * min(weights) or not any(weights):
        weights[rng.randrange(len(weights))] = 3 * max(1, *weights)
    return weights


def shuffled(rng, items):
    return rng.sample(items, len(items))


def moved(ways, start, end):
    """The positions of an order after what was at `start` moves to `end`, and what lies between makes room."""
    places = [place for place in range(ways) if place != start]
    places.insert(end, start)
    return [places.index(place) for place in range(ways)]


def draw_permutation(rng, ways):
    """Half of them shift lines to other places of an order, as those of hardware do, the others do anything."""
    if rng.random() < 0.5:
        hits = [moved(ways, place, rng.randint(0, place)) for place in range(ways)]
        return {"hits": hits, "miss": moved(ways, ways - 1, rng.randrange(max(1, ways - 1)))}
    return {"hits": [shuffled(rng, range(ways)) for _ in range(ways)], "miss": shuffled(rng, range(ways))}


def draw_automaton(rng, ways):
    states = rng.randint(2, 12)
    machine = {
        "hits": [[rng.randrange(states) for _ in range(ways)] for _ in range(states)],
        "victims": [rng.randrange(ways) for _ in range(states)],
        "misses": [rng.randrange(states) for _ in range(states)],
    }
    if rng.random() < 0.5:
        machine["fills"] = [rng.randrange(states) for _ in range(states)]
    if rng.random() < 0.3:
        machine["start"] = rng.randrange(states)
    return machine


def some(rng, **choices):
    """Parameters, each left out where the first of its choices is drawn."""
    drawn = {name: rng.choice(values) for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if value != choices[name][0]}


def draw_nru(rng, ways):
    parameters = some(rng, clear=("on_miss", "on_access"), keep_last=("false", "true"))
    rule = weighted(rng, {"first": 2, "rotating": 2, "order": 1})
    if rule == "rotating":
        parameters["victim"] = rule
    elif rule == "order":
        parameters |= {"victim": rule, "order": shuffled(rng, range(ways))}
    return parameters


def draw_variant(rng):
    rule = rng.randrange(3)
    # R0 says which way goes only where one has age 3 for certain.
    update = rng.randrange(2 if rule in (0, 2) else 4)
    hit = rng.choice(("00", "10", "11", "20", "21"))
    return f"H{hit}_M{rng.randrange(4)}_R{rule}_U{update}" + rng.choice(("", "_UMO"))


def draw_parameters(rng, policy, ways):
    throttle = {"one_in": (32, 2, 4, 8, 16, 64)}
    prediction = {"bits": (2, 1, 3), "promotion": ("hit", "frequency")}
    if policy == "bip":
        return some(rng, **throttle)
    if policy == "plru":
        return some(rng, order=("forward", "reversed"), split=("balanced", "power_of_two"))
    if policy == "nru":
        return draw_nru(rng, ways)
    if policy == "mru":
        return some(rng, of=("access", "fill"))
    if policy == "clock":
        return some(rng, mark_fill=("true", "false"))
    if policy == "srrip":
        return some(rng, **prediction)
    if policy == "brrip":
        return some(rng, **prediction, **throttle)
    if policy == "qlru":
        return {"variant": draw_variant(rng)}
    if policy == "permutation":
        return draw_permutation(rng, ways)
    if policy == "weighted_random":
        return {"victim_weights": draw_weights(rng, ways)}
    if policy == "fermi":
        return {"favoured_way": rng.randrange(ways), "others": "random"}
    if policy == "automaton":
        return draw_automaton(rng, ways)
    return {}


def draw_replacement(rng, policy, ways):
    return {"policy": policy} | draw_parameters(rng, policy, ways[0])


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
        limits = {"origin": address, "range_bytes": buffer_bytes}
        return {"kind": "table", "granule_bytes": granule, "sets_of": whole} | limits
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


def draw_noise(rng, level, gap_cycles):
    noise = {"jitter_cycles": 0, "outlier_probability": 0, "outlier_cycles": 0, "misread_probability": 0}
    if level == "none":
        return noise
    medium = level == "medium"
    # Jitter alone must leave hits and misses apart.
    noise["jitter_cycles"] = round(min(rng.uniform(0, 6) if medium else rng.uniform(4, 20), gap_cycles / 9), 1)
    if rng.random() < 0.6:
        noise["outlier_probability"] = rng.choice((0.0002, 0.001, 0.003) if medium else (0.003, 0.01))
        noise["outlier_cycles"] = rng.randint(50, 1500)
    if not medium:
        noise["misread_probability"] = round(rng.uniform(0.01, 0.02), 4)
    elif rng.random() < 0.5:
        noise["misread_probability"] = rng.choice((0.0005, 0.002, 0.005))
    return noise


def lines_of_sets(spec):
    """How many lines of the buffer fall into each set."""
    set_of, line = index_function(spec["index"]), spec["line_bytes"]
    first = spec["address_of_buffer"]
    return Counter(map(set_of, range(first, first + spec["buffer_bytes"], line)))


def cannot_be_emptied(spec):
    return set(spec["refused_states"]) >= {"clean", "invalidated"}


def unidentifiable(spec):
    """Why no question can tell everything about the cache, or None."""
    if spec["category"] not in ("library", "swept"):
        return f"trap: {spec['category']}"
    lines = lines_of_sets(spec)
    if any(lines[number] <= ways for number, ways in enumerate(spec["ways"])):
        return "a set cannot be filled from the buffer"
    if spec["replacement"]["policy"] in ("weighted_random", "fermi") and cannot_be_emptied(spec):
        return "no set can be emptied, and the ways are numbered as an empty set fills"
    if cannot_be_emptied(spec) and any(keeps_strangers(spec["replacement"], ways) for ways in set(spec["ways"])):
        return "no set can be emptied, and lines that nobody asks for may stay in it for ever"
    return None


SHIFT_REGISTERS = {3: 0b110, 4: 0b1100, 5: 0b10100, 6: 0b110000, 7: 0b1100000, 8: 0b10111000, 10: 0b1001000000}


def draw_periodic(rng, spec):
    """Victims that look random and are not, as every start from `clean` shows."""
    bits = rng.choice(list(SHIFT_REGISTERS))
    stream = shift_register(bits, SHIFT_REGISTERS[bits], rng.randrange(1, 1 << bits))
    spec["replacement"] = {"policy": "periodic", "stream": stream}
    spec["refused_states"] = rng.choice(((), (), ("invalidated",)))


def draw_dueling(rng, spec):
    sets = len(spec["ways"])
    leader = rng.choice([count for count in (4, 8, 16, 32) if count <= sets])
    spec["replacement"] = {"policy": "dueling", "one_leader_in": leader, "most": 1 << rng.randint(2, 9)}


def draw_drifting(rng, spec):
    def for_all_sets(policy):
        """An order names the ways of sets of one size."""
        while "order" in (drawn := draw_replacement(rng, policy, spec["ways"])) and len(set(spec["ways"])) > 1:
            pass
        return drawn

    first, second = rng.sample(("lru", "fifo", "lip", "plru", "nru", "clock", "srrip", "random"), 2)
    spec["replacement"] = for_all_sets(first)
    after_accesses = round(10 ** rng.uniform(3, 5.5))
    spec["drift"] = {"after_accesses": after_accesses, "replacement": for_all_sets(second)}


def draw_misread(rng, spec):
    spec["noise"]["misread_probability"] = round(rng.uniform(0.04, 0.08), 4)


def draw_other(rng, spec):
    policy = rng.choice(("middle", "second_hit", "alternating", "least_frequent"))
    parameters = {
        "middle": {"position": rng.randint(1, max(1, min(spec["ways"]) // 2)), "step": rng.randint(1, 3)},
        "second_hit": {},
        "alternating": {"period": rng.randint(2, 5)},
        "least_frequent": {"most": rng.choice((1, 3, 7))},
    }
    spec["replacement"] = {"policy": policy} | parameters[policy]


TRAPS = {
    "periodic": draw_periodic,
    "dueling": draw_dueling,
    "drifting": draw_drifting,
    "misread": draw_misread,
    "other": draw_other,
}


def draw_swept(rng, most_lines):
    """More tags than lines of data. At the largest of the sizes on offer sets overflow before the store does."""
    ways = rng.choice((2, 3, 4, 4, 4, 6))
    set_bits = rng.randint(5, max(5, min(9, (most_lines // ways).bit_length() - 1)))
    bank_bits = rng.randint(0, min(3, set_bits - 4))
    banks, tags = 1 << bank_bits, ways << set_bits

    def store_lines(least, most):
        return banks * max(6, round(tags * rng.uniform(least, most) / banks))

    line = rng.choice((64, 128))
    lowest, buffer_bits = line.bit_length() - 1, rng.randint(20, 26)
    address = rng.randrange(1 << 20) << buffer_bits
    highest = max(buffer_bits, min(48, address.bit_length()))
    rows = []
    while rank([sum(1 << bit for bit in row if bit < buffer_bits) for row in rows]) < set_bits:
        rows = [sorted(rng.sample(range(lowest, highest), rng.randint(1, highest - lowest))) for _ in range(set_bits)]
    sizes = [store_lines(0.15, 0.35), store_lines(0.8, 0.96), store_lines(0.15, 0.96)]
    hit, gap = rng.randint(20, 300), rng.randint(60, 500)
    level = rng.choice(("none", "medium"))
    own = rng.choice(sizes)
    on_fill = rng.randint(2, 6)
    kept = {"keeps_hit_line": True} if rng.random() < 1 / 3 else {}
    return {
        "category": "swept",
        "noise_level": level,
        "line_bytes": line,
        "sector_bytes": rng.choice((32, line)),
        "ways": [ways] * (1 << set_bits),
        "index": {"kind": "xor", "rows": rows, "constant": rng.randrange(1 << set_bits)},
        "replacement": {"policy": "resetting_slru"},
        "capacity_bytes": own * line,
        "store_lines": own,
        "sweep": {
            "banks": banks,
            "lines_on_hit": rng.randint(1 if kept else 0, 2),
            "lines_on_replacement": rng.randint(0, 4),
            "lines_on_fill": on_fill,
            **kept,
        },
        "carveouts": [{"carveout_kb": 8 * number, "store_lines": size} for number, size in enumerate(sizes, 1)],
        "buffer_bytes": 1 << buffer_bits,
        "address_of_buffer": address,
        "latency_cycles": {"hit": hit, "miss": hit + gap},
        "noise": draw_noise(rng, level, gap),
        "refused_states": rng.choice(((), ("invalidated",))),
    }


def draw_cache(rng, category, most_lines):
    line = rng.choice((32, 64, 128))
    sector = rng.choice([size for size in (32, 64) if size < line]) if line > 32 and rng.random() < 0.35 else line
    policy = weighted(rng, POLICIES)
    counts = {sets: weight for sets, weight in SET_COUNTS.items() if category != "dueling" or sets >= 4}
    sets = weighted(rng, counts)
    ways = draw_ways(rng, sets, policy if category in ("library", "misread") else "lru", most_lines)
    buffer_bytes = 1 << max(16, (8 * sum(ways) * line - 1).bit_length()) + rng.choice((0, 0, 1))
    address = draw_address(rng, buffer_bytes)
    hit = rng.randint(20, 300)
    gap = rng.randint(60, 500)
    level = weighted(rng, NOISE_LEVELS)
    spec = {
        "category": category,
        "noise_level": level,
        "line_bytes": line,
        "sector_bytes": sector,
        "ways": ways,
        "index": draw_index(rng, line, sets, buffer_bytes, address),
        "buffer_bytes": buffer_bytes,
        "address_of_buffer": address,
        "latency_cycles": {"hit": hit, "miss": hit + gap},
        "noise": draw_noise(rng, level, gap),
        "refused_states": weighted(rng, REFUSALS),
    }
    if category in ("library", "misread"):
        spec["replacement"] = draw_replacement(rng, policy, ways)
    if category in TRAPS:
        TRAPS[category](rng, spec)
    return spec


def draw(rng, categories=CATEGORIES, most_lines=MAX_LINES):
    """One hidden device, of some `most_lines` lines at most.

    In a few of them a set cannot be filled, to see that nobody claims to know its ways.
    """
    category = weighted(rng, categories)
    if category in ("swept", "twisted"):
        spec = draw_swept(rng, most_lines) | {"category": category}
        if category == "twisted":
            spec["sweep"]["twist"] = rng.choice(("order", "ahead", "oldest"))
        return spec
    small = category == "library" and rng.random() < 0.03
    while True:
        spec = draw_cache(rng, category, most_lines)
        if spec["buffer_bytes"] > MAX_BUFFER_BYTES:
            continue
        if category not in ("library", "misread") and min(spec["ways"]) < 2:  # nothing to be trapped by
            continue
        lines = lines_of_sets(spec)
        if small and spec["index"].get("range_bytes") is None:
            spec["buffer_bytes"] = 1 << max(12, (sum(spec["ways"]) * spec["line_bytes"]).bit_length() - 1)
            if lines_of_sets(spec).keys() == lines.keys():
                return spec
        elif not small and all(lines[number] >= 2 * ways + 8 for number, ways in enumerate(spec["ways"])):
            return spec
