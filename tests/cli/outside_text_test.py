#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""outside_text_test.py GPUINFER: what others wrote steers no terminal, no spreadsheet, no page and no simulator.

One table of payloads goes, under every name that a profile can hold, through every output of the program.
"""

import csv
import io
import json
import os
import pathlib
import pty
import re
import subprocess
import xml.dom.minidom

import harness

PAYLOADS = {
    "title of the terminal": "\x1b]0;pwned\x07",
    "clears the screen": "\x1b[2J",
    "conceals": "\x1b[8m",
    "erases the line": "\r\x1b[K",
    "clipboard": "\x1b]52;c;cHduZWQ=\x07",
    "control sequence of one character": "\x9b31m",
    "delete": "\x7f",
    "right to left": "a\u202eb",
    "isolate": "a\u2066b\u2069",
    "mark": "a\u200fb",
    "line separator": "a\u2028b",
    "formula": "=1+1",
    "formula with a sign": "+cmd|' /C calc'!A0",
    "formula with an at": "@SUM(1)",
    "formula behind a minus": "-1+1",
    "element": "<script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "link": "[x](javascript:alert(1))",
    "table": "a|b",
    "option": "X\n-gpgpu_n_mem 1 #",
    "no character of XML": "a\ufffeb",
    "quotes": "\"'`&",
}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
FORMATS = ("gpgpusim", "accelsim", "accelsim-tuner", "mt4g", "ppt-gpu", "json", "csv", "markdown")


def profile_with(text, *more_names):
    cache = {"capacity_bytes": 1024, "line_bytes": 64, "ways": [4, 4, 4, 4], "replacement": {"policy": "lru"}}
    evidence = {"line_bytes": {"status": "ambiguous", "alternatives": [32, 64], "reason": text}}
    return {
        "schema": "gpuinfer/1",
        "device": {"name": text, "source": text, "provenance": {"driver": text}},
        "caches": {name: cache for name in (text, "L1tex", *more_names)},
        "evidence": {name: evidence for name in (text, "L1tex", *more_names)},
    }


class OutsideText(harness.ProgramTest):
    def each(self):
        """Each payload with a profile that holds it everywhere, in JSON and as the program writes it."""
        for name, text in PAYLOADS.items():
            with self.subTest(name):
                yield text, self.write("profile.json", json.dumps(profile_with(text)))

    def all_at_once(self):
        return self.write("profile.json", json.dumps(profile_with("".join(PAYLOADS.values())[:100], *PAYLOADS.values())))

    def printed(self, *arguments, statuses=(0,)):
        """Stdout, after a look at both streams."""
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, statuses, done.stderr)
        for stream in (done.stdout, done.stderr):
            self.assertIsNone(UNSEEN.search(stream.decode()), stream)
        return done.stdout.decode()

    def test_terminals(self):
        profile = self.all_at_once()
        self.printed("show", profile, "--explain")
        self.printed("diff", profile, self.small, statuses=(0, 1))
        for text in PAYLOADS.values():
            with self.subTest(text):
                self.printed("show", profile, f"--target={text}", statuses=(0, 2))
                self.printed("show", self.write("key.json", json.dumps({**profile_with("x"), text: 1})), statuses=(2,))
                self.printed("--target=L1tex", f"--device={text}", statuses=(2, 4))

    def test_a_terminal_with_colours(self):
        profile = self.write("profile.json", json.dumps(profile_with("\x1b]0;pwned\x07\x1b[8m")))
        main, end = pty.openpty()
        with subprocess.Popen([self.program, "show", profile], stdout=end, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": ""}) as process:
            os.close(end)
            shown = b""
            try:
                while part := os.read(main, 1 << 16):
                    shown += part
            except OSError:  # the terminal has gone
                pass
        os.close(main)
        self.assertIn(b"\x1b[33m", shown, "ambiguous is yellow")
        self.assertNotIn(b"\x1b", re.sub(rb"\x1b\[(3[0-7]|0)m", b"", shown))

    def test_what_is_written_reads_as_it_was(self):
        for text, profile in self.each():
            for form in ("json", "yaml"):
                merged = self.printed("merge", profile, "--format", form)
                again = json.loads(self.printed("merge", self.write("again.yaml", merged), "--format=json"))
                self.assertEqual(again["device"]["name"], text)
                self.assertIn(text, again["caches"])

    def test_spreadsheets(self):
        for _, profile in self.each():
            rows = list(csv.reader(io.StringIO(self.printed("export", profile, "--to=csv"))))
            self.assertGreater(len(rows), 5)
            self.assertEqual({len(row) for row in rows}, {5})
            for cell in (cell for row in rows for cell in row):
                self.assertFalse(cell.startswith(("=", "+", "-", "@")) and not is_number(cell), cell)

    def test_markdown(self):
        for _, profile in self.each():
            text = self.printed("export", profile, "--to=markdown")
            for opens in ("<", "](javascript"):
                self.assertNotIn(opens, text)
            for line in text.splitlines():
                if line.startswith("|"):
                    self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), 5, line)

    def test_simulators(self):
        plain = self.write("plain.json", json.dumps(profile_with("x")))
        options = lambda text: [line.split()[0] for line in text.splitlines() if line.startswith("-")]
        for form in ("gpgpusim", "accelsim"):
            expected = options(self.printed("export", plain, "--to", form))
            self.assertIn("-gpgpu_cache:dl1", expected)
            for _, profile in self.each():
                self.assertEqual(options(self.printed("export", profile, "--to", form)), expected)

    def test_other_formats(self):
        profile = self.all_at_once()
        for form in FORMATS:
            text = self.printed("export", profile, "--to", form)
            if form in ("mt4g", "json"):
                json.loads(text)

    def test_pages_and_pictures(self):
        profile = self.all_at_once()
        page = self.printed("report", profile)
        for opens in ("<script>alert", "<img src=x"):
            self.assertNotIn(opens, page)
        self.printed("show", profile, "-o", "picture.svg")
        picture = xml.dom.minidom.parse(str(self.folder / "picture.svg"))
        self.assertEqual(picture.documentElement.tagName, "svg")
        self.assertEqual(picture.getElementsByTagName("script"), [])

    def test_another_process(self):
        text = "".join(PAYLOADS.values())
        greeting = {"gpuinfer": 1, "device": {"name": text}, "targets": ["L1tex"], "buffer_bytes": 1 << 20, "address_of_buffer": 0}
        self.write("greeting", json.dumps(greeting) + "\n")
        device = f"exec:cat {self.folder}/greeting; printf '\\033]0;pwned\\a\\n' >&2; cat > {self.folder}/taken"
        self.printed("doctor", "--device", device, statuses=(0, 1, 3, 4))
        self.printed("--target=L1tex", "--device", device, "--patience=1", "--timeout=1", statuses=(1, 3, 4))


def is_number(cell):
    try:
        return float(cell) is not None
    except ValueError:
        return False


if __name__ == "__main__":
    harness.main()
