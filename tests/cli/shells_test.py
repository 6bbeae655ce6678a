# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The man page and the completions say what --help says, and bash completes with them."""

import re
import shutil
import subprocess
import unittest

import harness

# `  -o [ --output ] FILE   write there` or `  --target T    the load path`.
OPTION = re.compile(r"^  (?:-(\w) \[ )?--([\w-]+)(?: \])?( \S+)?(?: |$)", re.MULTILINE)


class Shells(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.verbs = re.findall(r"^  (\w+) +\S", self.expect(0, "--help").stdout, re.MULTILINE)
        self.help = {verb: self.expect(0, verb, "--help").stdout for verb in self.verbs}
        self.options = {
            verb: {(name, letter or "") for letter, name, _ in OPTION.findall(text)} for verb, text in self.help.items()
        }

    def completion(self, shell):
        return self.expect(0, "completion", shell).stdout


class Help(Shells):
    def test_every_verb_is_looked_at(self):
        self.assertLessEqual({"run", "diff", "doctor", "completion", "man"}, set(self.verbs))
        for verb, options in self.options.items():
            self.assertIn(("help", "h"), options, verb)
        self.assertIn(("output", "o"), self.options["run"])

    def test_options_with_a_value_say_what_it_is_when_left_out(self):
        for verb, text in self.help.items():
            entries = re.split(r"^(?=  -)", text[text.index("\nOptions:\n") :], flags=re.MULTILINE)[1:]
            self.assertEqual(len(entries), len(self.options[verb]))
            for entry in entries:
                _, name, value = OPTION.match(entry).groups()
                # A value's name follows the option after one blank.
                if value:
                    self.assertRegex(entry, "default|needed", f"{verb} --{name}")


class ManPage(Shells):
    def test_has_the_options_of_every_verb_and_no_others(self):
        sections = re.split(r"^\.SS (\w+)\n", self.expect(0, "man").stdout, flags=re.MULTILINE)
        found = dict(zip(sections[1::2], sections[2::2]))
        self.assertEqual(list(found), self.verbs)
        entry = re.compile(r"^\.TP\n(?:\\fB\\-(\w)\\fR, )?\\fB\\-\\-([^ ]+)\\fR", re.MULTILINE)
        for verb, section in found.items():
            named = {(name.replace("\\-", "-"), letter) for letter, name in entry.findall(section)}
            self.assertEqual(named, self.options[verb], verb)

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_groff_has_no_complaint(self):
        page = self.expect(0, "man").stdout
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Completion(Shells):
    def test_bash_names_the_options_of_every_verb_and_no_others(self):
        cases = re.findall(r"^    (\w+)\)\n      options='([^']*)'", self.completion("bash"), re.MULTILINE)
        self.assertEqual([verb for verb, _ in cases], self.verbs)
        for verb, words in cases:
            names = {f"--{name}" for name, _ in self.options[verb]} | {f"-{letter}" for _, letter in self.options[verb] if letter}
            self.assertEqual(set(words.split()), names, verb)

    def test_zsh_names_the_options_of_every_verb_and_no_others(self):
        cases = re.findall(r"^    (\w+)\)\n      _arguments \\\n(.*?)\n      ;;", self.completion("zsh"), re.MULTILINE | re.DOTALL)
        self.assertEqual([verb for verb, _ in cases], self.verbs)
        for verb, specifications in cases:
            words = set(re.findall(r"^        '\*?(--?[\w-]+)=?\[", specifications, re.MULTILINE))
            names = {f"--{name}" for name, _ in self.options[verb]} | {f"-{letter}" for _, letter in self.options[verb] if letter}
            self.assertEqual(words, names, verb)

    def test_fish_names_the_options_of_every_verb_and_no_others(self):
        named = {verb: set() for verb in self.verbs}
        line = re.compile(r"^complete -c gpuinfer -n '__gpuinfer_verb_is (\w+)' -l ([\w-]+)(?: -s (\w))?", re.MULTILINE)
        for verb, name, letter in line.findall(self.completion("fish")):
            named[verb].add((name, letter))
        self.assertEqual(named, self.options)

    def test_syntax(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=self.completion(shell), capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_bash_completes(self):
        script = self.write("completion.bash", self.completion("bash"))
        (self.folder / "run one.h5").touch()

        def words(line):
            ask = f'source {script}; COMP_LINE=$1; COMP_POINT=${{#1}}; _gpuinfer; printf "%s\\n" "${{COMPREPLY[@]}}"'
            done = subprocess.run(
                ["bash", "-c", ask, "bash", line], cwd=self.folder, capture_output=True, text=True, check=False
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            return set(done.stdout.split("\n")) - {""}

        self.assertEqual(words("gpuinfer "), set(self.verbs) | {"--version"})
        self.assertEqual(words("gpuinfer doc"), {"doctor"})
        self.assertEqual(words("gpuinfer --bud"), {"--budget"})
        self.assertEqual(words("gpuinfer diff --"), {"--help", "--target", "--all", "--output", "--format"})
        self.assertEqual(words("gpuinfer --target Const"), {"ConstImmediate", "ConstL1", "ConstL15"})
        self.assertEqual(words("gpuinfer infer --target=Out"), {"Outstanding"})
        self.assertEqual(words("gpuinfer --format "), {"yaml", "json"})
        self.assertEqual(words("gpuinfer --budget "), set())
        # Bash replaces what follows the colon.
        self.assertEqual(words("gpuinfer --device virtual:gtx10"), {"gtx1080"})
        self.assertEqual(words("gpuinfer --device recorded:ru"), {"run one.h5"})
        self.assertEqual(words("gpuinfer -o small"), {"small.yaml"})
        self.assertEqual(words("gpuinfer show gtx10"), {"gtx1080"})
        self.assertEqual(words("gpuinfer show sma"), {"small.yaml"})
        self.assertEqual(words("gpuinfer show gtx780 -o sma"), {"small.yaml"})
        self.assertEqual(words("gpuinfer --report sma"), {"small.yaml"})
        self.assertEqual(words("gpuinfer infer run"), {"run one.h5"})
        self.assertEqual(words("gpuinfer list d"), {"devices"})
        self.assertEqual(words("gpuinfer completion "), {"bash", "zsh", "fish"})

    def test_unknown_shell(self):
        self.expect(2, "completion", "csh")
        self.expect(2, "completion")
        self.expect(2, "man", "gpuinfer")


if __name__ == "__main__":
    harness.main()
