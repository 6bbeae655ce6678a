#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""schema_test.py GPUINFER: configs/schema says of descriptions what the program says of them.

Both judge small descriptions that have every key, and thousands that differ from these in one place. What the schema
refuses the program must refuse; what the program alone refuses must be at a key whose value hangs on others, which a JSON
schema cannot say.
"""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

import gpuinfer

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = None

SCHEMA = json.loads((ROOT / "configs" / "schema" / "gpuinfer-1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EVERY_KEY = list(yaml.safe_load_all((HERE / "every_key.yaml").read_text()))
KERNEL = next(iter(next(each for each in EVERY_KEY if "kernels" in each)["kernels"].values()))
BANDWIDTH = SCHEMA["properties"]["bandwidth"]
# All the names that the schema has for bandwidths, kernels and evidence.
EVERY_NAME = [
    {"schema": "gpuinfer/1", "bandwidth": dict.fromkeys(BANDWIDTH["propertyNames"]["enum"], {}) | dict.fromkeys(BANDWIDTH["properties"])},
    {"schema": "gpuinfer/1", "kernels": {name: KERNEL for name in SCHEMA["properties"]["kernels"]["propertyNames"]["enum"]}},
    {
        "schema": "gpuinfer/1",
        "evidence": {
            section: {name: {"status": "unknown"} for name in leaves["propertyNames"]["enum"]}
            | {"prediction": None, "inquiries": []}
            for section, leaves in SCHEMA["properties"]["evidence"]["properties"].items()
        },
    },
    # Parameters of the policy stand beside its name, which the schema does not check here.
    {
        "schema": "gpuinfer/1",
        "caches": {"L1tex": {}},
        "evidence": {"L1tex": {"replacement": {"status": "ambiguous", "mostly": {"policy": "lru", "departs": [0.001, 0.002]}}}},
    },
]

# Keys whose values must fit those of others, or one another, which a JSON schema cannot say.
HANG_TOGETHER = {
    "bits", "cache", "caches", "code", "cycles", "digits", "fills", "fits_bytes", "hits", "level_bytes", "levels", "mean", "mean_cycles", "miss",
    "misses", "most", "order", "others", "resident_bytes", "rows", "sets_of", "sms", "terms", "textures", "tlbs", "translated_from",
    "victim_weights", "victims", "ways", "weights",
}
# The keys below these are names of the user's.
NAMED = {"caches", "code", "level_bytes", "textures"}
REPLACEMENTS = (None, True, "text", -1, 1.5, 10**30, [], [None], {}, {"unknown_key": 1})


def refusal(description):
    """Why the program takes this for no description; None: it does not."""
    try:
        gpuinfer.Profile.from_dict(description)
    except gpuinfer.InputError as error:
        return str(error)
    return None


def parts(descriptions):
    """Cache by cache where there is nothing but caches, which is quicker to judge."""
    for description in descriptions:
        if set(description) == {"schema", "caches"}:
            yield from ({**description, "caches": {name: cache}} for name, cache in description["caches"].items())
        else:
            yield description


def places(value, path=()):
    yield path
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(entry, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def key_of(path):
    keys = [key for key in path if isinstance(key, str)]
    return keys[-2] if len(keys) > 1 and keys[-2] in NAMED else keys[-1]


def mutants(description):
    """The key that was changed, what was done, and the result, one change at a time."""
    for path in places(description):
        if isinstance(at(description, path), dict):
            changed = copy.deepcopy(description)
            at(changed, path)["unknown_key"] = 1
            yield "unknown_key", f"added {path}", changed
        if not path:
            continue
        changed = copy.deepcopy(description)
        del at(changed, path[:-1])[path[-1]]
        yield key_of(path), f"without {path}", changed
        for value in REPLACEMENTS:
            changed = copy.deepcopy(description)
            at(changed, path[:-1])[path[-1]] = value
            yield key_of(path), f"{path} = {value!r}", changed


class Coverage:
    """Which properties of the schema values have."""

    def __init__(self):
        self.met = set()

    def visit(self, schema, value):
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            self.visit(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], value)
        for branch in schema.get("oneOf", []) + schema.get("anyOf", []):
            if VALIDATOR.evolve(schema=branch).is_valid(value):
                self.visit(branch, value)
        if isinstance(value, list):
            for item in value:
                self.visit(schema.get("items"), item)
        if isinstance(value, dict):
            for key, entry in value.items():
                properties = schema.get("properties", {})
                if key in properties:
                    self.met.add((id(schema), key))
                self.visit(properties.get(key, schema.get("additionalProperties")), entry)


def objects_of(schema):
    """The schemas of values that are objects, all through SCHEMA."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" in schema:
            yield schema
        for key, part in schema.items():
            if key not in ("if", "then", "else"):
                yield from objects_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects_of(part)


class Schema(unittest.TestCase):
    def test_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_takes_every_description(self):
        files = sorted([*(ROOT / "configs").rglob("*.yaml"), *(ROOT / "data").rglob("*.yaml")])
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file=file):
                VALIDATOR.validate(yaml.safe_load(file.read_text()))

    def test_takes_what_the_program_writes(self):
        for description in EVERY_KEY:
            written = gpuinfer.Profile.from_dict(description)
            VALIDATOR.validate(json.loads(written.to_json()))
            VALIDATOR.validate(yaml.safe_load(written.to_yaml()))

    def test_every_property_is_one_of_the_program(self):
        """Because the program takes these descriptions, and what it takes has no other keys."""
        coverage = Coverage()
        for description in EVERY_KEY + EVERY_NAME:
            self.assertIsNone(refusal(description))
            VALIDATOR.validate(description)
            coverage.visit(SCHEMA, description)
        for each in objects_of(SCHEMA):
            self.assertEqual([name for name in each["properties"] if (id(each), name) not in coverage.met], [])

    def test_judges_as_the_program_does(self):
        judged, refused = 0, 0
        unlike = set()
        for description in parts(EVERY_KEY):
            for key, what, changed in mutants(description):
                said = refusal(changed)
                valid = VALIDATOR.is_valid(changed)
                judged += 1
                refused += not valid
                if valid and said and key in HANG_TOGETHER:
                    unlike.add(key)
                    continue
                if valid != (said is None):
                    with self.subTest(what):
                        self.fail(f"{what}: schema {'takes' if valid else 'refuses'} it, the program says {said}")
        self.assertGreater(refused, judged / 2)
        self.assertEqual(unlike, HANG_TOGETHER)

    def test_refuses_what_is_wrong(self):
        for wrong in (
            {}, [], {"schema": "gpuinfer/2"}, {"schema": "gpuinfer/1", "cache": {}},
            {"schema": "gpuinfer/1", "caches": {"L1tex": {"line_byte": 32}}},
            {"schema": "gpuinfer/1", "caches": {"L1tex": {"line_bytes": "32"}}},
            {"schema": "gpuinfer/1", "caches": {"L1tex": {"replacement": {"policy": "lru", "bits": 2}}}},
            {"schema": "gpuinfer/1", "caches": {"L1tex": {"replacement": {"policy": "belady"}}}},
        ):
            with self.subTest(wrong=wrong):
                self.assertFalse(VALIDATOR.is_valid(wrong))

    def test_a_newer_one_is_told_in_one_sentence(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("schema: gpuinfer/2\nsomething: else\n")
            file.flush()
            done = subprocess.run([PROGRAM, "show", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr,
            f"gpuinfer: {file.name}:1: schema: gpuinfer/2 is newer than this program, which reads gpuinfer/1; "
            "use a newer gpuinfer\n",
        )


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
