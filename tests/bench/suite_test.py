"""bench/suite/run.py with programs that are scripts: a row without figures says
why, and the others go on."""

import contextlib
import io
import json
import pathlib
import re
import stat
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "bench/suite"))

import figures  # noqa: E402: in bench/suite
import markdown  # noqa: E402
import programs  # noqa: E402
import rows as bench  # noqa: E402
import run  # noqa: E402
import turns as bench_turns  # noqa: E402

# As bench/common/repetitions.h: "dies" is a name that ends it.
SERVES = """#!{python} -I
import sys
print('{{"ready": true}}', flush=True)
for line in sys.stdin:
    if line.strip() == "dies":
        sys.exit(7)
    print('{{"name": "", "figures": {{"speed": 2}}}}', flush=True)
"""

# An `oarlock` that writes the summary of a run, or refuses bfloat16.
OARLOCK = """#!{python} -I
import pathlib, sys
words = dict(zip(sys.argv, sys.argv[1:]))
if words.get("--dense_math") == "bfloat16":
    print("oarlock train: {refusal}", file=sys.stderr)
    sys.exit({exit_code})
if "train" in words:
    logs = pathlib.Path(words["--log_dir"])
    logs.mkdir(exist_ok=True)
    (logs / "summary.json").write_text('{{"examples_per_second": 5}}')
"""

CEILING = """#!{python} -I
print("dense ceiling: 10 examples/s median of 7")
"""


def plain_row(name, measurement="speed", **options):
    return bench.Row(name=name, unit="1/s", warm_up=False, ours=bench.Of(
        "serves", measurement, bench.plain("speed")), **options)


class SuiteTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.built = pathlib.Path(folder.name)
        self.json = self.built / "rows.json"
        self.write("bench/serves", SERVES)
        self.write("bench/dense/dense_ceiling", CEILING)
        self.write_oarlock(programs.NO_BFLOAT16)

    def write(self, path, text, **values):
        path = self.built / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(python=sys.executable, **values),
                        encoding="utf-8")
        path.chmod(stat.S_IRWXU)

    def write_oarlock(self, refusal, exit_code=1):
        self.write("cli/oarlock", OARLOCK, refusal=refusal,
                   exit_code=exit_code)

    def run_main(self, section, *flags):
        """Exit code, rows of the JSON file, what was printed."""
        printed = io.StringIO()
        with mock.patch.object(bench, "all_sections", lambda: [section]), \
                mock.patch.object(sys, "argv", [
                    "run.py", "--turns", "3", "--json", str(self.json),
                    *flags]), \
                contextlib.redirect_stdout(printed):
            exit_code = run.main()
        return (exit_code, json.loads(self.json.read_text(encoding="utf-8")),
                printed.getvalue())

    def section(self, *rows):
        return bench.Section("fake", {
            "serves": bench.Starter(
                [], lambda built, quick: programs.Program(
                    "bench/serves", built=self.built)),
            "training": bench.Starter(
                [], lambda built, quick: programs.Training(10, self.built)),
            "absent": bench.Starter(
                [], lambda built, quick: programs.Program(
                    "bench/absent", built=self.built)),
        }, list(rows))

    def training_rows(self):
        return [bench.ctr_dnn(512, math, None, [])
                for math in ("bfloat16", "float32")]

    def test_a_row_that_this_cpu_cannot_run_says_so_and_the_rest_goes_on(self):
        exit_code, rows, printed = self.run_main(
            self.section(*self.training_rows(), plain_row("last")))
        self.assertEqual(exit_code, 0)
        self.assertEqual(rows[0]["reason"],
                         f"not on this CPU: {programs.NO_BFLOAT16}")
        self.assertIsNone(rows[0]["ours"])
        self.assertEqual(rows[0]["turns"], 0)
        self.assertEqual([row["ours"] for row in rows[1:]], [5, 2])
        self.assertEqual(rows[1]["ratio_to_limit"], .5)
        self.assertIsNone(rows[2]["reason"])
        self.assertRegex(printed, "bfloat16 +not on this CPU: ")
        self.assertRegex(printed, r"2 rows in \d+ s; 1 not measured, 0 failed")

    def test_another_failure_of_bfloat16_is_not_taken_for_the_cpu(self):
        for refusal, code in (("the disk is full", 1),
                              (programs.NO_BFLOAT16, 2)):
            with self.subTest(refusal=refusal, code=code):
                self.write_oarlock(refusal, code)
                exit_code, rows, _ = self.run_main(
                    self.section(*self.training_rows()))
                self.assertEqual(exit_code, 1)
                self.assertRegex(rows[0]["reason"],
                                 f"^failed: .*exit code {code}: .*{refusal}")
                self.assertEqual(rows[1]["ours"], 5)

    def test_the_sentence_that_is_looked_for_is_the_products(self):
        source = (ROOT / "nn/onednn/onednn_backend.cc").read_text(
            encoding="utf-8")
        self.assertIn(programs.NO_BFLOAT16, re.sub(r'"\s+"', "", source))

    def test_a_failing_row_does_not_lose_the_others(self):
        broken = bench.Row(
            name="broken", unit="1/s", warm_up=False,
            ours=bench.Of("serves", "speed", lambda figures: 1 / 0))
        absent = bench.Row(name="absent", unit="1/s", ours=bench.Of(
            "absent", "speed", bench.plain("speed")))
        exit_code, rows, printed = self.run_main(self.section(
            plain_row("first"), plain_row("dead", "dies"), absent, broken,
            plain_row("last")))
        self.assertEqual(exit_code, 1)
        self.assertEqual([row["ours"] for row in rows],
                         [2, None, None, None, 2])
        self.assertEqual(rows[1]["reason"], "failed: bench/serves ended with "
                         "exit code 7; run it by hand")
        self.assertRegex(rows[2]["reason"],
                         "^failed: .*bench/absent does not start: No such")
        self.assertRegex(rows[3]["reason"], "^failed: ZeroDivisionError: ")
        self.assertRegex(printed, r"2 rows in \d+ s; 0 not measured, 3 failed")

    def test_a_row_that_looks_at_the_one_before_measures_where_it_failed(self):
        looks = plain_row("looks", seen_by_the_row_before=True)
        exit_code, rows, _ = self.run_main(
            self.section(plain_row("before", "dies"), looks))
        self.assertEqual(exit_code, 1)
        self.assertEqual((rows[1]["ours"], rows[1]["turns"]), (2, 3))

    def test_a_row_that_looks_at_the_one_before_has_its_turns(self):
        before = plain_row("before", repetitions=1)
        before.warm_up = True  # which is no turn
        looks = plain_row("looks", seen_by_the_row_before=True)
        _, rows, _ = self.run_main(self.section(before, looks))
        self.assertEqual([row["turns"] for row in rows], [1, 1])

    def test_a_row_that_is_left_out_says_so(self):
        exit_code, rows, printed = self.run_main(
            self.section(plain_row("long", full_only=True), plain_row("short")),
            "--quick")
        self.assertEqual(exit_code, 0)
        self.assertEqual(rows[0]["reason"], "left out of a quick run")
        self.assertRegex(printed, "long +left out of a quick run")

    def test_rows_without_figures_have_a_line_in_the_table(self):
        row = figures.without_figures("name", "us", "failed: why")
        self.assertEqual(markdown.cells(row), ["name", "failed: why", "", ""])

    def test_an_unknown_row_is_one_line_and_exit_code_2(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), \
                self.assertRaises(SystemExit) as end:
            run.parsed(["--only", "nothing"])
        self.assertEqual(end.exception.code, 2)
        self.assertEqual(errors.getvalue().count("\n"), 1)
        self.assertIn("no row has 'nothing' in its name; legal are lookup "
                      "uniform 1T; ", errors.getvalue())

    def test_what_is_built_for_a_row_is_what_its_programs_need(self):
        _, sections, _ = run.parsed(["--only", "client"])
        self.assertEqual(bench.targets(sections, lambda row: True), [
            "//bench/client:key_batch_bench", "//bench/client:sort_unique"])


class PaceTest(unittest.TestCase):

    def setUp(self):
        self.now = 100.0
        self.pace = bench_turns.Pace(40, 4, clock=lambda: self.now)

    def spend(self, seconds):
        self.now += seconds
        return self.pace.is_over()

    def test_a_row_has_an_equal_share_of_what_is_left(self):
        self.pace.begin_row()
        self.assertFalse(self.spend(9))
        self.assertTrue(self.spend(1))
        self.pace.begin_row()
        self.assertFalse(self.spend(3))  # 7 s are for the two to come
        self.pace.begin_row()
        self.assertFalse(self.spend(13))
        self.assertTrue(self.spend(1))

    def test_what_its_programs_took_to_start_is_all_rows_time(self):
        self.pace.begin_row()
        self.spend(12)
        self.pace.begin_turns()
        self.assertFalse(self.spend(6))
        self.assertTrue(self.spend(1))
        self.pace.begin_row()
        self.assertFalse(self.spend(6))
        self.assertTrue(self.spend(1))

    def test_after_the_time_every_row_is_over_at_once(self):
        self.pace.begin_row()
        self.assertTrue(self.spend(50))
        self.pace.begin_row()
        self.assertTrue(self.pace.is_over())

    def test_a_row_whose_time_is_over_makes_the_least_turns(self):
        row = plain_row("slow")
        measured = []

        class Running:
            def forget(self):
                pass

            def measure(self, of):
                measured.append(of)
                return 1.0

        self.spend(50)
        self.pace.begin_row()
        turns = bench_turns.Turns(row, Running(), 7, {}, self.pace)
        self.assertEqual(len(turns.values["ours"]), bench_turns.Turns.LEAST)
        self.assertEqual(len(measured), bench_turns.Turns.LEAST)


if __name__ == "__main__":
    unittest.main()
