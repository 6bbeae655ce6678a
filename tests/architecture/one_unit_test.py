#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: one_unit_test.py BUILD LIBRARY. All batches of files that a library is compiled in compile as one, in their order.
With each new file the batches fall otherwise: a name that two files give in unnamed namespaces would break a later build."""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD, LIBRARY = pathlib.Path(sys.argv[1]), sys.argv[2]


def batches_of(library):
    """Their entries in the list of what is compiled."""
    entries = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    batch = re.compile(rf"/gpuinfer_{library}\.dir/Unity/unity_(\d+)_cxx\.cxx$")
    found = [(int(match.group(1)), entry) for entry in entries if (match := batch.search(entry["file"]))]
    return [entry for _, entry in sorted(found, key=lambda numbered: numbered[0])]


def compiled_as_one(batch, files):
    """Status and messages of a compiler that is called as for the batch."""
    words = shlex.split(batch["command"])
    # What the compiler may warn of, it warns of file by file.
    command = [*words[: words.index("-o")], "-w", "-fsyntax-only", "-x", "c++", "-"]
    text = "".join(f'#include "{file}"\n' for file in files)
    run = subprocess.run(command, cwd=batch["directory"], input=text, text=True, capture_output=True)
    return run.returncode, run.stderr


class OneUnit(unittest.TestCase):
    maxDiff = None

    def test_no_two_files_give_one_name_twice(self):
        batches = batches_of(LIBRARY)
        self.assertEqual(compiled_as_one(batches[0], [batch["file"] for batch in batches]), (0, ""))

    def test_a_checker_that_finds_nothing_must_have_looked(self):
        batch = batches_of(LIBRARY)[0]
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("a.cpp", "b.cpp", "c.cpp")]
            for file, name in zip(files, ("first", "second", "first")):
                file.write_text(f"namespace {{\nconstexpr int {name} = 1;\n}}\n", encoding="utf-8")
            self.assertEqual(compiled_as_one(batch, files[:2]), (0, ""))
            status, messages = compiled_as_one(batch, files)
            self.assertNotEqual(status, 0)
            self.assertIn("redefinition of", messages)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
