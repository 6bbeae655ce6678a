#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""notebook_test.py: the notebook of docs/ runs, and says what it shows."""

import ast
import json
import os
import pathlib
import sys
import tempfile
import unittest

import matplotlib

matplotlib.use("Agg")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_cell(source, names):
    """The value of the last expression, as a notebook shows it; None where a semicolon hides it."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = last and eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None if source.rstrip().endswith(";") else value


class Notebook(unittest.TestCase):
    def test_each_cell_shows_what_stands_below_it(self):
        cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
        cells = [cell for cell in cells if cell["cell_type"] == "code"]
        self.assertTrue(cells)
        names = {}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "data").symlink_to(ROOT / "data")
            os.chdir(folder)
            for cell in cells:
                source = "".join(cell["source"])
                with self.subTest(source):
                    value = run_cell(source, names)
                    for output in cell["outputs"]:
                        self.assertEqual(repr(value), "".join(output["data"]["text/plain"]))
            os.chdir(ROOT)
        drawn = [axes for number in matplotlib.pyplot.get_fignums() for axes in matplotlib.pyplot.figure(number).axes]
        self.assertEqual(len(drawn), 4)
        self.assertIn("<img ", names["gtx780"]._repr_html_())


if __name__ == "__main__":
    sys.exit(unittest.main())
