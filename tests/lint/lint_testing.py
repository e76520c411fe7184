"""A small repository without a finding, and lint.py run over it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).absolute().parents[2]

BUILD = """cc_library(
    name = "counter",
    srcs = ["counter.cc"],
    hdrs = ["counter.h"],
)

[cc_test(
    name = name,
    srcs = [name + ".cc"],
) for name in ["counter_test"]]
"""

HEADER = """#ifndef COUNTER_H_
#define COUNTER_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::pserver {

class Counter {
 public:
  struct Options {};
  void Add();

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock::pserver

#endif  // COUNTER_H_
"""

SOURCE = """#include "pserver/counter.h"

namespace oarlock::pserver {

void Counter::Add() {
  absl::MutexLock lock(&mutex_);
  ++count_;
}

}  // namespace oarlock::pserver
"""

FILES = {
    "README.md": "# Counts\n\nSee [how](docs/how.md#what-it-counts).\n",
    "docs/how.md": "# How\n\n## What it counts\n\nPushes.\n",
    "pserver/BUILD": BUILD,
    "pserver/counter.cc": SOURCE,
    "pserver/counter.h": HEADER,
    "pserver/counter_test.cc": "int Tested() { return 1; }\n",
}


class PlantedCase(unittest.TestCase):
    """Each test has a clean copy of FILES to plant a fault in."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lint_test."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "copy"
        for path, text in FILES.items():
            self.write(path, text)
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, self.root)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def change(self, path, old, new):
        text = (self.root / path).read_text()
        self.assertIn(old, text)
        self.write(path, text.replace(old, new))

    def lint(self, *arguments):
        """(exit status, lines of output, what it said on stderr)."""
        environment = dict(os.environ,
                           XDG_CACHE_HOME=str(self.folder / "cache"))
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/lint/lint.py"), "--root",
             str(self.root), *arguments],
            capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def expect_clean(self, check, note=""):
        status, lines, said = self.lint(check)
        self.assertEqual((status, said), (0, ""), lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(f"{check}: 0 findings"), lines)
        self.assertIn(note, lines[0])

    def expect_one(self, check, line):
        """Exactly one finding, which is `line`."""
        status, lines, said = self.lint(check)
        self.assertEqual(said, "")
        self.assertEqual(lines[:-1], [line])
        self.assertTrue(lines[-1].startswith(f"{check}: 1 findings"), lines)
        self.assertEqual(status, 1)
