"""How many units a build compiled, and how many came from the cache."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import units  # noqa: E402: found through the line above


def compiling(name, thread, begin, duration):
    return {"cat": "action processing", "name": f"Compiling {name}",
            "tid": thread, "ts": begin, "dur": duration}


def process(thread, begin):
    return {"cat": "general information", "name": "subprocess.run",
            "tid": thread, "ts": begin, "dur": 1}


class UnitsTest(unittest.TestCase):

    def test_a_unit_with_a_process_was_compiled(self):
        self.assertEqual(
            units.compiled([compiling("a.cc", 1, 0, 3_000_000),
                            process(1, 1_000_000)]), (1, 3.0, 0))

    def test_a_unit_without_one_came_from_the_cache(self):
        self.assertEqual(
            units.compiled([compiling("a.cc", 1, 0, 10),
                            compiling("b.cc", 1, 20, 10), process(1, 25),
                            compiling("c.cc", 2, 0, 40)])[::2], (1, 2))

    def test_links_do_not_count(self):
        event = {"cat": "action processing", "name": "Linking a", "tid": 1,
                 "ts": 0, "dur": 5}
        self.assertEqual(units.compiled([event, process(1, 1)]), (0, 0.0, 0))


if __name__ == "__main__":
    unittest.main()
