#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""generated_test.py ROWS [--regenerate]: the JSON Schema and the table of leaves in docs/profile.md are those of the
rows in model/description. With --regenerate they are written anew."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "configs" / "schema" / "gpuinfer-1.schema.json"
PROFILE = ROOT / "docs" / "profile.md"
BEGIN = "<!-- The tables up to the next such line are generated: tests/schema/generated_test.py --regenerate -->\n"
END = "<!-- End of the generated tables -->\n"


def said_by_rows(program, what):
    return subprocess.run([program, what], capture_output=True, text=True, check=True).stdout


def with_tables(page, tables):
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def main():
    program = sys.argv[1]
    wanted = {
        SCHEMA: said_by_rows(program, "schema"),
        PROFILE: with_tables(PROFILE.read_text(), said_by_rows(program, "leaves")),
    }
    if "--regenerate" in sys.argv[2:]:
        for file, text in wanted.items():
            file.write_text(text)
        return 0
    others = [str(file.relative_to(ROOT)) for file, text in wanted.items() if file.read_text() != text]
    for file in others:
        print(f"{file} is not what model/description says; run {sys.argv[0]} {program} --regenerate")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
