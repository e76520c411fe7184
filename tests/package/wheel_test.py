"""What the wheel says of itself, and that a checkout installs as the same package."""

import configparser
import email
import pathlib
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import make_wheel  # noqa: E402: found through the line above
import oarlock  # noqa: E402


class WheelTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        scratch = pathlib.Path(scratch.name)
        programs = scratch / "programs"
        programs.mkdir()
        for name in (*make_wheel.PROGRAMS, make_wheel.LIBRARY):
            (programs / name).write_bytes(b"")
        make_wheel.stage(scratch / "staged", programs, oarlock.__version__)
        self.folder = scratch / "staged"
        self.metadata = email.message_from_string(
            (self.folder / f"oarlock-{oarlock.__version__}.dist-info/METADATA")
            .read_text())
        with (ROOT / "python/pyproject.toml").open("rb") as file:
            self.checkout = tomllib.load(file)

    def test_it_wants_numpy_alone_and_says_from_which_python_on(self):
        self.assertEqual(self.metadata.get_all("Requires-Dist"), ["numpy"])
        self.assertEqual(self.metadata["Requires-Python"], ">=3.9")
        self.assertEqual(self.metadata["Version"], oarlock.__version__)

    def test_it_has_the_whole_package_with_its_types(self):
        wanted = {path.name for path in (ROOT / "python/oarlock").glob("*.py")}
        self.assertIn("_doctor.py", wanted)
        wanted |= {"py.typed", "bin", "lib", "share"}
        have = {path.name for path in (self.folder / "oarlock").iterdir()}
        self.assertEqual(have, wanted)
        self.assertTrue((self.folder / "oarlock/lib/liboarlock.so.1").is_file())
        self.assertTrue((self.folder / "oarlock/bin/oarlock").is_file())

    def test_another_version_than_the_packages_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "__init__.py says.*99.0.0"):
            make_wheel.stage(self.folder / "another", self.folder, "99.0.0")

    def test_a_checkout_installs_as_the_same_package(self):
        project = self.checkout["project"]
        self.assertEqual(project["name"], self.metadata["Name"])
        self.assertEqual(project["dependencies"],
                         self.metadata.get_all("Requires-Dist"))
        self.assertEqual(project["requires-python"], self.metadata["Requires-Python"])
        self.assertEqual(project["description"], self.metadata["Summary"])
        dynamic = self.checkout["tool"]["setuptools"]["dynamic"]
        self.assertEqual(dynamic["version"], {"attr": "oarlock.__version__"})
        points = configparser.ConfigParser(delimiters="=")
        points.read(ROOT / "python" / dynamic["entry-points"]["file"])
        self.assertIn("oarlock", points["console_scripts"])


if __name__ == "__main__":
    unittest.main()
