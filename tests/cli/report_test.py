# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Reports as a reader sees them, in a headless Chromium, and the pictures and colours of `show`."""

import base64
import concurrent.futures
import os
import pathlib
import pty
import re
import shutil
import unittest
import xml.etree.ElementTree

import harness
from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = ROOT / "data/h200"

# Headings of figures that must be on the page.
EXPECTED = {
    "h200": [
        "Bandwidth ladder", "Bandwidth by the size of the dataset", "Peaks", "Latencies",
        "Misses by the size of an array", "Which line goes where", "A set at work",
        "Immediate-addressed constants by their footprint", "Straight-line code by its length",
        "Which lines miss in a lap", "L1 capacity versus shared-memory carve-out",
        "Tags, data stores, and the eviction pointer", "Sets that a stride reaches", "Lines in each set",
        "SMs near to each part", "SMs that share one", "Lines in L2, 1 thread on a line",
        "Lines beyond L2, 1 thread on a line", "Cycles by stride", "Cycles by degree of conflict",
        "Texels that lie together",
    ],
    "gtx780": ["Latency against footprint", "Which line goes where", "Latency by access pattern", "Which lines miss in a lap"],
    "gtx560ti": ["Which way is the victim"],
    "m2070": ["By the description"],
}

OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
# Figures in which something is drawn.
DRAWN = """
[...document.querySelectorAll("figure svg")].filter((drawing) => drawing.getBBox().width > 50 && drawing.querySelectorAll("path, rect, text").length > 3).length
"""
# Of each chart: what is shown when the pointer is at its right end, and the last row of its table, without empty cells.
SHOWN = """
[...document.querySelectorAll("figure[data-x]")].map((figure) => {
  const drawing = figure.querySelector("svg");
  const end = new DOMPoint(Number(figure.dataset.x.split(" ").at(-1)), 50).matrixTransform(drawing.getScreenCTM());
  drawing.dispatchEvent(new PointerEvent("pointermove", { clientX: end.x, clientY: end.y }));
  const last = [...figure.querySelectorAll("tbody tr:last-child td")].map((cell) => cell.textContent).filter(Boolean);
  return last.every((text) => figure.querySelector("output").textContent.includes(text));
})
"""
# No text is drawn outside its picture.
OUTSIDE = """
[...document.querySelectorAll("figure svg")].flatMap((drawing) => {
  const { x, y, width, height } = drawing.viewBox.baseVal;
  return [...drawing.querySelectorAll("text")].filter((text) => {
    const box = text.getBBox();
    return !text.closest("g") && !text.hasAttribute("transform") &&
      (box.x < x - 1 || box.x + box.width > x + width + 1 || box.y < y - 4 || box.y + box.height > y + height + 4);
  }).map((text) => text.textContent);
})
"""
# Elements that reach beyond a screen of so many pixels and are in nothing that scrolls by itself.
TOO_WIDE = """
[...document.querySelectorAll("body *")].filter((element) =>
  !element.closest(".scroll > *, .skip") && element.getBoundingClientRect().right > WIDTH + 1).map((element) => element.outerHTML.slice(0, 80))
"""

ATTACK_CHANGES = {
    "name: Small": 'name: "</script><script>window.attacked = 1</script>"',
    "source: test": 'source: "<img src=x onerror=\'window.attacked = 1\'>"',
    "miss: 200": "miss: null",
}
ATTACK = (
    harness.changed(harness.CACHE, ATTACK_CHANGES)
    + """
evidence:
  L1tex:
    latency_cycles: {status: ambiguous, reason: "</script><script>window.attacked = 1</script>", alternatives: []}
"""
)


@unittest.skipUnless(shutil.which("chromium"), "needs chromium (scripts/packages.txt)")
class Report(harness.ProgramTest):
    def report(self, name):
        page = str(self.folder / f"{name}.html")
        recorded = RECORDED / f"{name}.yaml"
        files = (str(recorded), str(recorded.with_suffix(".h5"))) if recorded.exists() else (name,)
        self.expect(0, "report", *files, "-o", page)
        return name, page

    def check(self, browser, name, page):
        narrow, wide = 360, 1200
        browser.open(page, width=narrow)
        self.assertEqual(browser.complaints, [])
        self.assertEqual([url for url in browser.requests if not url.startswith(("file:", "data:"))], [])
        self.check_width(browser, narrow)
        browser.evaluate(OPEN_ALL)
        figures = browser.evaluate("document.querySelectorAll('figure:has(svg)').length")
        self.assertEqual(browser.evaluate("document.body.dataset.figures"), str(figures))
        self.assertEqual(browser.evaluate(DRAWN), figures)
        headings = browser.evaluate("[...document.querySelectorAll('h3')].map((heading) => heading.textContent)")
        for figure in EXPECTED[name]:
            self.assertIn(figure, headings)
        self.assertEqual(browser.evaluate("document.querySelectorAll('figure:not(:has(table, pre))').length"), 0)
        self.check_width(browser, narrow)
        browser.resize(wide, scheme="dark")
        self.check_width(browser, wide)
        self.assertEqual(browser.evaluate(OUTSIDE), [])
        self.assertEqual([each for each in browser.evaluate(SHOWN) if not each], [])
        self.assertEqual(browser.complaints, [])

    def check_width(self, browser, width):
        self.assertEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(browser.evaluate(TOO_WIDE.replace("WIDTH", str(width))), [])

    def test_a_recording_of_another_device(self):
        """Its latencies are near neither level of the profile."""
        self.run_program("--target=L1tex", f"--device=faulty:lost@40:virtual:{self.small}", "--record=cut.h5", "-o", "/dev/null", "--quiet")
        self.expect(0, "report", "gtx560ti", "cut.h5", "-o", "page.html")

    def test_pages(self):
        self.assertLessEqual({recorded.stem for recorded in RECORDED.glob("*.yaml")}, EXPECTED.keys() - {"gtx780", "gtx560ti", "m2070"})
        attack = self.write("attack.yaml", ATTACK)
        self.expect(0, "report", attack, "-o", "attack.html")
        # The one that takes longest first.
        published = {"gtx780", "gtx560ti", "m2070"}
        names = sorted((name for name in EXPECTED if name in published or (RECORDED / f"{name}.yaml").exists()),
                       key=lambda name: name != "h200")
        with Browser() as browser, concurrent.futures.ThreadPoolExecutor(2) as pool:
            reports = [pool.submit(self.report, name) for name in names]
            for done in concurrent.futures.as_completed(reports):
                name, page = done.result()
                with self.subTest(name):
                    text = pathlib.Path(page).read_text(encoding="utf-8")
                    references = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]+)""", text.split("<script>")[0])
                    self.assertEqual([each for each in references if not each.startswith(("#", "data:"))], [])
                    self.check(browser, name, page)
            browser.open(self.folder / "attack.html")
            self.assertIsNone(browser.evaluate("window.attacked ?? null"))
            self.assertIn("</script>", browser.evaluate("document.querySelector('h1').textContent"))
            self.keyboard(browser)

    def keyboard(self, browser):
        """The first key finds the link that skips, and it is seen then; each thing that scrolls can be reached."""
        browser.press("Tab")
        self.assertEqual(browser.evaluate("document.activeElement.className"), "skip")
        self.assertGreaterEqual(browser.evaluate("document.activeElement.getBoundingClientRect().left"), 0)
        self.assertNotEqual(browser.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.scroll:not([tabindex])').length"), 0)

    def test_what_is_wrong_is_told_in_a_sentence(self):
        self.expect(2, "report")
        self.expect(2, "report", "gtx79")
        self.expect(2, "report", "gtx780", "--target", "Kernels")
        self.expect(2, "report", "gtx780", str(RECORDED / "Nothing.h5"))
        recording = str(self.folder / "shared.h5")
        self.expect(0, "--target=Shared", "--device=virtual:gtx780", "--quiet", "--record", recording)
        refused = self.expect(2, "report", "m2070", recording, "-o", "m2070.html")
        self.assertIn("contains none of the profile's targets", refused.stderr)
        self.assertFalse((self.folder / "m2070.html").exists())

    def test_several_devices_stand_side_by_side(self):
        page = self.expect(0, "report", "gtx780", "gtx980").stdout
        for text in ("GeForce GTX 780 and GeForce GTX 980", 'id="differences"', "Latency against footprint"):
            self.assertIn(text, page)

    def test_a_fleet_is_shown_with_what_deviates(self):
        devices = self.write("devices.txt", "virtual:gtx780\nvirtual:gtx780\nvirtual:gtx780-sectored\n")
        self.expect(0, "survey", "--target", "L1tex", "--devices", devices, "-o", "fleet.yaml")
        page = self.expect(0, "report", "fleet.yaml").stdout
        self.assertIn("fleet of 3 devices", page)
        self.assertIn("<td>L1tex.line_bytes<td>", page)
        self.assertIn('<th scope="col">leaves that deviate', page)
        self.assertNotIn('<th scope="col">failure', page)

    def test_a_whole_gpu_is_small_and_soon_there(self):
        files = [str(each) for each in sorted(RECORDED.glob("*.yaml"))]
        self.expect(0, "report", *files, "-o", "whole.html")
        self.assertLess((self.folder / "whole.html").stat().st_size, 2_000_000)
        with Browser() as browser:
            browser.open(self.folder / "whole.html", width=1400)
            sheets = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
            self.assertLessEqual(len(re.findall(rb"/Type\s*/Page\b", sheets)), 2)

    def test_what_a_reader_learns_is_on_the_first_screen(self):
        """Each number of the sentences on an H200 in docs/report.md, without what is said by the page itself."""
        text = (ROOT / "docs/report.md").read_text(encoding="utf-8")
        sentences = re.findall(r"(?ms)^- .*?(?=^- |^$)", text.partition("## What the first screen")[2].partition("## ")[0])
        self.assertEqual(len(sentences), 6)
        page = self.expect(0, "report", str(RECORDED / "h200.yaml")).stdout
        screen = page.partition('<section id="glance">')[2].partition("</section>")[0]
        shown = re.findall(r"\d[\d,.]*", re.sub(r"<[^>]*>", " ", screen))
        numbers = [number for sentence in sentences for number in re.findall(r"(?<![A-Za-z])\d[\d,.]*\d|(?<![A-Za-z])\d", sentence)]
        self.assertGreater(len(numbers), 20)
        self.assertEqual([number for number in numbers if number not in shown], [])
        self.assertEqual(re.findall(r">\?</text>", screen), [], "no mark, as sizes, sets and policies of all boxes are verified")

    def test_chases_of_other_programs(self):
        rows = "".join(f"{i % 5 * 64},{200 if i % 5 == 0 else 30}\n" for i in range(40))
        page = self.expect(0, "report", self.small, self.write("chase.csv", "offset,latency\n" + rows)).stdout
        self.assertIn("all 40 loads in 1 recorded sequences", page)


class Picture(harness.ProgramTest):
    def test_is_well_formed(self):
        profile = self.write("attack.yaml", ATTACK)
        for name in (profile, *map(str, RECORDED.glob("*.yaml")), "gtx780", "m2070"):
            with self.subTest(name):
                self.expect(0, "show", name, "-o", "picture.svg")
                picture = xml.etree.ElementTree.parse(self.folder / "picture.svg").getroot()
                self.assertEqual(picture.tag, "{http://www.w3.org/2000/svg}svg")
                self.assertEqual([each for each in picture.iter() if each.tag.endswith("script")], [])

    def test_the_one_in_the_documentation_is_of_today(self):
        # What has no drawing of its own is shown in the machine.
        for target, name in (("Shared", "h200.svg"), ("L1tex", "h200-l1.svg")):
            with self.subTest(name):
                self.expect(0, "show", str(RECORDED / "h200.yaml"), "--target", target, "-o", name)
                drawn = (ROOT / "docs/figures" / name).read_text()
                self.assertEqual((self.folder / name).read_text(), drawn, "run scripts/plots")

    def test_of_one_target_has_no_machine(self):
        self.expect(0, "show", "gtx780", "--target", "L1tex", "-o", "one.svg")
        self.expect(0, "show", "gtx780", "-o", "all.svg")
        one, whole = ((self.folder / name).read_text() for name in ("one.svg", "all.svg"))
        self.assertNotIn(">warps<", one)
        self.assertIn(">warps<", whole)
        self.assertIn(">index<", one)

    def test_has_the_lines_of_each_set(self):
        self.expect(0, "show", self.small, "-o", "picture.svg")
        texts = [each.text for each in xml.etree.ElementTree.parse(self.folder / "picture.svg").iter() if each.tag.endswith("text")]
        # Set 1 of four sets of lines of 64 B.
        place = texts.index("  set 1")
        self.assertEqual(texts[place + 1 : place + 5], ["1", "5", "9", "13"])
        self.expect(2, "show", self.small, "-o", "picture.svg", "--explain")
        self.expect(2, "show", self.small, "-o", "no/folder/picture.svg")
        self.expect(2, "show", self.small, "-o", "picture.gif")

    @unittest.skipUnless(shutil.which("rsvg-convert"), "needs rsvg-convert (scripts/packages.txt)")
    def test_other_forms_come_from_the_same_drawing(self):
        for form, begin in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
            self.expect(0, "show", "gtx780", "--target", "L1tex", "-o", f"picture.{form}")
            self.assertTrue((self.folder / f"picture.{form}").read_bytes().startswith(begin))


class Colours(harness.ProgramTest):
    def on_terminal(self, profile, **environment):
        terminal, its_other_end = pty.openpty()
        inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        read = b""
        pid = os.fork()
        if pid == 0:
            os.dup2(its_other_end, 1)
            os.execve(self.program, [self.program, "show", profile], inherited | environment)
        os.close(its_other_end)
        try:
            while part := os.read(terminal, 1 << 16):
                read += part
        except OSError:
            pass  # how Linux says that the other end has gone
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return read.decode().replace("\r\n", "\n")

    def test_only_where_they_are_wanted(self):
        profile = self.write("profile.yaml", harness.with_ambiguous_onset(harness.recorded("L1tex").read_text()))
        plain = self.expect(0, "show", profile).stdout
        self.assertNotIn("\x1b", plain)
        self.assertEqual(self.on_terminal(profile, NO_COLOR="1"), plain)
        coloured = self.on_terminal(profile)
        for word in ("resolved ", "ambiguous", "unknown  ", "hit 34", "miss 284"):
            self.assertRegex(coloured, rf"\x1b\[\d+m{word}\x1b\[0m")
        self.assertEqual(re.sub(r"\x1b\[\d+m", "", coloured), plain)


if __name__ == "__main__":
    harness.main()
