#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of the house: who may include whom, who may print, what every file begins with."""

import graphlib
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAY_INCLUDE = {
    "model": {"model"},
    "infer": {"infer", "model"},
    "probe": {"probe", "model"},
    "cli": {"cli", "infer", "probe", "model"},
    "python": {"infer", "probe", "model"},
}
# Which folder of infer/ may include which others. What lies beside the folders ties them together, and none may need it.
INFER_MAY_INCLUDE = {
    "asking": set(),
    "circumstances": {"asking"},
    "code": {"asking"},
    "latency": {"asking"},
    "policy": {"asking"},
    "slices": {"asking"},
    "threads": {"asking"},
    "cache": {"asking", "circumstances", "policy", "slices"},
    "comparing": {"asking", "cache"},
    "laps": {"asking", "cache"},
    "recordings": {"asking", "cache"},
    "texture": {"asking", "cache"},
}
SOURCES = {".cpp", ".hpp", ".cu", ".cuh"}
HEADERS = {".hpp", ".cuh"}
SPDX = ("SPDX-FileCopyrightText: The gpuinfer authors", "SPDX-License-Identifier: Apache-2.0")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cub/|thrust/|cooperative_groups|device_launch_parameters|nv(ml|rtc|ToolsExt|tx))")
VULKAN_HEADER = re.compile(r"^(vulkan|vk_video)/")
PRINTING = re.compile(r"\bstd::(cout|cerr|clog)\b|\b(?:std::)?v?f?printf\s*\(|\b(?:std::)?f?put(s|char)\s*\(|\bfmt::print\b")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
POLICY_NAME = re.compile(r'std::string_view\s+name\s*=\s*"([^"]+)"')


def sources(root, folder):
    return sorted(path for path in (root / folder).rglob("*") if path.suffix in SOURCES)


def scripts(root):
    return sorted(path for folder in ("python", "scripts", "tests") for path in (root / folder).rglob("*") if path.suffix in (".py", ".sh"))


def include_violations(root, folder, path, text):
    own = path.relative_to(root)
    for kind, name in INCLUDE.findall(text):
        if kind == "<":
            if CUDA_HEADER.match(name) and own.parts[:2] != ("probe", "cuda"):
                yield f"{own}: includes <{name}>, only probe/cuda may see CUDA"
            if VULKAN_HEADER.match(name) and own.parts[:2] != ("probe", "vulkan"):
                yield f"{own}: includes <{name}>, only probe/vulkan may see Vulkan"
            continue
        first = name.split("/")[0]
        if "/" not in name or not (root / name).is_file():
            yield f'{own}: includes "{name}", which is no path from the root of the project'
        elif first not in MAY_INCLUDE[folder]:
            yield f'{own}: includes "{name}", {folder} may include only {", ".join(sorted(MAY_INCLUDE[folder]))}'
        elif own.parts[0] == first == "infer" and len(own.parts) > 2:
            yield from arrow_violations(own, name)


def arrow_violations(own, name):
    """Arrows between the folders of infer/ that are not in the table."""
    here, there = own.parts[1], name.split("/")[1]
    allowed = INFER_MAY_INCLUDE.get(here)
    if allowed is None:
        yield f"{own}: infer/{here} is not in the table of arrows; say there what it may include"
    elif there != here and there not in allowed:
        yield f'{own}: includes "{name}", infer/{here} may include only {", ".join(sorted(allowed | {here}))}'


def code_violations(root, folder, path):
    own, text = path.relative_to(root), path.read_text(encoding="utf-8")
    yield from include_violations(root, folder, path, text)
    code = COMMENT_OR_TEXT.sub('""', text)
    if folder != "cli" and (printing := PRINTING.search(code)):
        yield f"{own}: prints ({printing.group().strip()}), only cli may"
    if path.suffix in HEADERS and "#pragma once" not in text.splitlines():
        yield f"{own}: has no #pragma once"


def spdx_violations(root, path):
    head = path.read_text(encoding="utf-8").splitlines()[:3]
    for line in SPDX:
        if not any(found.lstrip("/# ") == line for found in head):
            yield f"{path.relative_to(root)}: has no `{line}` at its head"


def policy_violations(root):
    """The name of a policy in descriptions is the name of its file, and the table knows every one."""
    table = (root / "model/policies/table.hpp").read_text(encoding="utf-8")
    included = {name for _, name in INCLUDE.findall(table)}
    for path in sorted((root / "model/policies").glob("*.hpp")):
        own = path.relative_to(root).as_posix()
        name = POLICY_NAME.search(path.read_text(encoding="utf-8"))
        if not name:
            if own in included:
                yield f"{own}: is in table.hpp and has no name"
            continue
        if name.group(1) != path.stem:
            yield f"{own}: is called {name.group(1)} in descriptions, the file must be too"
        if own not in included:
            yield f"{own}: is not in table.hpp"


def violations(root):
    for folder in MAY_INCLUDE:
        for path in sources(root, folder):
            yield from code_violations(root, folder, path)
            yield from spdx_violations(root, path)
    for path in sources(root, "tests") + scripts(root):
        yield from spdx_violations(root, path)
    yield from policy_violations(root)


class House(unittest.TestCase):
    def test_the_rules_are_kept(self):
        self.assertEqual(list(violations(ROOT)), [])

    def test_folders_of_infer_have_no_cycle_and_no_arrow_that_nothing_uses(self):
        list(graphlib.TopologicalSorter(INFER_MAY_INCLUDE).static_order())  # raises CycleError
        used = {folder: set() for folder in INFER_MAY_INCLUDE}
        for path in sources(ROOT, "infer"):
            here = path.relative_to(ROOT / "infer").parts[0]
            names = [name.split("/") for _, name in INCLUDE.findall(path.read_text(encoding="utf-8"))]
            used.get(here, set()).update(name[1] for name in names if name[0] == "infer" and name[1] != here)
        self.assertEqual(used, INFER_MAY_INCLUDE)

    def test_contributing_names_files_that_exist(self):
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        named = [name for name in re.findall(r"`([\w.]+/[\w./]*)`", text) if "NAME" not in name]
        self.assertGreater(len(named), 10)
        self.assertEqual([name for name in named if not (ROOT / name).exists()], [])

    def test_the_version_is_the_same_everywhere(self):
        version = re.search(r"project\(gpuinfer VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        released = dict(re.findall(r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
        cited = dict(re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
        self.assertEqual(cited, {"version": version, "date-released": released[version]})


class Checker(unittest.TestCase):
    """A checker that finds nothing must have looked."""

    CLEAN = {
        "model/a.hpp": "#pragma once\n#include <vector>\n",
        "probe/b.hpp": '#pragma once\n#include "model/a.hpp"\n',
        "probe/cuda/c.cu": "#include <cuda_runtime.h>\n",
        "infer/asking/g.hpp": '#pragma once\n',
        "infer/policy/h.hpp": '#pragma once\n#include "infer/asking/g.hpp"\n',
        "infer/all.cpp": '#include "infer/policy/h.hpp"\n',
        "infer/d.cpp": '#include "model/a.hpp"\n// std::cout is for cli\nauto text = "printf(";\nint sprints(int);\n',
        "cli/e.cpp": '#include "probe/b.hpp"\nvoid say() { std::cout << 1; }\n',
        "model/policies/table.hpp": '#pragma once\n#include "model/policies/lru.hpp"\n',
        "model/policies/lru.hpp": '#pragma once\nstatic constexpr std::string_view name = "lru";\n',
    }

    def found(self, files=None, header="".join(f"// {line}\n" for line in SPDX)):
        """Violations in the clean project with these files in place of its own or beside them."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (self.CLEAN | (files or {})).items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(header + text, encoding="utf-8")
            return list(violations(root))

    def assert_found(self, words, name, text):
        found = self.found(files={name: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_a_clean_project_passes(self):
        self.assertEqual(self.found(), [])

    def test_forbidden_includes(self):
        self.assert_found("model may include only model", "model/f.cpp", '#include "probe/b.hpp"\n')
        self.assert_found("infer may include only", "infer/f.cpp", '  # include "probe/b.hpp"\n')
        self.assert_found("probe may include only", "probe/f.cpp", '#include "cli/e.cpp"\n')
        self.assert_found("only probe/cuda", "probe/f.cpp", "#include <cuda.h>\n")
        self.assert_found("only probe/cuda", "cli/f.cpp", "#include <cuda_runtime_api.h>\n")
        self.assert_found("only probe/vulkan", "probe/f.cpp", "#include <vulkan/vulkan.h>\n")
        self.assert_found("no path from the root", "probe/f.cpp", '#include "b.hpp"\n')
        self.assert_found("no path from the root", "probe/f.cpp", '#include "../model/a.hpp"\n')

    def test_arrows_between_folders_of_infer(self):
        self.assert_found("infer/asking may include only asking", "infer/asking/f.cpp", '#include "infer/policy/h.hpp"\n')
        self.assert_found("may include only asking, policy", "infer/policy/f.cpp", '#include "infer/all.cpp"\n')
        self.assert_found("not in the table", "infer/elsewhere/f.cpp", '#include "infer/policy/h.hpp"\n')

    def test_printing(self):
        for code in ("std::cout << 1;", "std::cerr << 1;", "printf(text);", "std::fprintf(stderr, text);", "puts(text);"):
            self.assert_found("only cli may", "infer/f.cpp", code)

    def test_heads_of_files(self):
        self.assert_found("no #pragma once", "model/f.hpp", "int f();\n")
        self.assertEqual(len(self.found(header="")), len(SPDX) * len(self.CLEAN))

    def test_policies(self):
        name = 'static constexpr std::string_view name = "fifo";\n'
        self.assert_found("not in table.hpp", "model/policies/fifo.hpp", "#pragma once\n" + name)
        self.assert_found("the file must be too", "model/policies/lru.hpp", "#pragma once\n" + name)


if __name__ == "__main__":
    unittest.main()
