#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""readme_test.py GPUINFER: what README.md says is true, and that the keys of profiles are explained.

Every command in a block of kind `sh` is run, all of them one after another in one folder, and must end with status 0 or
with the N of a comment `# exit status N` behind it. A block of kind `text` below is what its last command prints, where
`...` stands for anything. A block under a comment `<!-- not run: WHY -->` is left alone, and one under
`<!-- file: NAME -->` is a file in the folder of the commands.
"""

import doctest
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROFILE = (ROOT / "docs/profile.md").read_text(encoding="utf-8")

BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^\n]+ -->\n)?^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
STATUS = re.compile(r"# exit status (\d)")
WRITTEN_FILE = re.compile(r"(?:-o|--record) (\S+)")
# `folder/file` and [link](file); the schema is no path.
NAMED_PATH = re.compile(r"`(?!gpuinfer/1`)([\w.-]+/[\w./-]*)`|\]\(([\w./-]+)\)")

# How many times longer a command may take, as of a program under sanitizers.
PATIENCE = int(os.environ.get("GPUINFER_TEST_PATIENCE", "1"))
PROGRAM = None


class Commands(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for entry in ("configs", "data"):
            (self.folder / entry).symlink_to(ROOT / entry)
        # In place of the script, which would install and build.
        (self.folder / "scripts").mkdir()
        (self.folder / "scripts/gpuinfer").symlink_to(PROGRAM)

    def write_files(self, text):
        for name, content in FILE.findall(text):
            (self.folder / name).write_text(content, encoding="utf-8")

    def run_command(self, command):
        # README speaks of a machine without a GPU where it makes a difference.
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "VK_DRIVER_FILES": "/nowhere", "VK_ICD_FILENAMES": "/nowhere"}
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120 * PATIENCE,
            check=False,
        )

    def check_command(self, command):
        """What it printed."""
        done = self.run_command(command)
        stated = STATUS.search(command)
        self.assertEqual(done.returncode, int(stated.group(1)) if stated else 0, done.stdout)
        for file in WRITTEN_FILE.findall(command):
            self.assertTrue((self.folder / file).is_file(), f"{file} was not written")
        return done.stdout

    def check_output(self, quoted, printed):
        if not doctest.OutputChecker().check_output(quoted, printed, doctest.ELLIPSIS):
            self.fail(f"the text quotes\n{quoted}\nbut what is printed is\n{printed}")

    def test_commands_of_readme(self):
        self.write_files(README)
        blocks = [block for block in BLOCK.finditer(README) if not block["skip"]]
        self.assertEqual(len(BLOCK.findall(README)), README.count("```sh\n"))
        self.assertEqual(sum(block["output"] is not None for block in BLOCK.finditer(README)), README.count("```text\n"))
        for block in blocks:
            printed = ""
            for command in block["commands"].replace("\\\n", "").splitlines():
                with self.subTest(command):
                    printed = self.check_command(command)
            if block["output"]:
                with self.subTest(output_of=command):
                    self.check_output(block["output"], printed)


class Text(unittest.TestCase):
    def test_paths_exist(self):
        paths = {path or link for path, link in NAMED_PATH.findall(README)}
        self.assertGreater(len(paths), 10)
        self.assertEqual([path for path in sorted(paths) if not (ROOT / path).exists()], [])

    def test_every_key_of_a_profile_is_explained(self):
        keys = set()
        for arguments in (
            ("--target=L1tex", "--device=virtual:gtx780"),
            ("--target=L1D", "--device=virtual:gtx560ti"),
            ("--target=L1tex", f"--device=recorded:{ROOT / 'data/h200'}"),
        ):
            done = subprocess.run(
                [PROGRAM, *arguments, "--quiet", "--format=json"], capture_output=True, text=True, timeout=120, check=False
            )
            self.assertIn(done.returncode, (0, 3), done.stderr)
            profile = json.loads(done.stdout)
            for cache in profile["caches"].values():
                keys |= set(cache)
            for entries in profile["evidence"].values():
                keys |= set(entries).union(*(entry for entry in entries.values() if isinstance(entry, dict)))
        self.assertEqual([key for key in sorted(keys) if f"`{key}`" not in PROFILE], [])


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
