"""bench/compare.sh and bench/suite/old_against_new.py: who measures when, what
the ratio is, and when "at least" holds."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "bench/suite"))

import old_against_new as compare  # noqa: E402: in bench/suite
import programs  # noqa: E402
import rows as bench  # noqa: E402

BUILT = {compare.OLD: "old", compare.NEW: "new"}


class Fake:
    """A program that says what it was asked for, and what it is told to."""

    def __init__(self, built, actions, respond):
        self.built, self.actions, self.respond = built, actions, respond
        actions.append(("start", built))

    def measure(self, name):
        self.actions.append((name, self.built))
        response = self.respond(self.built, name)
        if isinstance(response, Exception):
            raise response
        return {"speed": response, "slowness": 1 / response}

    def close(self):
        self.actions.append(("end", self.built))


def row(name, measurement, figure="speed", **options):
    options = {"warm_up": False} | options
    return bench.Row(name=name, unit="1/s", ours=bench.Of(
        "fake", measurement, bench.plain(figure)), **options)


def compared(rows, turns, respond):
    """Summaries and the actions of all programs."""
    actions = []
    section = bench.Section("fake", {"fake": bench.Starter(
        [], lambda built, quick: Fake(built, actions, respond))}, rows)
    return [compare.summary(one, compare.BOUND) for one in compare.compare(
        section, BUILT, turns, quick=True)], actions


class CompareTest(unittest.TestCase):

    def test_turns_alternate_and_each_round_begins_with_the_other(self):
        _, actions = compared([row("a", "a")], 8, lambda built, name: 1.0)
        of_turns = [built for what, built in actions if what == "a"]
        one, other = "old new new old old new new old".split(), \
            "new old old new new old old new".split()
        self.assertEqual(of_turns, one + other)

    def test_programs_start_anew_each_round_and_are_ended(self):
        _, actions = compared([row("a", "a"), row("b", "b")], 8,
                              lambda built, name: 1.0)
        for what in ("start", "end"):
            self.assertEqual(
                sorted(built for event, built in actions if event == what),
                ["new", "new", "old", "old"])

    def test_a_warm_up_is_not_counted(self):
        calls = []

        def respond(built, name):
            calls.append(built)
            return 100.0 if calls.count(built) == 1 else 2.0

        [result], _ = compared([row("a", "a", warm_up=True)], 4, respond)
        self.assertEqual((result["old"], result["new"], result["turns"]),
                         (2, 2, 4))
        self.assertEqual(len(calls), 2 * (4 + 1))

    def test_rows_of_one_measurement_make_it_once(self):
        results, actions = compared(
            [row("a", "m"), row("b", "m", "slowness", more_is_better=False)],
            4, lambda built, name: 4.0 if built == "new" else 2.0)
        self.assertEqual(len([1 for what, _ in actions if what == "m"]), 8)
        self.assertEqual([result["ratio"] for result in results], [2, 2])
        self.assertEqual([result["new"] for result in results], [4, .25])

    def test_the_ratio_is_that_of_speeds_turn_by_turn(self):
        speeds = {"old": iter([1.0, 2, 4, 8]), "new": iter([2.0, 2, 2, 8])}
        [result], _ = compared([row("a", "a")], 4,
                               lambda built, name: next(speeds[built]))
        # 2, 1, .5 and 1.
        self.assertEqual(result["ratio"], 1)
        self.assertEqual(result["spread"], [.875, 1.25])

    def test_at_least_wants_the_median_and_the_upper_quartile(self):
        self.assertTrue(compare.holds([.97, .97, 1.0, 1.0], .97))
        self.assertFalse(compare.holds([.96, .96, .96, 1.2], .97))
        self.assertFalse(compare.holds([.98, .98, .98, .999], .97))
        self.assertTrue(compare.holds([.91, .91, 1.0, 1.0, 1.0], .9))

    def test_a_row_that_fails_on_one_side_does_not_lose_the_others(self):
        def respond(built, name):
            if (built, name) == ("old", "a"):
                return programs.Failed("no such thing")
            return 3.0

        results, _ = compared([row("a", "a"), row("b", "b")], 4, respond)
        self.assertEqual(results[0]["reason"], "failed: no such thing (old)")
        self.assertIsNone(results[0]["holds"])
        self.assertEqual((results[1]["ratio"], results[1]["holds"]), (1, True))

    def test_a_figure_that_the_old_build_lacks_is_a_reason(self):
        [result], _ = compared([row("a", "a", "unheard")], 4,
                               lambda built, name: 1.0)
        self.assertEqual(result["reason"], "failed: fake has no figure "
                         "'unheard' of 'a' (old)")

    def test_a_row_that_this_cpu_cannot_run_says_so(self):
        results, actions = compared(
            [row("a", "a"), row("b", "b")], 8, lambda built, name:
            programs.NotOnThisCpu("none") if name == "a" else 1.0)
        self.assertEqual(results[0]["reason"],
                         "not on this CPU: none (old)")
        self.assertIn("not on this CPU", compare.line_of(results[0]))
        self.assertEqual(results[1]["turns"], 8)
        self.assertEqual([what for what, _ in actions].count("a"), 1)

    def test_a_line_says_medians_ratio_quartiles_and_verdict(self):
        [result], _ = compared([row("a", "a")], 4, lambda built, name:
                               1.0 if built == "new" else 2.0)
        self.assertRegex(compare.line_of(result), (
            r"^a +old 2, new 1 1/s; new/old 0\.500 \(0\.500 to 0\.500, "
            r"4 turns\); at least 0\.97: DOES NOT HOLD$"))


class CommandLineTest(unittest.TestCase):

    def test_rows_are_texts_in_names_or_sections(self):
        args, sections = compare.parsed(
            ["HEAD", "insert 1T, longest call", "client", "--bound", ".9"])
        self.assertEqual((args.old_commit, args.bound), ("HEAD", .9))
        self.assertEqual(bench.names(sections), [
            "insert 1T, longest call", "insert 1T, longest call, its CPU time",
            "deduplicate 13,312 zipf keys", "merge 13,312 zipf keys"])
        self.assertEqual(compare.targets(sections), [
            "//bench/client:key_batch_bench",
            "//bench/sparse_table:table_bench"])

    def test_without_rows_all_are_compared(self):
        _, sections = compare.parsed(["HEAD"])
        self.assertEqual(bench.names(sections),
                         bench.names(bench.all_sections()))

    def test_what_is_wrong_is_one_line_and_exit_code_2(self):
        for arguments, said in (
                ([], "OLD_COMMIT is missing"),
                (["HEAD", "nothing"], "no row has 'nothing' in its name; "
                                      "legal are lookup uniform 1T; "),
                (["HEAD", "client", "--bound", "0"], "above 0 and below 100"),
                (["HEAD", "client", "--turns", "1"], "at least 2")):
            with self.subTest(arguments=arguments):
                errors = io.StringIO()
                with contextlib.redirect_stderr(errors), \
                        self.assertRaises(SystemExit) as end:
                    compare.parsed(arguments)
                self.assertEqual(end.exception.code, 2)
                self.assertEqual(errors.getvalue().count("\n"), 1)
                self.assertIn(said, errors.getvalue())


# "Builds" a program that takes as many us as the file us_per_batch says.
BAZEL = """#!/bin/bash
case " $* " in *" build "*) ;; *) exit 0 ;; esac
echo "$PWD: $*" >>"$BUILDS"
mkdir -p bazel-bin/bench/client
cat >bazel-bin/bench/client/key_batch_bench <<END
#!/bin/bash
echo '{"ready": true}'
while read -r name; do
  echo '{"name": "", "figures": {"us_per_batch": '$(cat us_per_batch)'}}'
done
END
chmod +x bazel-bin/bench/client/key_batch_bench
"""


class ScriptTest(unittest.TestCase):
    """bench/compare.sh in a repository of its own, with a Bazel that is a
    script."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name).resolve()
        self.kept = folder / "cache/oarlock/compare"
        self.builds = folder / "builds"
        bazel = folder / "tools/bazel"
        bazel.parent.mkdir()
        bazel.write_text(BAZEL, encoding="utf-8")
        bazel.chmod(0o755)
        self.environment = {
            "PATH": f"{bazel.parent}:{os.environ['PATH']}",
            "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"),
            "BUILDS": str(self.builds)}
        self.tree = folder / "tree"
        (self.tree / "bench/suite").mkdir(parents=True)
        shutil.copy(ROOT / "bench/compare.sh", self.tree / "bench")
        for path in (ROOT / "bench/suite").glob("*.py"):
            shutil.copy(path, self.tree / "bench/suite")
        (self.tree / ".gitignore").write_text("bazel-bin\n__pycache__\n",
                                              encoding="utf-8")
        self.git("init", "--quiet")

    def git(self, *words):
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *words],
            cwd=self.tree, env=self.environment, check=True, text=True,
            stdout=subprocess.PIPE).stdout.strip()

    def commit(self, us_per_batch):
        (self.tree / "us_per_batch").write_text(f"{us_per_batch}\n",
                                                encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "more")
        return self.git("rev-parse", "HEAD")

    def compare(self, *words):
        """Exit code, stdout, stderr."""
        end = subprocess.run(
            [self.tree / "bench/compare.sh", "--turns", "2", *words],
            env=self.environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, check=False)
        return end.returncode, end.stdout, end.stderr

    def test_the_other_commit_is_built_beside_this_tree(self):
        old, new = self.commit(30), self.commit(20)
        code, printed, errors = self.compare(old, "deduplicate")
        self.assertEqual((code, errors), (0, ""))
        self.assertIn(f"old {old}\nnew {new}\n", printed)
        self.assertIn("old 30, new 20 us; new/old 1.500", printed)
        self.assertEqual(self.git("status", "--porcelain"), "")
        builds = self.builds.read_text(encoding="utf-8").splitlines()
        self.assertEqual([line.split(":")[0] for line in builds],
                         [str(self.kept / old / "tree"), str(self.tree)])
        self.assertIn(" //bench/client:key_batch_bench", builds[0])

    def test_what_is_not_committed_is_measured_and_said(self):
        old = self.commit(30)
        (self.tree / "us_per_batch").write_text("60\n", encoding="utf-8")
        code, printed, _ = self.compare("HEAD", "deduplicate")
        self.assertEqual(code, 1)
        self.assertIn(f"new {old} and what is not committed\n", printed)
        self.assertIn("new/old 0.500 (0.500 to 0.500, 2 turns); at least 0.97: "
                      "DOES NOT HOLD", printed)
        self.assertEqual(self.compare("--bound", ".5", "HEAD", "merge")[0], 1)

    def test_the_last_four_commits_stay(self):
        commits = [self.commit(30) for _ in range(5)]
        for i, commit in enumerate(commits):
            self.assertEqual(self.compare(commit, "deduplicate")[0], 0)
            # Folders' times differ, though a run takes less than a second.
            os.utime(self.kept / commit, (i, i))
        self.assertEqual({path.name for path in self.kept.glob("?" * 40)},
                         set(commits[1:]))
        listed = self.git("worktree", "list", "--porcelain")
        self.assertEqual(listed.count("worktree "), 1 + 4)

    def test_a_folder_that_is_no_worktree_any_more_is_made_anew(self):
        old = self.commit(30)
        self.assertEqual(self.compare(old, "deduplicate")[0], 0)
        (self.kept / old / "tree/.git").unlink()
        code, printed, _ = self.compare(old, "deduplicate")
        self.assertEqual(code, 0)
        self.assertIn("new/old 1.000", printed)

    def test_an_unknown_commit_is_refused_before_anything_is_built(self):
        self.commit(30)
        code, printed, errors = self.compare("no-such-commit", "client")
        self.assertEqual((code, printed), (2, ""))
        self.assertEqual(errors, "bench/compare.sh: 'no-such-commit' is no "
                         "commit of this repository; see git log\n")
        self.assertFalse(self.builds.exists())


if __name__ == "__main__":
    unittest.main()
