#!/usr/bin/env python3
"""clang-tidy finds what is planted; tidy.sh runs it before it judges."""

import sys
import unittest

from lint_testing import PlantedCase


class TidyTest(PlantedCase):

    def test_what_the_list_forbids_is_found(self):
        self.expect_clean("tidy", "0 of 2 unchanged")
        self.change("pserver/counter.cc", "void Counter::Add() {",
                    "double Half(int all) { return all / 2; }\n\n"
                    "void Counter::Add() {")
        status, lines, _ = self.lint("tidy")
        self.assertEqual((status, len(lines)), (1, 2), lines)
        self.assertTrue(lines[0].startswith("pserver/counter.cc:5: tidy: "),
                        lines)


if __name__ == "__main__":
    sys.exit(unittest.main())
