"""What the gate counts, and what fails it."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402: found through the line above

LABEL = "//tests/base:mix_test"
PASSING = '<testcase name="Mixes" classname="MixTest" status="run"/>'
SKIPPING = ('<testcase name="Mixes" classname="MixTest" status="run">'
            '<skipped message="tests/base/mix_test.cc:9&#x0A;no GPU: none">'
            "</skipped></testcase>")
FAILING = ('<testcase name="Mixes" classname="MixTest" status="run">'
           '<failure message="mix_test.cc:9&#x0A;1 is not 2"/></testcase>')


class CasesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.events = []
        (self.folder / "allowed").write_text("# none\n")

    def add_target(self, *testcases, status="PASSED", label=LABEL, suite="Mix",
                   attempts=1, **result):
        """A target as Bazel tells of it, with a test.xml of these cases."""
        self.events.append(
            {"id": {"targetConfigured": {"label": label}},
             "configured": {"targetKind": "cc_test rule",
                            "testSize": "SMALL"}})
        for attempt in range(1, attempts + 1):
            name = f"{len(self.events)}.xml"
            (self.folder / name).write_text(
                f'<testsuites><testsuite name="{suite}">' +
                "".join(testcases) + "</testsuite></testsuites>")
            self.events.append(
                {"id": {"testResult": {"label": label, "run": 1, "shard": 1,
                                       "attempt": attempt}},
                 "testResult": {"testActionOutput": [
                     {"name": "test.xml",
                      "uri": f"file://{self.folder}/{name}"}], **result}})
        self.events.append(
            {"id": {"testSummary": {"label": label}},
             "testSummary": {"overallStatus": status}})

    def allow(self, *lines):
        (self.folder / "allowed").write_text("".join(
            line + "\n" for line in lines))

    def call(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = cases.main([str(one) for one in arguments])
        return code, out.getvalue()

    def run_gate(self, *flags):
        """The exit codes of tests and of finish, and the last line."""
        bep = self.folder / "bep"
        bep.write_text("".join(json.dumps(e) + "\n" for e in self.events))
        results = self.folder / "results"
        code, self.printed = self.call(
            "tests", results, bep, "--allowed", self.folder / "allowed", *flags)
        end, text = self.call("finish", results)
        self.assertEqual(code, end)
        return code, text.splitlines()[-1]

    def test_cases_are_counted_not_targets(self):
        self.add_target(PASSING, PASSING.replace("Mixes", "Spreads"))
        self.assertEqual(self.run_gate(), (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_failed_case_is_one_failure(self):
        self.add_target(PASSING, FAILING, status="FAILED")
        self.assertEqual(self.run_gate(), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("1 is not 2", self.printed)

    def test_a_flaky_target_fails(self):
        self.add_target(PASSING, status="FLAKY", attempts=2)
        self.assertEqual(self.run_gate(), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FLAKY", self.printed)

    def test_a_skip_that_nobody_allowed_fails(self):
        self.add_target(SKIPPING)
        self.assertEqual(self.run_gate(), (1, "0 passed, 1 failed, 0 skipped"))

    def test_an_allowed_skip_is_counted_as_one(self):
        self.add_target(SKIPPING)
        self.allow(f"{LABEL} MixTest.Mixes | no GPU: none")
        self.assertEqual(self.run_gate(), (0, "0 passed, 0 failed, 1 skipped"))

    def test_a_skip_with_another_reason_fails(self):
        self.add_target(SKIPPING)
        self.allow(f"{LABEL} MixTest.Mixes | no GPU: it is Sunday")
        self.assertEqual(self.run_gate()[0], 1)

    def test_a_disabled_case_is_a_skip(self):
        self.add_target(PASSING.replace('"run"', '"notrun"'))
        self.assertEqual(self.run_gate(), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_cached_result_counts_by_hand_and_is_reported(self):
        self.add_target(PASSING, cachedLocally=True)
        self.assertEqual(self.run_gate(), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertIn("1 of 1 tests cached", self.printed)

    def test_a_cached_result_fails_where_everything_is_to_run(self):
        for place in ({"cachedLocally": True},
                      {"executionInfo": {"cachedRemotely": True}}):
            with self.subTest(place):
                self.setUp()
                self.add_target(PASSING, **place)
                self.assertEqual(self.run_gate("--fresh")[0], 1)

    def test_a_program_that_runs_no_test_fails(self):
        self.add_target()
        self.assertEqual(self.run_gate(), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_program_that_says_nothing_of_its_cases_fails(self):
        self.add_target('<testcase name="tests/base/mix_test"/>',
                        suite="tests/base/mix_test")
        self.assertEqual(self.run_gate()[0], 1)

    def test_a_target_that_timed_out_fails(self):
        self.add_target(PASSING, status="TIMEOUT")
        self.assertEqual(self.run_gate(), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_target_that_was_not_run_fails(self):
        self.add_target(PASSING)
        del self.events[1:]
        self.assertEqual(self.run_gate()[0], 1)
        self.assertIn("was not run", self.printed)

    def test_no_target_at_all_fails(self):
        self.assertEqual(self.run_gate()[0], 1)

    def test_a_line_of_the_list_that_is_none_is_an_error(self):
        self.add_target(SKIPPING)
        self.allow(f"{LABEL} * | no GPU")
        self.assertEqual(self.run_gate()[0], 1)  # no patterns: it is a name
        self.allow("everything")
        with self.assertRaisesRegex(SystemExit, "legal is"):
            self.run_gate()


if __name__ == "__main__":
    unittest.main()
