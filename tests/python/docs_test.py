"""docs/python.md: every block of Python runs, one after the other."""

import contextlib
import io
import re
import unittest

from oarlock_testing import ROOT

PAGE = ROOT / "docs/python.md"


class DocsTest(unittest.TestCase):

    def test_every_block_runs(self):
        text = PAGE.read_text()
        blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M))
        self.assertGreater(len(blocks), 8)
        names = {}
        for block in blocks:
            line = text[:block.start(1)].count("\n")
            code = compile("\n" * line + block[1], str(PAGE), "exec")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)

    def test_every_public_name_says_what_it_is(self):
        import oarlock

        for name in oarlock.__all__:
            self.assertTrue(getattr(oarlock, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
