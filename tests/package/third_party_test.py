"""What THIRD_PARTY.md must name, and what the wheel's commands are."""

import configparser
import pathlib
import re
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import make_wheel  # noqa: E402: found through the line above
import oarlock  # noqa: E402
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

    def test_each_program_has_a_command_that_becomes_it(self):
        points = configparser.ConfigParser(delimiters="=")
        points.read(ROOT / "python/entry_points.txt")
        commands = dict(points["console_scripts"])
        self.assertEqual(sorted(commands), sorted(make_wheel.PROGRAMS))
        became = []
        execv, oarlock.os.execv = oarlock.os.execv, (
            lambda path, words: became.append((path, words)))
        self.addCleanup(setattr, oarlock.os, "execv", execv)
        for name, where in commands.items():
            module, function = where.split(":")
            self.assertEqual(module, "oarlock")
            getattr(oarlock, function)()
            self.assertEqual(became[-1][0], oarlock.program(name))
            self.assertEqual(became[-1][1],
                             [oarlock.program(name), *sys.argv[1:]])


if __name__ == "__main__":
    unittest.main()
