"""When the count of a test's runs goes on, and when it begins anew."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import soak  # noqa: E402: found through the line above

QUERY = b"""<query>
  <rule class="cc_test" name="//tests/a:a_test">
    <rule-input name="//a:a"/><rule-input name="//tests/a:a_test.cc"/>
  </rule>
  <rule class="cc_test" name="//tests/b:b_test">
    <rule-input name="//tests/b:b_test.cc"/>
  </rule>
  <rule class="cc_library" name="//a:a">
    <rule-input name="//a:a.cc"/><rule-input name="//a:made.cc"/>
  </rule>
  <rule class="genrule" name="//a:make">
    <rule-input name="//a:a.proto"/><rule-output name="//a:made.cc"/>
  </rule>
</query>"""


class DigestsTest(unittest.TestCase):

    def setUp(self):
        self.files = {"//a:a.cc": b"1", "//a:a.proto": b"2",
                      "//tests/a:a_test.cc": b"3", "//tests/b:b_test.cc": b"4"}
        self.before = soak.digests(QUERY, self.files.get)

    def changed(self, label):
        """The tests whose digest is another once that file has changed."""
        self.files[label] = b"changed"
        after = soak.digests(QUERY, self.files.get)
        return [test for test in after if after[test] != self.before[test]]

    def test_each_test_has_one(self):
        self.assertEqual(sorted(self.before),
                         ["//tests/a:a_test", "//tests/b:b_test"])

    def test_nothing_changed_keeps_them(self):
        self.assertEqual(soak.digests(QUERY, self.files.get), self.before)

    def test_a_library_changes_those_that_are_made_of_it(self):
        self.assertEqual(self.changed("//a:a.cc"), ["//tests/a:a_test"])

    def test_so_does_what_code_is_generated_from(self):
        self.assertEqual(self.changed("//a:a.proto"), ["//tests/a:a_test"])

    def test_a_test_changes_itself_alone(self):
        self.assertEqual(self.changed("//tests/b:b_test.cc"),
                         ["//tests/b:b_test"])


if __name__ == "__main__":
    unittest.main()
