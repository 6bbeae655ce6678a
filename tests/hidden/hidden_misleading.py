# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Draws caches for hidden_device.py that are built to mislead, and says of each what may be called resolved.

`truth` of a drawn cache maps each leaf that has a true value to the values that are right, or to None where
hidden_judge.py knows. Whatever is not in it may never be resolved: no value of that leaf describes the cache.
"""

import pathlib

import yaml

from hidden_draw import draw_noise, draw_xor, log_uniform
from hidden_judge import LEAVES, WRONG, is_hit_alone, is_known

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "adversarial"
SOUND_LEAVES = ("latency_cycles", "line_bytes", "sector_bytes")
GEOMETRY = (*SOUND_LEAVES, "capacity_bytes", "ways", "index")
NO_NOISE = {"jitter_cycles": 0, "outlier_probability": 0, "outlier_cycles": 0, "misread_probability": 0}
NO_PREFETCH = {"prefetch_lines": 0}
# Any two of them differ in sets of two ways and more.
POLICIES = ("lru", "fifo", "lip", "random")


def modulo(line, sets):
    return {"kind": "modulo", "granule_bytes": line, "sets": sets}


def sound_cache(rng, most_lines, policy="lru", least_sets=2):
    """Of so many lines at most, with everything about it true."""
    line = rng.choice((32, 64, 128))
    sets = rng.choice([count for count in (2, 4, 8, 16) if least_sets <= count <= most_lines // 2])
    ways = log_uniform(rng, 2, min(16, most_lines // sets))
    buffer_bytes = max(1 << 16, 1 << (16 * sets * ways * line - 1).bit_length())
    hit = rng.randint(20, 200)
    gap = rng.randint(80, 300)
    return {
        "line_bytes": line,
        "sector_bytes": line,
        "ways": [ways] * sets,
        "index": modulo(line, sets),
        "replacement": {"policy": policy},
        "buffer_bytes": buffer_bytes,
        "address_of_buffer": rng.choice((0, rng.randrange(1 << 10) * buffer_bytes)),
        "latency_cycles": {"hit": hit, "miss": hit + gap},
        "noise": draw_noise(rng, "medium", gap) if rng.random() < 0.5 else NO_NOISE,
        "refused_states": rng.choice(((), (), (), ("clean",), ("invalidated",))),
        "truth": dict.fromkeys(LEAVES),
    }


def knowing(spec, leaves, **values):
    return spec | {"truth": dict.fromkeys(leaves) | values}


def draw_set_duelling(rng, most_lines):
    spec = sound_cache(rng, most_lines, least_sets=4)
    bits = len(spec["ways"]).bit_length() - 1
    lowest = spec["line_bytes"].bit_length() - 1
    # Which sets lead is not to be seen from their place.
    spec["index"] = {"kind": "xor", "rows": [[lowest + bit] for bit in range(bits)], "constant": rng.randrange(1 << bits)}
    leaders = rng.choice([count for count in (2, 4, 8, 16) if count <= len(spec["ways"])])
    spec["replacement"] = {"policy": "dueling", "one_leader_in": leaders, "most": 1 << rng.randint(2, 9)}
    return knowing(spec, GEOMETRY)


def draw_hidden_hash(rng, most_lines):
    """Bits that no address of the buffer changes take part, and some that only its farthest addresses do."""
    spec = sound_cache(rng, most_lines, rng.choice(POLICIES))
    lowest, buffer_bits = spec["line_bytes"].bit_length() - 1, spec["buffer_bytes"].bit_length() - 1
    spec["address_of_buffer"] = rng.randrange(1, 1 << 18) << buffer_bits
    count = len(spec["ways"]).bit_length() - 1
    spec["index"] = draw_xor(rng, lowest, count, buffer_bits, spec["address_of_buffer"])
    rows = spec["index"]["rows"]
    for row in rows:
        if rng.random() < 0.6:
            row += rng.sample(range(buffer_bits, 48), rng.randint(1, 3))
    top = buffer_bits - 1
    if top not in rows[0]:
        rows[0].append(top)
    return spec


def draw_victim_buffer(rng, most_lines):
    spec = sound_cache(rng, most_lines)
    spec["victim_lines"] = rng.randint(1, 8)
    lines = sum(spec["ways"]) + spec["victim_lines"]
    held = lines * spec["line_bytes"]
    return knowing(spec, SOUND_LEAVES, capacity_bytes=[held], onset_bytes=[held])


def draw_prefetcher(rng, most_lines):
    on = rng.choice(("miss", "access", "stride", "pair"))
    # With FIFO, pairs come and go together, and are lines of twice the width.
    spec = sound_cache(rng, most_lines, rng.choice(("lru", "plru") if on == "pair" else ("lru", "lru", "fifo", "plru")))
    spec["prefetch"] = {"on": on, "lines": rng.randint(1, 3)}
    line = spec["line_bytes"]
    # A pair may be taken for a fill of its size, ahead of which nothing comes.
    rule = {"prefetch_lines": spec["prefetch"]["lines"]} | ({} if on == "miss" else {"prefetch_on": on})
    fill = [NO_PREFETCH if on == "pair" else rule]
    return knowing(spec, LEAVES, sector_bytes=[line, 2 * line] if on == "pair" else [line], fill=fill)


def draw_changing_policy(rng, most_lines):
    first, second = rng.sample(POLICIES, 2)
    spec = sound_cache(rng, most_lines, first)
    spec["change"] = {"every_accesses": rng.choice((2000, 5000, 10_000, 10_000, 20_000)), "replacement": {"policy": second}}
    return knowing(spec, GEOMETRY)


def draw_two_caches(rng, most_lines):
    spec = sound_cache(rng, most_lines, rng.choice(("lru", "fifo")))
    sets, ways, line = len(spec["ways"]), spec["ways"][0], spec["line_bytes"]
    parts = {name: spec[name] for name in ("line_bytes", "sector_bytes", "address_of_buffer", "ways", "index", "replacement")}
    spec["first"] = parts
    if rng.random() < 0.5:
        spec["chosen_by_bit"] = None
        larger = {"ways": [2 * ways] * (2 * sets), "index": modulo(line, 2 * sets)}
        smaller = {"ways": [ways + 1] * sets, "replacement": {"policy": "fifo"}}
        spec["second"] = parts | rng.choice((larger, smaller))
        return knowing(spec, SOUND_LEAVES)
    # The bit above those of the sets, so that all of them together are sets in turn.
    spec["chosen_by_bit"] = (line * sets).bit_length() - 1
    policy, other_ways = rng.choice((("lip", ways), ("lip", ways + 1), (spec["replacement"]["policy"], ways + 1)))
    spec["second"] = parts | {"ways": [other_ways] * sets, "replacement": {"policy": policy}}
    spec["ways"] = [ways] * sets + [other_ways] * sets
    spec["index"] = modulo(line, 2 * sets)
    return spec if policy == spec["replacement"]["policy"] else knowing(spec, GEOMETRY)


def draw_overlapping(rng, most_lines):
    """The latencies of hits and misses spread far wider than they are apart."""
    spec = sound_cache(rng, most_lines, rng.choice(POLICIES))
    hit = spec["latency_cycles"]["hit"] + 200
    jitter = rng.uniform(15, 40)
    spec["latency_cycles"] = {"hit": hit, "miss": hit + round(jitter * rng.choice((0, 0.1, 0.3)))}
    spec["noise"] = NO_NOISE | {"jitter_cycles": round(jitter, 1)}
    return spec


KINDS = {
    "set-duelling": draw_set_duelling,
    "hidden-hash": draw_hidden_hash,
    "victim-buffer": draw_victim_buffer,
    "prefetcher": draw_prefetcher,
    "changing-policy": draw_changing_policy,
    "two-caches": draw_two_caches,
    "overlapping-latencies": draw_overlapping,
}


def draw_misleading(rng, kind, most_lines):
    spec = KINDS[kind](rng, most_lines)
    return spec | {"category": kind, "noise_level": "", "seed": rng.randrange(1 << 32)}


def described_devices():
    """Names for --device virtual:NAME."""
    return sorted(file.stem for file in CONFIGS.glob("*.yaml"))


def described_device(name):
    """The same of a device in configs/adversarial, for any buffer; the largest one has 8 GB."""
    description = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    (cache,) = description["caches"].values()
    noise = description["noise"]
    fill = cache.get("fill", NO_PREFETCH)
    spec = cache | {"noise": noise, "buffer_bytes": 1 << 33, "address_of_buffer": 0, "refused_states": [], "category": name}
    if cache["replacement"]["policy"] in ("set_duelling", "alternating"):
        return knowing(spec, GEOMETRY)
    if "victim_lines" in cache:
        held = (sum(cache["ways"]) + cache["victim_lines"]) * cache["line_bytes"]
        return knowing(spec, SOUND_LEAVES, capacity_bytes=[held], onset_bytes=[held])
    return knowing(spec, SOUND_LEAVES if "twin" in cache else LEAVES, fill=[fill])


def moving_bits(spec):
    """Address bits that differ between two loads of the buffer."""
    first = spec["address_of_buffer"]
    last = first + spec["buffer_bytes"] - 1
    return set(range((first ^ last).bit_length()))


def judge_misleading(profile, target, spec):
    """({leaf: what is wrong}, {leaf: its status where it is not resolved}) of what a profile says of the cache."""
    cache, evidence = profile["caches"][target], profile["evidence"][target]
    truth, wrong, open_leaves = spec["truth"], {}, {}
    for leaf in (*LEAVES, "onset_bytes"):
        value, known = cache.get(leaf), evidence.get(leaf, {})
        if known.get("status") != "resolved":
            open_leaves[leaf] = known.get("status", "absent")
            if is_known(value) and not is_hit_alone(leaf, value):
                wrong[leaf] = f"is {open_leaves[leaf]} and yet has the value {value}"
        elif leaf == "onset_bytes" and leaf not in truth:
            continue  # whatever holds contiguous bytes
        elif leaf not in truth:
            wrong[leaf] = f"is resolved as {value}, and no value is true"
        elif truth[leaf] is not None:
            if value not in truth[leaf]:
                wrong[leaf] = f"{value} instead of {truth[leaf]}"
        elif problem := WRONG[leaf](value, spec, cache, known):
            wrong[leaf] = problem
    # Not every cache is asked for it.
    value, known = cache.get("fill"), evidence.get("fill", {})
    if known.get("status") == "resolved":
        if value not in truth.get("fill", [NO_PREFETCH]):
            wrong["fill"] = f"{value} instead of {truth.get('fill', [NO_PREFETCH])}"
    elif value is not None:
        wrong["fill"] = f"is {known.get('status', 'absent')} and yet has the value {value}"
    exercised = set((cache.get("index") or {}).get("exercised_bits") or [])
    if not exercised <= moving_bits(spec):
        wrong["exercised_bits"] = f"{sorted(exercised - moving_bits(spec))} never changed"
    return wrong, open_leaves
