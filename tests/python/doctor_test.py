"""`python -m oarlock doctor`: which library and program are used, and why."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from oarlock_testing import ROOT, oarlock

PROGRAM = ROOT / "cli/oarlock"
SUBJECTS = ["interpreter", "package", "library", "program", "numpy"]


class DoctorTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def doctor(self, python=ROOT / "python", home=None, path=None):
        """Exit code and lines: those of the package by subject, then all others."""
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("OARLOCK_HOME", "PYTHONPATH")}
        if home is not None:
            environment["OARLOCK_HOME"] = str(home)
        words = [sys.executable, "-m", "oarlock", "doctor"]
        if path is not None:
            words[1:3] = ["-c", f"import sys; sys.path[:] = {path!r}; "
                          "from oarlock import _programs; _programs.main()"]
        done = subprocess.run(words, cwd=python, env=environment, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        lines = done.stdout.splitlines()
        ours = {}
        for subject, line in zip(SUBJECTS, lines):
            said = re.fullmatch(r"(ok|bad) +" + subject + " +(.*)", line)
            self.assertTrue(said, done.stdout)
            ours[subject] = (said[1], said[2])
        return done.returncode, ours, lines[len(SUBJECTS):]

    def home(self):
        """A folder with both."""
        home = self.scratch / "home"
        for name, target in (("lib/liboarlock.so.1", ROOT / "capi/liboarlock.so.1"),
                             ("bin/oarlock", PROGRAM)):
            (home / name).parent.mkdir(parents=True)
            (home / name).symlink_to(target)
        return home

    def copy(self, version):
        """A package of another release, outside of any tree."""
        shutil.copytree(ROOT / "python/oarlock", self.scratch / "oarlock",
                        ignore=shutil.ignore_patterns("__pycache__"))
        file = self.scratch / "oarlock/__init__.py"
        file.unlink()  # It may be a link to the source.
        text = (ROOT / "python/oarlock/__init__.py").read_text()
        file.write_text(text.replace(f'"{oarlock.__version__}"', f'"{version}"'))

    def test_what_is_found_is_said_with_the_rule_that_found_it(self):
        code, ours, others = self.doctor()
        self.assertEqual({verdict for verdict, _ in ours.values()}, {"ok"}, ours)
        self.assertIn(sys.executable, ours["interpreter"][1])
        version = oarlock.__version__
        tree = "the Bazel tree that the package lies in"
        self.assertEqual(ours["package"][1], f"{version}, {ROOT / 'python/oarlock'}")
        self.assertEqual(ours["library"][1],
                         f"{version}, {ROOT / 'capi/liboarlock.so.1'}, {tree}")
        self.assertEqual(ours["program"][1], f"{version}, {PROGRAM}, {tree}")
        # The program's own lines come then, and its verdict of the machine.
        alone = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True,
                               timeout=60)
        self.assertEqual(code, alone.returncode)
        self.assertEqual([line[:17] for line in others],
                         [line[:17] for line in alone.stdout.splitlines()])

    def test_the_environment_names_the_folder_of_both(self):
        home = self.home()
        _, ours, _ = self.doctor(home=home)
        version = oarlock.__version__
        self.assertEqual(ours["library"], (
            "ok", f"{version}, {home}/lib/liboarlock.so.1, OARLOCK_HOME"))
        self.assertEqual(ours["program"], (
            "ok", f"{version}, {home}/bin/oarlock, OARLOCK_HOME"))

    def test_an_empty_folder_that_is_named_is_a_line_with_what_to_do(self):
        code, ours, others = self.doctor(home=self.scratch)
        self.assertEqual((code, others), (1, []))
        for subject, path in (("library", "lib/liboarlock.so.1"),
                              ("program", "bin/oarlock")):
            verdict, text = ours[subject]
            self.assertEqual(verdict, "bad")
            self.assertIn(str(self.scratch / path), text)
            self.assertRegex(text, "OARLOCK_HOME.*; install the wheel, or the packages")

    def test_a_missing_library_does_not_hide_the_rest(self):
        home = self.home()
        (home / "lib/liboarlock.so.1").unlink()
        code, ours, others = self.doctor(home=home)
        self.assertEqual(code, 1)
        self.assertEqual([subject for subject in ours if ours[subject][0] == "bad"],
                         ["library"])
        self.assertTrue(others)

    def test_versions_that_differ_are_a_line_each(self):
        self.copy("0.0.9")
        code, ours, _ = self.doctor(python=self.scratch, home=self.home())
        self.assertEqual(code, 1)
        for subject in ("library", "program"):
            self.assertEqual(ours[subject][0], "bad")
            self.assertRegex(
                ours[subject][1],
                f"^{re.escape(oarlock.__version__)}, .*, and the package is "
                r"0\.0\.9; install .* of one release")

    def test_numpy_that_is_not_there_is_a_line(self):
        standard = [each for each in sys.path if "-packages" not in each]
        code, ours, _ = self.doctor(path=[str(ROOT / "python"), *standard])
        self.assertEqual(code, 1)
        self.assertEqual(ours["numpy"][0], "bad")
        self.assertIn("install numpy", ours["numpy"][1])
        self.assertEqual(ours["library"][0], "ok")

    def test_any_other_command_is_the_programs(self):
        for words in (["--version"], ["doctor", "--help"]):
            said = [subprocess.run([*command, *words], cwd=ROOT / "python",
                                   capture_output=True, text=True, timeout=60)
                    for command in ([sys.executable, "-m", "oarlock"], [PROGRAM])]
            self.assertEqual(said[0].stdout, said[1].stdout)
            self.assertEqual((said[0].returncode, said[1].returncode), (0, 0))

    def test_a_program_that_is_not_there_is_a_line(self):
        done = subprocess.run([sys.executable, "-m", "oarlock", "train"],
                              cwd=ROOT / "python", capture_output=True, text=True,
                              timeout=60,
                              env={**os.environ, "OARLOCK_HOME": str(self.scratch)})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^oarlock: the program .*/bin/oarlock cannot be "
                         r"started: .*; install .*\n$")


if __name__ == "__main__":
    unittest.main()
