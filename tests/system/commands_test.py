"""Commands for whoever has just installed Oarlock."""

import os
import re
import subprocess
import unittest

import harness

ROWS = 24000


class QuickstartTest(harness.SystemTest):

    def start_quickstart(self, *flags, **variables):
        return self.start(harness.oarlock(), "quickstart", *flags, **variables)

    def test_it_trains_shows_a_curve_and_leaves_nothing(self):
        os.mkdir(self.path("tmp"))
        job = self.await_success(self.start_quickstart(
            "--rows", str(ROWS), TMPDIR=self.path("tmp")))
        points = re.findall(r"(?m)^ +(\d+)  (0\.\d{4})  \|=* *\|$", job.stdout)
        self.assertGreaterEqual(len(points), 2, self.report())
        # The last one is of the whole phase.
        self.assertEqual(int(points[-1][0]), ROWS * 7 // 8, self.report())
        self.assertGreater(float(points[-1][1]), 0.52, self.report())
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assert_nothing_runs()

    def test_it_keeps_data_and_logs_where_it_is_told(self):
        job = self.await_success(self.start_quickstart(
            "--rows", str(ROWS), "--dir", "demo"))
        self.assertIn("Data are in demo/data, logs and summary.json in "
                      "demo/logs.", job.stdout)
        self.assertEqual(len(os.listdir(self.path("demo", "data"))), 8)
        self.assertEqual(self.summary("demo/logs")["workers"], 2)

    def test_the_commands_that_it_ends_with_can_be_run(self):
        job = self.await_success(self.start_quickstart("--rows", "1000"))
        block = job.stdout.partition("\nnext\n")[2].replace("\\\n", " ")
        commands = re.findall(r"(?m)(?:^|  )(oarlock [a-z].*)$", block)
        self.assertGreaterEqual(len(commands), 3, self.report())
        os.mkdir(self.path("bin"))
        os.symlink(harness.oarlock(), self.path("bin", "oarlock"))
        path = self.path("bin") + os.pathsep + os.environ["PATH"]
        for command in commands:
            # As the reader types it, on fewer rows.
            self.await_success(self.start(
                "bash", "-euc", command.replace("1000000", str(ROWS)),
                PATH=path))

    def test_a_folder_that_cannot_be_written_is_one_line(self):
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("no folder")
        job = self.start_quickstart("--dir", "file/demo")
        self.assert_fails(job, "^oarlock quickstart: ", code=1)
        self.assertEqual(len(job.stderr.splitlines()), 1, self.report())


class DoctorTest(harness.SystemTest):

    def test_each_line_has_a_verdict_and_a_bad_one_fails(self):
        doctor = self.start(harness.oarlock(), "doctor")
        code = self.await_end(doctor)
        lines = doctor.stdout.splitlines()
        self.assertEqual(len(lines), 11, self.report())
        for line in lines:
            self.assertRegex(line, "^(ok   |warn |bad  ) [a-z/]+")
        self.assertEqual(code, int(any(line.startswith("bad")
                                       for line in lines)), self.report())

    def test_too_few_open_files_are_bad(self):
        doctor = self.start("bash", "-c",
                            f"ulimit -n 100; exec {harness.oarlock()} doctor")
        self.assertEqual(self.await_end(doctor), 1, self.report())
        self.assertRegex(doctor.stdout,
                         "(?m)^bad   open files +100 of .*ulimit -n 4096")


class TextsTest(harness.SystemTest):

    def text(self, *words):
        return self.await_success(self.start(harness.oarlock(), *words)).stdout

    def commands(self):
        return re.findall(r"(?m)^  ([a-z-]+)  ", self.text("--help"))

    def test_bash_completes_commands_and_flags(self):
        def offered(*words):
            script = (self.text("completion", "bash") +
                      f"COMP_WORDS=({' '.join(words)} '')\n"
                      f"COMP_CWORD={len(words)}\n_oarlock\n"
                      'printf "%s\\n" "${COMPREPLY[@]}"\n')
            return subprocess.run(
                ["bash", "-eu"], input=script, check=True, text=True,
                capture_output=True).stdout.split()
        self.assertEqual(offered("oarlock"),
                         self.commands() + ["--help", "--version"])
        self.assertIn("deepfm", offered("oarlock", "train", "--model"))
        self.assertIn("hot-keys", offered("oarlock", "ctl"))

    def test_help_is_a_command_and_a_misspelt_one_is_recognized(self):
        self.assertEqual(self.text("help"), self.text("--help"))
        self.assertEqual(self.text("help", "train"),
                         self.text("train", "--help"))
        trian = self.start(harness.oarlock(), "trian")
        self.assertEqual(self.await_end(trian), 2)
        self.assertEqual(
            trian.stderr, "oarlock: there is no command 'trian' (did you mean "
            "train?); see `oarlock --help`\n")

    def test_the_manual_tells_all_commands(self):
        manual = self.text("man")
        for command in self.commands():
            name = command.replace("-", "\\-")
            self.assertIn(f'.SS "oarlock {name}"', manual)


if __name__ == "__main__":
    unittest.main()
