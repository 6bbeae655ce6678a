# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what gpuinfer says about a hidden cache with what the cache is."""

from random import Random

from hidden_cache import index_function

LEAVES = ("capacity_bytes", "line_bytes", "sector_bytes", "ways", "index", "replacement", "latency_cycles")
SAMPLED_LINES = 20_000
LATENCY_TOLERANCE = 0.02


def weights_differ(found, true):
    """Beyond what counting some thousand victims leaves open."""
    if len(found) != len(true):
        return True
    found = [weight / sum(found) for weight in found]
    true = [weight / sum(true) for weight in true]
    return any(abs(a - b) > 0.02 + 0.15 * b for a, b in zip(found, true))


def sampled_addresses(spec):
    """One load in each line of the buffer, or in SAMPLED_LINES of them."""
    rng = Random(1)
    line, lines = spec["line_bytes"], spec["buffer_bytes"] // spec["line_bytes"]
    chosen = range(lines) if lines <= SAMPLED_LINES else rng.sample(range(lines), SAMPLED_LINES)
    return [spec["address_of_buffer"] + number * line + rng.randrange(0, line, 4) for number in chosen]


def matched_sets(index, spec):
    """true set -> found set; None when the two split the addresses differently."""
    true_set, found_set = index_function(spec["index"]), index_function(index)
    match, inverse = {}, {}
    for address in sampled_addresses(spec):
        true, found = true_set(address), found_set(address)
        if found is None:  # outside the range that the profile speaks of
            continue
        if match.setdefault(true, found) != found or inverse.setdefault(found, true) != true:
            return None
    return match


def wrong_index(found, spec, _profile):
    return "splits the addresses differently" if matched_sets(found, spec) is None else None


def wrong_ways(found, spec, profile):
    true = spec["ways"]
    if sorted(found) != sorted(true):
        return f"{found} instead of {true}"
    match = matched_sets(profile["index"], spec) if profile.get("index") else None
    if match and any(found[there] != true[here] for here, there in match.items()):
        return f"{found} instead of {true} as the sets are matched"
    return None


def behave_alike(name, true, ways):
    """Whether policies `name` and `true` cannot be told apart in sets of so many ways."""
    return name == true or max(ways) == 1 or (max(ways) == 2 and {name, true} <= {"lru", "plru"})


def wrong_replacement(found, spec, _profile):
    true, ways = spec["replacement"], spec["ways"]
    names = [found["policy"], *(found.get("equivalent") or [])]
    known = {"lru", "fifo", "random", "weighted_random", "fermi", "plru"}
    if true["policy"] not in names:
        even = "victim_weights" in found and not weights_differ(found["victim_weights"], [1] * ways[0])
        return None if true["policy"] == "random" and even else f"{names} instead of {true}"
    alien = [name for name in names if name in known and not behave_alike(name, true["policy"], ways)]
    if alien:
        return f"calls {alien} equivalent to {true}"
    if true["policy"] == "weighted_random" and weights_differ(found["victim_weights"], true["victim_weights"]):
        return f"{found} instead of {true}"
    return None


def wrong_latency(found, spec, _profile):
    true = spec["latency_cycles"]
    if any(abs(found[level] - true[level]) > LATENCY_TOLERANCE * true[level] for level in ("hit", "miss")):
        return f"{found} instead of {true}"
    return None


def wrong_number(leaf):
    def wrong(found, spec, _profile):
        true = spec.get(leaf, sum(spec["ways"]) * spec["line_bytes"])
        return None if found == true else f"{found} instead of {true}"

    return wrong


WRONG = {
    "capacity_bytes": wrong_number("capacity_bytes"),
    "line_bytes": wrong_number("line_bytes"),
    "sector_bytes": wrong_number("sector_bytes"),
    "ways": wrong_ways,
    "index": wrong_index,
    "replacement": wrong_replacement,
    "latency_cycles": wrong_latency,
}


def is_known(value):
    return any(is_known(part) for part in value.values()) if isinstance(value, dict) else value is not None


def judge(profile, target, spec):
    """({leaf: what is wrong}, {leaf: why it is not resolved})."""
    cache, evidence = profile["caches"][target], profile["evidence"][target]
    wrong, unresolved = {}, {}
    for leaf in LEAVES:
        value, status = cache.get(leaf), evidence.get(leaf, {}).get("status", "absent")
        if status != "resolved":
            unresolved[leaf] = f"{status}: {evidence.get(leaf, {}).get('reason', '')}"
            if is_known(value):
                wrong[leaf] = f"is {status} and yet has the value {value}"
        elif not is_known(value):
            wrong[leaf] = "is resolved and yet has no value"
        elif problem := WRONG[leaf](value, spec, cache):
            wrong[leaf] = problem
    return wrong, unresolved
