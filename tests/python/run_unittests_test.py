"""What run_unittests.py says of tests that pass, fail and skip."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree as ElementTree

RUNNER = pathlib.Path(__file__).absolute().parent / "run_unittests.py"
DEADLINE_S = 60
THREE = """
    class Three(unittest.TestCase):
        def test_a(self): pass
        def test_b(self): pass
        def test_c(self): pass
"""


class RunUnittestsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.xml = self.folder / "test.xml"

    def start(self, text, **variables):
        """The runner over a file with the text, started."""
        path = self.folder / "some_test.py"
        path.write_text("import unittest\n" + textwrap.dedent(text))
        # Of the Bazel that runs this test nothing holds there.
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("TEST")}
        return subprocess.Popen(
            [sys.executable, "-I", "-B", RUNNER, path], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**inherited, "XML_OUTPUT_FILE": str(self.xml), **variables})

    def run_file(self, text, **variables):
        """Exit code and {name: [(tag, message)]} of the cases."""
        process = self.start(text, **variables)
        self.output, _ = process.communicate(timeout=DEADLINE_S)
        return process.returncode, self.cases()

    def cases(self):
        suite = ElementTree.parse(self.xml).getroot().find("testsuite")
        cases = suite.findall("testcase")
        self.assertEqual(suite.get("tests"), str(len(cases)))
        found = {f"{case.get('classname')}.{case.get('name')}":
                 [(child.tag, child.get("message")) for child in case]
                 for case in cases}
        self.assertEqual(len(found), len(cases))
        return found

    def test_each_method_is_a_case_with_what_became_of_it(self):
        code, cases = self.run_file("""
            class Some(unittest.TestCase):
                def test_passes(self): pass
                def test_fails(self): self.assertEqual(1, 2, "\\x1b<&")
                def test_breaks(self): raise KeyError("x")
                def test_skips(self): self.skipTest("no GPU")
                @unittest.expectedFailure
                def test_fails_as_expected(self): self.fail()
                @unittest.expectedFailure
                def test_passes_unexpectedly(self): pass
        """)
        self.assertEqual(code, 1)
        self.assertEqual(cases, {
            "some_test.Some.test_passes": [],
            "some_test.Some.test_fails":
                [("failure", "AssertionError: 1 != 2 : ?<&")],
            "some_test.Some.test_breaks": [("error", "KeyError: 'x'")],
            "some_test.Some.test_skips": [("skipped", "no GPU")],
            "some_test.Some.test_fails_as_expected": [],
            "some_test.Some.test_passes_unexpectedly":
                [("failure", "passes, and is expected to fail")]})

    def test_what_passes_and_skips_passes(self):
        code, cases = self.run_file("""
            class Some(unittest.TestCase):
                def test_passes(self): pass
                @unittest.skip("not today")
                def test_skips(self): pass
        """)
        self.assertEqual(code, 0, self.output)
        self.assertEqual(cases["some_test.Some.test_skips"],
                         [("skipped", "not today")])

    def test_a_class_that_skips_or_fails_does_for_each_of_its_tests(self):
        code, cases = self.run_file("""
            class Skips(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise unittest.SkipTest("no namespaces")
                def test_a(self): pass
                def test_b(self): pass
            class Breaks(Skips):
                @classmethod
                def setUpClass(cls): raise OSError("no disk")
            class Ends(unittest.TestCase):
                @classmethod
                def tearDownClass(cls): raise OSError("is full")
                def test_c(self): pass
        """)
        self.assertEqual(code, 1)
        skips = [("skipped", "no namespaces")]
        breaks = [("error", "OSError: no disk")]
        self.assertEqual(cases, {
            "some_test.Skips.test_a": skips, "some_test.Skips.test_b": skips,
            "some_test.Breaks.test_a": breaks,
            "some_test.Breaks.test_b": breaks,
            "some_test.Ends.test_c": [],
            "some_test.Ends.tearDownClass": [("error", "OSError: is full")]})

    def test_a_module_that_skips_does_for_each_of_its_tests(self):
        code, cases = self.run_file(
            'def setUpModule(): raise unittest.SkipTest("no disk")' +
            textwrap.dedent(THREE))
        self.assertEqual(code, 0, self.output)
        self.assertEqual(list(cases.values()), 3 * [[("skipped", "no disk")]])
        code, cases = self.run_file('raise unittest.SkipTest("no disk")')
        self.assertEqual(code, 0, self.output)
        self.assertEqual(cases,
                         {"some_test.<file>": [("skipped", "no disk")]})

    def test_a_part_that_fails_or_skips_does_for_the_whole_test(self):
        code, cases = self.run_file("""
            class Some(unittest.TestCase):
                def test_fails(self):
                    for i in range(3):
                        with self.subTest(i=i):
                            self.assertEqual(i, 1)
                def test_skips(self):
                    with self.subTest(i=1):
                        self.skipTest("no part")
        """)
        self.assertEqual(code, 1)
        self.assertEqual(len(cases["some_test.Some.test_fails"]), 2)
        self.assertEqual(cases["some_test.Some.test_skips"],
                         [("skipped", "no part")])

    def test_a_file_that_runs_no_test_fails(self):
        for text, variables in (
                ("", {}), ("import nothing_of_that_name", {}),
                (THREE, {"TESTBRIDGE_TEST_ONLY": "test_d"})):
            with self.subTest(text=text):
                code, cases = self.run_file(text, **variables)
                self.assertEqual(code, 1, self.output)
                [[(tag, _)]] = cases.values()
                self.assertEqual(tag, "error")

    def test_a_filter_chooses_by_parts_of_names_and_by_patterns(self):
        for pattern, names in (("test_b", "b"), ("Three.test_a:test_c", "ac"),
                               ("*_a", "a"), ("some_test", "abc")):
            with self.subTest(pattern=pattern):
                code, cases = self.run_file(
                    THREE, TESTBRIDGE_TEST_ONLY=pattern)
                self.assertEqual(code, 0, self.output)
                self.assertEqual(
                    list(cases), [f"some_test.Three.test_{c}" for c in names])

    def test_shards_run_each_test_once(self):
        ran, status = [], self.folder / "status"
        for index in range(4):
            code, cases = self.run_file(
                THREE, TEST_TOTAL_SHARDS="4", TEST_SHARD_INDEX=str(index),
                TEST_SHARD_STATUS_FILE=str(status))
            self.assertEqual(code, 0, self.output)
            self.assertTrue(status.exists())
            status.unlink()
            ran += cases
        self.assertEqual(
            sorted(ran), [f"some_test.Three.test_{c}" for c in "abc"])

    def test_temporary_files_lie_where_bazel_wants_them(self):
        code, _ = self.run_file("""
            import os
            import tempfile
            class Some(unittest.TestCase):
                def test_folder(self):
                    self.assertEqual(tempfile.gettempdir(),
                                     os.environ["TEST_TMPDIR"])
                    self.assertEqual(os.environ["TMPDIR"],
                                     os.environ["TEST_TMPDIR"])
        """, TEST_TMPDIR=str(self.folder))
        self.assertEqual(code, 0, self.output)

    def test_at_the_end_of_its_time_a_test_cleans_up_and_no_other_begins(self):
        begun, cleaned = self.folder / "begun", self.folder / "cleaned"
        os.mkfifo(begun)
        reader = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        process = self.start(f"""
            import pathlib, signal
            class Some(unittest.TestCase):
                def test_a(self):
                    self.addCleanup(pathlib.Path({str(cleaned)!r}).touch)
                    pathlib.Path({str(begun)!r}).write_text("begun")
                    signal.pause()
                def test_b(self): pass
        """)
        self.assertTrue(select.select([reader], [], [], DEADLINE_S)[0])
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 1, output)
        self.assertTrue(cleaned.exists(), output)
        cases = self.cases()
        self.assertEqual(
            cases["some_test.Some.test_a"],
            [("error", "SystemExit: the time of this test is over")])
        self.assertEqual(cases["some_test.Some.test_b"],
                         [("error", "was not run")])


if __name__ == "__main__":
    unittest.main()
