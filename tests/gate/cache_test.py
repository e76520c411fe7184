"""The compile cache: what goes first, and when."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).absolute().parents[2]
MEGABYTE = 10**6


class TrimTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.cache = self.root / "0123456789abcdef" / "cas"
        self.cache.mkdir(parents=True)

    def write(self, name, written_at, read_at=None, folder=None):
        """A file of a megabyte that was written, and read, so long ago."""
        path = (folder or self.cache) / name
        path.write_bytes(b"x" * MEGABYTE)
        os.utime(path, (written_at if read_at is None else read_at,
                        written_at))
        return path

    def trim(self, max_mb):
        return subprocess.run(
            [sys.executable, "-I", ROOT / "bazel" / "trim_cache.py", self.root,
             "--max_mb", str(max_mb)], capture_output=True, text=True)

    def names(self):
        return sorted(path.name for path in self.cache.iterdir())

    def test_what_was_not_read_for_longest_goes_first(self):
        self.write("old_but_read", 100, read_at=900)
        self.write("young", 500)
        self.write("old", 200)
        self.assertEqual(self.trim(2).returncode, 0)
        self.assertEqual(self.names(), ["old_but_read"])

    def test_nothing_goes_below_the_limit(self):
        self.write("a", 100)
        self.write("b", 200)
        self.trim(3)
        self.assertEqual(self.names(), ["a", "b"])

    def test_a_read_between_two_runs_is_seen(self):
        first = self.write("first", 100)
        self.write("second", 200)
        self.trim(10)
        status = os.stat(first)
        # relatime moves an access time only where it is not after the time of
        # modification.
        self.assertLess(status.st_atime, status.st_mtime)
        os.utime(first, (300, status.st_mtime))  # a read
        self.trim(2)
        self.assertEqual(self.names(), ["first"])

    def test_the_time_of_a_read_is_kept_over_runs(self):
        self.write("read_once", 100, read_at=900)
        self.write("young", 500)
        for _ in range(3):
            self.trim(10)
        self.trim(2)
        self.assertEqual(self.names(), ["read_once"])

    def test_files_of_others_stay_and_do_not_count(self):
        other = self.root / "venv"
        other.mkdir()
        self.write("library", 1, folder=other)
        self.write("a", 100)
        self.trim(2)
        self.assertTrue((other / "library").exists())
        self.assertEqual(self.names(), ["a"])

    def test_a_limit_that_is_no_number_is_refused_with_one_line(self):
        done = self.trim("lots")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^cache: .*'lots'.*legal is.*\n$")


class FlagTest(unittest.TestCase):

    def flag(self, *arguments, **variables):
        return subprocess.run(
            [ROOT / "bazel" / "cache.sh", *arguments], text=True,
            capture_output=True, env={"PATH": os.environ["PATH"], **variables})

    def test_the_cache_lies_where_the_user_keeps_caches(self):
        with tempfile.TemporaryDirectory() as home:
            line = self.flag(HOME=home).stdout
            self.assertRegex(
                line, rf"^--disk_cache={home}/\.cache/oarlock/[0-9a-f]{{16}}\n$")
            line = self.flag(HOME="/nowhere", XDG_CACHE_HOME=home).stdout
            self.assertTrue(line.startswith(f"--disk_cache={home}/oarlock/"))

    def test_it_can_be_turned_off(self):
        done = self.flag(HOME="/nowhere", OARLOCK_CACHE="0")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_without_a_home_there_is_none(self):
        done = self.flag()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("cache: off", done.stderr)

    def test_another_compiler_has_another_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other"
            other.write_text("#!/bin/sh\necho another version\n")
            other.chmod(0o755)
            self.assertNotEqual(self.flag("digest").stdout,
                                self.flag("digest", CC=str(other)).stdout)

    def test_what_it_does_not_know_is_refused_with_one_line(self):
        done = self.flag("bogus")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^cache: .*'bogus'.*legal are.*\n$")


if __name__ == "__main__":
    unittest.main()
