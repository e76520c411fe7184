"""bench/gpu: what is packed for a machine with a GPU runs there, and what runs
there says what has failed. Here without a GPU: run.sh drives programs that only
say what they were asked."""

import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).absolute().parents[2]
GPU = ROOT / "bench/gpu"
# Where the programs of `bazel build //...` lie.
BUILT = pathlib.Path(os.environ.get("OARLOCK_BAZEL_BIN", ROOT / "bazel-bin"))
MAX_BYTES = 64 << 20
ROWS = "criteo/criteo_kaggle_sample_137k.txt.xz"
# Every Linux has these.
OF_THE_SYSTEM = ("ld-linux", "libc.", "libm.", "libdl.", "librt.",
                 "libpthread.", "libstdc++.", "libgcc_s.")

sys.path.insert(0, str(GPU))

import compare  # noqa: E402: in bench/gpu

TESTS = ("gpu_test", "math_backend_test", "math_backend_losses_test",
         "image_operations_test", "interaction_operations_test",
         "cuda_backend_test", "replaying_device_test", "rule_runner_test",
         "gpu_communicator_test", "communicator_conformance_test")
PASSES = """#!/bin/sh
echo '[       OK ] All/Test.Works/cuda (1 ms)'
echo '[  PASSED  ] 2 tests.'
"""
STEP = """#!/bin/sh
echo "step $* with $LD_LIBRARY_PATH"
"""
PYTHON = """import os, sys
print(*sys.argv[1:], "with", os.environ.get("LD_LIBRARY_PATH"))
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)


class PackTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        rows = cls.folder / "rows" / ROWS
        rows.parent.mkdir(parents=True)
        rows.write_bytes(b"rows")
        cls.to = cls.folder / "pack"
        # The fastest level: what is meant for a machine is smaller still.
        subprocess.run(
            [GPU / "pack.sh", "--from", BUILT, cls.to], check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "XZ_OPT": "-0",
                 "OARLOCK_DATA_DIR": str(cls.folder / "rows")})
        cls.unpacked = cls.folder / "unpacked"
        with tarfile.open(cls.to / "pack.tar.xz") as archive:
            archive.extractall(cls.unpacked)

    def test_it_is_as_small_as_is_meant(self):
        size = sum(path.stat().st_size for path in self.to.rglob("*"))
        self.assertLess(size, MAX_BYTES)

    def test_programs_find_their_libraries_in_it(self):
        programs = [path for path in self.unpacked.iterdir()
                    if path.is_file() and path.suffix != ".py"]
        self.assertGreaterEqual({path.name for path in programs},
                                {*TESTS, "oarlock", "step_bench"})
        lib = self.unpacked / "lib"
        for program in programs:
            listed = subprocess.run(
                ["ldd", program], check=True, capture_output=True, text=True,
                env={**os.environ, "LD_LIBRARY_PATH": str(lib)}).stdout
            for line in listed.splitlines():
                name, arrow, where = line.strip().partition(" => ")
                if not arrow or name.startswith(OF_THE_SYSTEM):
                    continue
                with self.subTest(program=program.name, library=name):
                    self.assertEqual(pathlib.Path(where.split()[0]).parent,
                                     lib)

    def test_scripts_and_rows_are_there(self):
        self.assertTrue(os.access(self.to / "run.sh", os.X_OK))
        self.assertEqual((self.to / "data" / ROWS).read_bytes(), b"rows")
        for name in ("compare.py", "torch_step.py", "train.py"):
            subprocess.run([sys.executable, "-m", "py_compile",
                            self.unpacked / name], check=True)
        subprocess.run([sys.executable, self.unpacked / "train.py", "--help"],
                       check=True, stdout=subprocess.DEVNULL)


class RunTest(unittest.TestCase):
    """run.sh over programs of `self.programs`, name -> text."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        executable(self.folder / "run.sh", (GPU / "run.sh").read_text())
        self.tool("nvidia-smi", "#!/bin/sh\necho a GPU\n")
        self.programs = {**dict.fromkeys(TESTS, PASSES), "step_bench": STEP,
                         "train.py": PYTHON, "oarlock": PASSES}

    def tool(self, name, text):
        executable(self.tools / name, text)

    def run_parts(self, *words, **variables):
        """Exit code and output."""
        with tarfile.open(self.folder / "pack.tar.xz", "w:xz") as archive:
            for name, text in self.programs.items():
                entry = tarfile.TarInfo(name)
                entry.mode = 0o755
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        environment = {**os.environ, **variables,
                       "PATH": f"{self.tools}:{os.environ['PATH']}"}
        environment.pop("LD_LIBRARY_PATH", None)
        done = subprocess.run([self.folder / "run.sh", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=environment)
        return done.returncode, done.stdout

    def test_a_misspelt_part_is_refused_with_the_legal_ones(self):
        code, output = self.run_parts("kernel")
        self.assertEqual(code, 2)
        self.assertIn("no part kernel; legal are: all tests", output)

    def test_a_misspelt_choice_is_refused_with_the_legal_ones(self):
        code, output = self.run_parts("steps", "memcheck")
        self.assertEqual(code, 2)
        self.assertIn("legal are: ctr_dnn dlrm", output)

    def test_passing_tests_pass(self):
        code, output = self.run_parts("tests")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("\nok "), len(TESTS))

    def test_a_failing_test_fails_the_run(self):
        self.programs["rule_runner_test"] = "#!/bin/sh\nexit 3\n"
        code, output = self.run_parts("tests")
        self.assertEqual(code, 1)
        self.assertIn("FAILED  rule_runner_test, exit 3", output)

    def test_a_suite_that_has_not_used_the_gpu_fails(self):
        self.programs["interaction_operations_test"] = PASSES.replace(
            "/cuda", "/emulated_cuda")
        code, output = self.run_parts("tests")
        self.assertEqual(code, 1)
        self.assertIn("no test of interaction_operations_test has used",
                      output)

    def test_a_failing_step_fails_the_run(self):
        self.programs["step_bench"] = STEP + '[ "$6" != bfloat16 ]\n'
        code, output = self.run_parts("steps")
        self.assertEqual(code, 1)
        self.assertIn("FAILED  exit 1 of ", output)

    def test_a_second_run_begins_its_files_anew(self):
        for _ in range(2):
            code, output = self.run_parts("steps", "dlrm")
            self.assertEqual(code, 0, output)
        lines = (self.folder / "out/steps_dlrm.txt").read_text().splitlines()
        self.assertEqual(len(lines), len(set(lines)))
        self.assertFalse((self.folder / "out/steps_ctr_dnn.txt").exists())

    def test_libraries_are_those_of_our_programs_alone(self):
        packed = str(self.folder / "unpacked/lib")
        _, output = self.run_parts("steps", "dlrm")
        self.assertIn(f"with {packed}:", output)
        _, output = self.run_parts("curves", "dlrm")
        self.assertRegex(output, rf"curves .*--libraries {packed}:.* with None")

    def test_a_changed_pack_is_unpacked_again(self):
        self.run_parts("steps", "dlrm")
        self.programs["step_bench"] = "#!/bin/sh\necho another\n"
        self.assertIn("another", self.run_parts("steps", "dlrm")[1])

    def test_a_part_ends_in_time(self):
        self.programs["step_bench"] = "#!/bin/sh\nsleep 60\n"
        code, output = self.run_parts("kernels", PART_LIMIT_S="1")
        self.assertEqual(code, 1)
        self.assertIn("FAILED  exit 124", output)
        self.assertIn("not begun", output)

    def test_a_sanitizer_that_refuses_the_gpu_is_skipped_in_its_words(self):
        self.tool("compute-sanitizer",
                  "#!/bin/sh\necho '=== Error: Device not supported'\nexit 1\n")
        code, output = self.run_parts("sanitizer")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("skipped sanitizer"), 1)
        self.assertIn("Device not supported", output)

    def test_what_a_sanitizer_finds_fails_the_run(self):
        self.tool("compute-sanitizer", """#!/bin/sh
echo "$*" | grep -q 'racecheck.*image' && exit 9
echo '=== ERROR SUMMARY: 0 errors'
""")
        code, output = self.run_parts("sanitizer")
        self.assertEqual(code, 1)
        self.assertEqual(output.count("FAILED"), 1)
        self.assertIn("FAILED  sanitizer_racecheck_images, exit 9", output)

    def test_a_filter_that_chooses_nothing_fails_the_run(self):
        self.tool("compute-sanitizer",
                  "#!/bin/sh\necho '[  PASSED  ] 0 tests.'\n")
        code, output = self.run_parts("sanitizer", "memcheck")
        self.assertEqual(code, 1)
        self.assertIn("no test was chosen", output)

    @unittest.skipIf(
        os.path.exists("/usr/local/cuda/bin/compute-sanitizer"),
        "run.sh would find the toolkit's compute-sanitizer")
    def test_without_a_sanitizer_the_part_is_skipped(self):
        code, output = self.run_parts("sanitizer", CUDA_HOME="/nowhere")
        self.assertEqual(code, 0, output)
        self.assertIn("skipped sanitizer: no compute-sanitizer", output)


class CompareTest(unittest.TestCase):

    def test_ratios_are_those_of_the_same_step(self):
        lines = [
            "oarlock ctr_dnn  batch   4096 tf32      graphs compute    1.000 "
            "ms     4096000 examples/s   with copies    9.000 ms  1 examples/s",
            "oarlock ctr_dnn  batch   4096 tf32      calls compute    7.000 ms",
            "oarlock ctr_dnn  batch    512 float32   graphs adam compute "
            "   2.000 ms",
            "torch eager   ctr_dnn  batch   4096 tf32      compute    3.100 ms",
            "torch compiled ctr_dnn batch   4096 tf32      compute    1.800 ms",
            "torch graphs ctr_dnn  batch   4096 tf32      compute    1.400 ms",
            "torch eager   ctr_dnn  batch    512 float32   adam compute "
            "   5.000 ms",
            "torch eager   dlrm     batch   4096 tf32      compute    3.000 ms",
        ]
        small, large = compare.report(lines)
        self.assertIn("adam", small)
        self.assertIn("2.50 x eager", small)
        self.assertNotIn("goal", small)
        self.assertIn("3.10 x eager (goal 3: reached)", large)
        self.assertIn("1.40 x compiled (goal 1.5: MISSED)", large)


if __name__ == "__main__":
    unittest.main()
