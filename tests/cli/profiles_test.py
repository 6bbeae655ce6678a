# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""profiles_test.py GPUINFER: profiles of GPUs of which a part is known.

What would prove them wrong: a value that nothing proves, or whose source is not said; a count that is not that of the
profile; a device that answers although leaves are missing, or does not say which; a verb that cannot read them.
"""

import json
import os
import re

import harness

PARTIAL = sorted((harness.ROOT / "configs/partial").glob("*.yaml"))
NEEDED = ("line_bytes", "sector_bytes", "ways", "index", "replacement")


class Partial(harness.ProgramTest):
    def profile(self, name):
        return json.loads(self.expect(0, "export", name, "--to", "json").stdout)

    def listed(self):
        """Known leaves, all leaves and the rest of the line, by name."""
        line = re.compile(r"(\S.*?)  +(\S.*?) +(\d+) of +(\d+) leaves known  (.*)")
        found = [line.fullmatch(text) for text in self.expect(0, "list", "profiles").stdout.splitlines()]
        self.assertNotIn(None, found)
        return {match[1]: (int(match[3]), int(match[4]), match[2], match[5].split()) for match in found}

    def test_there_are_some(self):
        self.assertGreaterEqual(len(PARTIAL), 10)

    def test_what_is_known_is_proven_and_has_a_source(self):
        for file in PARTIAL:
            profile = self.profile(file.stem)
            self.assertIn("commit", profile["device"]["source"])
            for target, cache in profile["caches"].items():
                with self.subTest(file=file.stem, target=target):
                    evidence = profile["evidence"][target]
                    self.assertLessEqual(set(cache), set(evidence))
                    for leaf, entry in evidence.items():
                        self.assertRegex(entry["source"], r"^MT4G [0-9a-f]{12}, .*\.txt$")
                        value = cache.get(leaf)
                        parts = list(value.values()) if isinstance(value, dict) else [value]
                        is_known = entry["status"] == "resolved"
                        self.assertEqual([part is not None for part in parts], [is_known] * len(parts), leaf)
                        self.assertEqual("reason" in entry, not is_known, leaf)
                    # MT4G's rows time the kernel around the load as well.
                    self.assertEqual(evidence["latency_cycles"]["status"], "unknown")

    def test_list_counts_leaves(self):
        listed = self.listed()
        for file in PARTIAL:
            profile = self.profile(file.stem)
            entries = [entry for cache in profile["evidence"].values() for entry in cache.values()]
            known = sum(entry["status"] == "resolved" for entry in entries)
            expected = (known, len(entries), profile["device"]["name"], sorted(profile["caches"]))
            self.assertEqual((*listed[file.stem][:3], sorted(listed[file.stem][3])), expected)
        self.assertEqual(*listed["h200"][:2])
        self.assertLess(*listed["hd7970"][:2])  # whose index and latencies are assumed
        self.assertLess(*listed["gtx280"][:2])  # whose latencies nobody printed
        self.assertTrue(any(name.endswith("/h200.yaml") for name in listed))
        self.assertEqual([name for name in listed if name in ("prefetcher", "two-caches")], [])

    def test_list_counts_what_a_profile_loses(self):
        (self.folder / "configs/partial").mkdir(parents=True)
        self.write("configs/partial/one.yaml", harness.CACHE)
        self.write("configs/partial/none.yaml", harness.CACHE.replace("line_bytes: 64", "line_bytes: null"))
        listed = self.expect(0, "list", "profiles", env={**os.environ, "GPUINFER_DATA": str(self.folder)}).stdout
        self.assertRegex(listed, r"(?m)^none +Small +6 of +7 leaves known  L1tex$")
        self.assertRegex(listed, r"(?m)^one +Small +7 of +7 leaves known  L1tex$")

    def test_an_h100_is_what_this_project_found_on_another(self):
        found = str(harness.ROOT / "data/h100/L1tex.yaml")
        for name in ("h100-sxm", "h100-nvl"):
            differences = self.expect(0, "diff", name, found, "--target", "L1tex", "--all").stdout
            self.assertRegex(differences, r"(?m)^L1tex\.sector_bytes +same ")

    def test_the_table_of_the_documentation(self):
        page = (harness.ROOT / "docs/other-gpus.md").read_text(encoding="utf-8")
        rows = []
        for file in PARTIAL:
            profile = self.profile(file.stem)
            sectors = [f"{target} {cache['sector_bytes']}" for target, cache in profile["caches"].items() if cache["sector_bytes"]]
            sizes = re.search(r"of (\d+) bytes fit, and of (\d+) bytes do not", profile["evidence"]["L1tex"]["onset_bytes"]["reason"])
            fits = " to ".join(f"{int(size):,}" for size in sizes.groups())
            rows.append(f"| [`{file.stem}`](../configs/partial/{file.name}) | {profile['device']['name']} | {', '.join(sectors) or 'none'} | {fits} |")
        self.assertIn("\n".join(rows), page)

    def test_as_a_device_each_names_what_is_missing(self):
        for file in PARTIAL:
            first, cache = min(self.profile(file.stem)["caches"].items())
            done = self.expect(2, "--target", "all", "--device", f"virtual:{file.stem}")
            self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1))
            self.assertIn(f"virtual:{file.stem}: caches.{first}", done.stderr)
            for leaf in NEEDED:
                self.assertEqual(leaf in done.stderr, cache[leaf] is None, done.stderr)
            asked = self.expect(2, "--target", "L1tex", "--device", f"virtual:{file.stem}")
            self.assertIn("caches.L1tex: line_bytes, ways", asked.stderr)

    def test_every_verb_takes_them(self):
        for file in PARTIAL:
            name = file.stem
            self.assertIn("not known", self.expect(0, "show", name).stdout)
            self.assertIn("<html", self.expect(0, "report", name).stdout)
            self.expect(0, "diff", name, str(file))
            for form in ("csv", "markdown"):
                self.expect(0, "export", name, "--to", form)
        self.assertIn("less certain", self.expect(0, "diff", "a100", "rtx2080ti").stdout)
        self.expect(2, "simulate", "a100", "--target", "L1tex", "--sequence", "cyclic:1K,32")

    def test_a_name_nearby(self):
        for verb in (("show",), ("diff", "a100"), ("report",)):
            self.assertIn("did you mean `rtx2080ti`?", self.expect(2, *verb, "rtx2080t").stderr)
        self.assertIn("did you mean `mi100`?", self.expect(2, "--target", "L1tex", "--device", "virtual:mi10").stderr)
        self.assertIn("did you mean `profiles`?", self.expect(2, "list", "profile").stderr)


if __name__ == "__main__":
    harness.main()
