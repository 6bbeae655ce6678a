#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""package_test.py CMAKE BUILD COMPILER FLAGS TEST...: what is installed and packed works without this source tree."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CMAKE = BUILD = COMPILER = FLAGS = None


def run(*command, **options):
    """What it printed on stdout."""
    environment = {name: value for name, value in os.environ.items() if name != "GPUINFER_DATA"}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def lru_strip(offsets):
    """Hits and misses of the texture cache of the GTX 780: lines of 32 bytes, sets by bits 7 and 8, 96 ways, LRU."""
    sets = collections.defaultdict(collections.OrderedDict)
    strip = ""
    for offset in offsets:
        lines, line = sets[offset >> 7 & 3], offset // 32
        strip += "." if line in lines else "M"
        lines[line] = True
        lines.move_to_end(line)
        if len(lines) > 96:
            lines.popitem(last=False)
    return strip


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        run(CMAKE, "--install", BUILD, "--prefix", cls.scratch / "installed")
        # Nothing may remember where it was put first.
        cls.prefix = (cls.scratch / "installed").rename(cls.scratch / "moved")

    def test_a_project_of_somebody_else(self):
        build = self.scratch / "consumer"
        run(
            CMAKE, "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_FLAGS={FLAGS}",
        )
        run(CMAKE, "--build", build)
        strip, resolved, profile = run(build / "consumer", cwd="/").split("\n", 2)
        self.assertEqual(strip, lru_strip([32 * i % 12320 for i in range(1155)]))
        self.assertEqual(resolved, "resolved")
        cache = json.loads(profile)["caches"]["L1tex"]
        self.assertEqual((cache["line_bytes"], cache["ways"], cache["index"]["bits"]), (32, [96] * 4, [7, 8]))
        self.assertEqual(cache["replacement"], {"policy": "lru"})
        device = self.prefix / "share/gpuinfer/configs/devices/gtx780.yaml"
        strip, counts = run(build / "consumer_in_c", device, "L1tex", 385, 32, 3, cwd="/").splitlines()
        self.assertEqual(strip, lru_strip([32 * i % 12320 for i in range(1155)]))
        self.assertEqual(counts, f"1155 {strip.count('.')}")
        done = subprocess.run([build / "consumer_in_c", device, "L9", "1", "1", "1"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("has no cache L9; name one of its caches", done.stderr)

    def test_the_documentation_quotes_it(self):
        text = (HERE.parents[1] / "docs" / "packages.md").read_text()
        for kind, file in (("cmake", "CMakeLists.txt"), ("cpp", "consumer.cpp")):
            quoted = re.search(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
            self.assertIn(quoted, (HERE / "consumer" / file).read_text())

    def test_another_version_is_not_taken(self):
        script = self.scratch / "version.cmake"
        script.write_text('set(PACKAGE_FIND_VERSION 0.2)\ninclude("${FILE}")\nmessage(${PACKAGE_VERSION_COMPATIBLE})\n')
        file = next(self.prefix.rglob("gpuinferConfigVersion.cmake"))
        done = subprocess.run([CMAKE, f"-DFILE={file}", "-P", script], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr.strip(), "FALSE")

    def test_headers_need_nothing_but_each_other(self):
        root = self.prefix / "include" / "gpuinfer"
        headers = sorted(path.relative_to(root) for path in root.rglob("*.hpp"))
        self.assertEqual({path.parts[0] for path in headers}, {"model", "infer", "probe"})
        everything = self.scratch / "everything.cpp"
        everything.write_text("".join(f'#include "{path}"\n' for path in headers))
        # Not by -MD: rules for make name headers as well of which the standard library only asks whether they are there.
        preprocessed = self.scratch / "everything.ii"
        run(COMPILER, *FLAGS.split(), "-std=c++20", "-E", f"-I{root}", "-o", preprocessed, everything)
        run(COMPILER, *FLAGS.split(), "-std=c++20", "-fsyntax-only", preprocessed)
        included = set(re.findall(r'^# \d+ "([^"]+)"', preprocessed.read_text(), re.MULTILINE))
        self.assertTrue({str(root / path) for path in headers} <= included)
        others = ("/boost/", "/Eigen/", "/fmt/", "/hdf5", "/nlohmann/", "/tbb/", "/yaml-cpp/")
        self.assertEqual([path for path in sorted(included) if any(name in path for name in others)], [])

    def test_the_program_finds_its_data(self):
        program = self.prefix / "bin" / "gpuinfer"
        devices = run(program, "list", "devices", cwd="/").splitlines()
        recordings = [line.split(":", 1)[1].split()[0] for line in devices if line.startswith("recorded:")]
        self.assertTrue(recordings)
        folder = f"{self.prefix}/share/gpuinfer/data/"
        self.assertEqual([name for name in recordings if not name.startswith(folder)], [])
        profile = run(program, "--target=L1tex", "--device=virtual:gtx780", "--quiet", "--format=json", cwd="/")
        self.assertEqual(json.loads(profile)["caches"]["L1tex"]["ways"], [96] * 4)

    def test_nothing_names_the_folders_of_the_build(self):
        for file in self.prefix.rglob("*.cmake"):
            self.assertNotIn(str(BUILD), file.read_text(), file)
            self.assertNotIn(str(HERE.parents[1]), file.read_text(), file)


def pack(folder):
    """Debian packages of all components but the libraries, which take long to pack; `Installed` looks at those."""
    config = pathlib.Path(BUILD) / "CPackConfig.cmake"
    built = re.search(r'set\(CPACK_COMPONENTS_ALL "([^"]+)"\)', config.read_text()).group(1).split(";")
    packed = ";".join(component for component in built if component != "development")
    run(
        pathlib.Path(CMAKE).with_name("cpack"), "--config", config, "-B", folder,
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", "-D", f"CPACK_COMPONENTS_ALL={packed}",
    )
    return {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}


class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.packages = pack(scratch.name)

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.packages[package], name).strip()

    def files(self, package):
        lines = run("dpkg-deb", "--contents", self.packages[package]).splitlines()
        return {line.split()[5][1:]: line for line in lines}

    def test_fields(self):
        self.assertIn("gpuinfer", self.packages)
        for package in self.packages:
            with self.subTest(package):
                self.assertEqual(self.field(package, "Package"), package)
                self.assertRegex(self.field(package, "Maintainer"), r"^The gpuinfer authors <\S+@\S+>$")
                self.assertRegex(self.field(package, "Version"), r"^\d+\.\d+\.\d+$")
                self.assertNotEqual(self.field(package, "Section"), "")
                self.assertIn(f"/usr/share/doc/{package}/copyright", self.files(package))
                about = self.field(package, "Description").splitlines()
                self.assertGreater(len(about), 2)
                self.assertLess(len(about[0]), 80)

    def test_depends_on_what_the_program_loads(self):
        depends = self.field("gpuinfer", "Depends")
        needed = run("objdump", "-p", pathlib.Path(BUILD) / "cli" / "gpuinfer")
        for library, package in (("libhdf5", "libhdf5-"), ("libsqlite3", "libsqlite3-0"), ("libyaml-cpp", "libyaml-cpp0"), ("libtbb", "libtbb"),
                                 ("libboost_program_options", "libboost-program-options"), ("libc.so", "libc6")):
            self.assertIn(f"NEEDED               {library}", needed)
            self.assertIn(package, depends)
        self.assertNotIn("-dev", depends)

    def test_contents(self):
        program = self.files("gpuinfer")
        self.assertRegex(program["/usr/bin/gpuinfer"], r"^-rwxr-xr-x root/root ")
        self.assertIn("/usr/share/gpuinfer/configs/devices/gtx780.yaml", program)
        self.assertTrue([name for name in program if re.fullmatch(r"/usr/share/gpuinfer/data/h200/\w+\.h5", name)])
        self.assertEqual([name for name in program if name.endswith((".hpp", ".a", ".cmake"))], [])
        if "python3-gpuinfer" in self.packages:
            self.assertIn("/usr/lib/python3/dist-packages/gpuinfer/__init__.py", self.files("python3-gpuinfer"))
            self.assertIn("python3-numpy", self.field("python3-gpuinfer", "Depends"))


class Archive(unittest.TestCase):
    """The release archive brings all that it loads but glibc."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.root = pathlib.Path(scratch.name) / "root"
        cls.root.mkdir()
        archive = run(ROOT / "scripts" / "archive", BUILD, scratch.name).strip()
        run("tar", "-xzf", archive, "-C", cls.root)
        (cls.folder,) = cls.root.iterdir()

    def test_the_readme_names_the_glibc_that_it_needs(self):
        versions = set()
        for file in [self.folder / "bin" / "gpuinfer", *(self.folder / "lib" / "gpuinfer").iterdir()]:
            versions |= {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d[\d.]*)", run("objdump", "-T", file))}
        stated = re.search(r"glibc (\d+)\.(\d+)", (ROOT / "README.md").read_text())
        self.assertEqual(tuple(map(int, stated.groups())), max(versions))

    def test_an_empty_root_with_glibc_alone(self):
        for line in run("ldd", self.folder / "bin" / "gpuinfer").splitlines():
            file = pathlib.Path(line.split(" => ")[-1].split()[0])
            if file.is_absolute() and not file.is_relative_to(self.root):
                self.assertRegex(file.name, r"^(ld-linux-\S+|lib(c|dl|m|pthread|resolv|rt)\.so\.\d)$")
                inside = self.root / file.relative_to("/")
                inside.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.resolve(), inside)
        (self.root / "proc").mkdir()
        # The loader finds the libraries beside the program by /proc/self/exe.
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        program = [f"/{self.folder.name}/bin/gpuinfer", "--target=L1tex", "--device=virtual:gtx780", "--quiet", "--format=json"]
        own_root = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", inside, self.root]
        self.assertEqual(json.loads(run(*own_root, *program))["caches"]["L1tex"]["ways"], [96] * 4)


class CleanDebian(unittest.TestCase):
    """Installs the packages where nothing but Debian is. Needs root and Debian's packages, and takes a minute."""

    def test_installs_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            packages = pack(folder)
            inside = (
                "export DEBIAN_FRONTEND=noninteractive; cd /root; "
                "apt-get -qq -y --no-install-recommends install ./*.deb; "
                "gpuinfer --target L1tex --device virtual:gtx780 --quiet --format json -o profile.json"
            )
            if "python3-gpuinfer" in packages:
                inside += "; python3 -c 'import gpuinfer'"
            hooks = (
                f"copy-in {' '.join(str(path) for path in packages.values())} /root",
                f'chroot "$1" sh -ec "{inside}"',
                f"copy-out /root/profile.json {folder}",
            )
            run(
                "mmdebstrap", "--quiet", "--variant=apt", "--format=null",
                *(f"--customize-hook={hook}" for hook in hooks), "bookworm", "/dev/null",
            )
            profile = (pathlib.Path(folder) / "profile.json").read_text()
        self.assertEqual(json.loads(profile)["caches"]["L1tex"]["ways"], [96] * 4)


if __name__ == "__main__":
    CMAKE, BUILD, COMPILER, FLAGS = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
