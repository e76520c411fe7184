"""What THIRD_PARTY.md must name, and what the wheel's commands are."""

import configparser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import make_wheel  # noqa: E402: found through the line above
import oarlock  # noqa: E402
from oarlock import _programs  # noqa: E402
import third_party  # noqa: E402

LICENSES = "oarlock-0.1.0.dist-info/licenses/"


class ThirdPartyTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = (ROOT / "THIRD_PARTY.md").read_text()
        self.rows = dict(
            re.findall(r"^\| `([^`]+)` \| (\S+) \|", self.text, re.M))

    def wheel(self, libraries, without=()):
        """A wheel of empty libraries, with the notices of their packages."""
        wheel = self.folder / "oarlock.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for library in libraries:
                stem, end = library.split(".so", 1)
                archive.writestr(f"oarlock.libs/{stem}-0123abcd.so{end}", "")
            packages = set(self.rows.values()) | set(third_party.HEADERS)
            for package in sorted(packages - set(without)):
                archive.writestr(f"{LICENSES}{package}.copyright", "")
        return wheel

    def check(self, wheel, text=None):
        file = self.folder / "THIRD_PARTY.md"
        file.write_text(text or self.text)
        return third_party.check(wheel, file)

    def assert_fault(self, message, *arguments):
        with self.assertRaisesRegex(third_party.Fault, message):
            self.check(*arguments)

    def test_the_document_names_what_a_wheel_of_its_libraries_carries(self):
        self.assertGreater(len(self.rows), 50)
        self.assertEqual(self.check(self.wheel(self.rows)), len(self.rows))

    def test_a_library_that_is_taken_out_of_the_document_fails(self):
        wheel = self.wheel(self.rows)
        for library in self.rows:
            short = "".join(line for line in self.text.splitlines(True)
                            if f"`{library}`" not in line)
            self.assert_fault("the wheel carries " + re.escape(library),
                              wheel, short)

    def test_a_library_that_is_not_bundled_fails(self):
        rows = sorted(self.rows)
        self.assert_fault("names " + re.escape(rows[0]), self.wheel(rows[1:]))

    def test_a_library_of_nvidia_fails(self):
        rows = [*self.rows, "libcudart.so.13"]
        self.assert_fault("not ours to give on", self.wheel(rows))

    def test_another_licence_fails(self):
        changed = self.text.replace("| librocksdb7.8 | Apache-2.0 |",
                                    "| librocksdb7.8 | GPL-2.0 |")
        self.assertNotEqual(changed, self.text)
        self.assert_fault("another licence for librocksdb7.8",
                          self.wheel(self.rows), changed)

    def test_a_notice_that_the_wheel_lacks_fails(self):
        self.assert_fault("lacks the copyright notice of libdnnl2",
                          self.wheel(self.rows, without=["libdnnl2"]))

    def test_a_package_of_unknown_licence_fails(self):
        with self.assertRaisesRegex(third_party.Fault, "nothing is known"):
            third_party.kind_of("libunheardof1")


class CommandsTest(unittest.TestCase):

    def setUp(self):
        points = configparser.ConfigParser(delimiters="=")
        points.read(ROOT / "python/entry_points.txt")
        self.commands = dict(points["console_scripts"])
        self.program = os.environ["OARLOCK_EXAMPLES"]

    def run_as(self, name, *flags):
        return subprocess.run([name, *flags], executable=self.program,
                              capture_output=True, text=True, timeout=60)

    def examples(self):
        """The names of which the program says that they are legal."""
        done = self.run_as("/usr/bin/oarlock-examples", "--help")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        line, = done.stderr.splitlines()
        said, names = line.split("legal names are ")
        self.assertIn("started as 'oarlock-examples'", said)
        return names.split(", ")

    def test_each_command_becomes_a_program_under_its_name(self):
        examples = self.examples()
        self.assertEqual(
            sorted([*self.commands, "oarlock-examples"]),
            sorted([*make_wheel.PROGRAMS, *examples]))
        became = []
        execve, os.execve = os.execve, (
            lambda path, words, environment: became.append(
                (path, words, environment)))
        self.addCleanup(setattr, os, "execve", execve)
        for name, where in self.commands.items():
            module, function = where.split(":")
            self.assertEqual(module, "oarlock._programs")
            getattr(_programs, function)()
            path, words, environment = became[-1]
            program = "oarlock-examples" if name in examples else name
            self.assertEqual(path, oarlock.program(program))
            self.assertEqual(pathlib.Path(words[0]).name, name)
            self.assertEqual(words[1:], sys.argv[1:])
            self.assertEqual(environment, {
                "OARLOCK_PYTHON": sys.executable, **os.environ})

    def test_the_links_are_the_examples(self):
        listed = re.search(r"^examples=\((.*)\)$",
                           (ROOT / "deploy/programs.sh").read_text(), re.M)
        self.assertEqual(sorted(listed.group(1).split()),
                         sorted(self.examples()))

    def test_an_example_is_chosen_by_the_base_name(self):
        helps = set()
        for name in self.examples():
            done = self.run_as(f"/opt/bin/{name}", "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertEqual(self.run_as(name, "--help").stdout, done.stdout)
            helps.add(done.stdout)
        self.assertEqual(len(helps), len(self.examples()))
        self.assertIn("MNIST", self.run_as("oarlock-mnist", "--help").stdout)

    def test_another_name_is_refused_in_one_line(self):
        for name in ("", "mnist", "oarlock-mnist/", "oarlock-mnist2"):
            done = self.run_as(name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
