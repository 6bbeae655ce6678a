#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""docs_test.py GPUINFER: what the pages in docs/ say is true.

Commands are run, and what they print is compared, as readme_test.py does it, each page in a folder of its own. Links lead
somewhere, and the index names every page. A sentence in quotes with a file behind it, "..." (`data/...`), stands in that
file. Where a page says that `name` is in `file`, it is.
"""

import json
import pathlib
import re
import sys
import unittest

import readme_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
QUOTE = re.compile(r'"([^"]+)"\s+\(`(data/[^`]+)`\)')
SYMBOL_IN_FILE = re.compile(r"`([\w:.]+)(?:\(\))?`\s+in\s+`([\w./-]+)`")
PATH = re.compile(r"`((?:cli|configs|data|docs|infer|model|probe|scripts|tests)/[\w./-]*)`")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose_of(page):
    return CODE.sub("", text_of(page))


def on_one_line(text):
    return " ".join(text.split())


def anchors_of(page):
    """What links may name: headings in lower case, without punctuation, with a hyphen for each blank."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


class Shell(unittest.TestCase):
    def shell_for(self, page):
        """Runs commands in a folder of their own that holds the files of the page."""
        shell = readme_test.Commands()
        shell.setUp()
        self.addCleanup(shell.doCleanups)
        shell.write_files(text_of(page))
        return shell


class Commands(Shell):
    def test_all(self):
        for page in PAGES:
            text = text_of(page)
            self.assertEqual(len(readme_test.BLOCK.findall(text)), text.count("```sh\n"), page.name)
            shell = self.shell_for(page)
            for block in readme_test.BLOCK.finditer(text):
                if block["skip"]:
                    continue
                printed = ""
                for command in block["commands"].replace("\\\n", "").splitlines():
                    with self.subTest(command, page=page.name):
                        printed = shell.check_command(command)
                if block["output"]:
                    with self.subTest(output_of=command, page=page.name):
                        shell.check_output(block["output"], printed)


class Text(unittest.TestCase):
    def test_links_lead_somewhere(self):
        count = 0
        for page in PAGES:
            for path, anchor in LINK.findall(prose_of(page)):
                count += 1
                with self.subTest(page=page.name, link=f"{path}#{anchor}"):
                    target = (page.parent / path).resolve() if path else page
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, anchors_of(target))
        self.assertGreater(count, 20)

    def test_the_index_names_every_page(self):
        named = {path for path, _ in LINK.findall(text_of(ROOT / "docs/README.md"))}
        self.assertEqual({page.name for page in PAGES} - {"README.md"} - named, set())

    def test_paths_exist(self):
        for page in PAGES:
            for path in PATH.findall(prose_of(page)):
                with self.subTest(page=page.name, path=path):
                    # Capitals stand for a name of one's own.
                    pattern = re.sub(r"\b[A-Z]{2,}(?=[._])", "*", path)
                    self.assertTrue(list(ROOT.glob(pattern.rstrip("/"))))

    def test_quotes_stand_in_their_files(self):
        count = 0
        for page in PAGES:
            quotes = QUOTE.findall(prose_of(page))
            self.assertEqual(len(quotes), len(re.findall(r"\(`data/[^`]+\.yaml`\)", prose_of(page))), page.name)
            count += len(quotes)
            for quote, path in quotes:
                with self.subTest(page=page.name, path=path):
                    self.assertTrue(on_one_line(quote) in text_of(ROOT / path), f"{path} does not say: {quote}")
        self.assertGreater(count, 30)

    def test_names_are_in_the_files_that_are_said_to_have_them(self):
        count = 0
        for page in PAGES:
            for name, path in SYMBOL_IN_FILE.findall(prose_of(page)):
                count += 1
                with self.subTest(page=page.name, path=path):
                    self.assertRegex(text_of(ROOT / path), rf"\b{re.escape(name)}\b")
        self.assertGreater(count, 10)


def parity(number):
    return bin(number).count("1") % 2


class Simulator(Shell):
    def test_the_one_of_the_page_is_found_out(self):
        page = ROOT / "docs/exec.md"
        source = dict(readme_test.FILE.findall(text_of(page)))["my_cache.py"]
        shell = self.shell_for(page)
        for line_bytes, sets, ways in ((64, 8, 6), (128, 4, 5)):
            sizes = f"LINE_BYTES, SETS, WAYS = {line_bytes}, {sets}, {ways}"
            changed, count = re.subn(r"LINE_BYTES, SETS, WAYS = .*", sizes, source)
            self.assertEqual(count, 1)
            (shell.folder / "changed.py").write_text(changed, encoding="utf-8")
            with self.subTest(sizes):
                cache = self.cache_found(shell, "changed.py")
                self.assertEqual((cache["line_bytes"], cache["ways"]), (line_bytes, [ways] * sets))
                self.assertEqual(cache["replacement"]["policy"], "fifo")
                self.assertEqual(cache["index"]["kind"], "xor")
                masks = [sum(1 << bit for bit in row) for row in cache["index"]["rows"]]
                split_by_both = {
                    ((line ^ line // sets) % sets, tuple(parity(line * line_bytes & mask) for mask in masks))
                    for line in range((1 << 20) // line_bytes)
                }
                self.assertEqual((len(split_by_both), 2 ** len(masks)), (sets, sets))

    def cache_found(self, shell, script):
        command = f'scripts/gpuinfer --target L1tex --device "exec:python3 {script}" --quiet --format json'
        return json.loads(shell.check_command(command))["caches"]["L1tex"]


if __name__ == "__main__":
    readme_test.PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
