"""Runs one file of unit tests for Bazel.

  run_unittests.py FILE

Prints each test and what became of it, and writes them to XML_OUTPUT_FILE in
JUnit's form, skips with their reasons. Ends with 0 where a test was chosen and
none failed, else with 1. A fixture of a class or module that fails, or skips,
does so for each of its tests.

As Bazel asks through the environment: of tests only those that
TESTBRIDGE_TEST_ONLY names (parts of names, or patterns with *, separated by
colons), and of those every TEST_TOTAL_SHARDS-th from TEST_SHARD_INDEX on.
Temporary files go into TEST_TMPDIR.
"""

import fnmatch
import functools
import importlib
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest
import xml.etree.ElementTree as ElementTree

# What XML 1.0 has no way to say.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What unittest calls the place of a failure outside of any test.
_FIXTURE = re.compile(r"(setUp|tearDown)(Class|Module) \((.*)\)")


class Case:
    """One test: (tag, message, text) of each thing that was found."""

    def __init__(self, class_name, name):
        self.class_name = class_name
        self.name = name
        self.seconds = 0.0
        self.findings = []

    def element(self):
        case = ElementTree.Element(
            "testcase", classname=self.class_name, name=self.name,
            time=f"{self.seconds:.3f}")
        for tag, message, text in self.findings:
            found = ElementTree.SubElement(case, tag,
                                           message=_NO_XML.sub("?", message))
            found.text = _NO_XML.sub("?", text)
        return case


class Result(unittest.TextTestResult):
    """Keeps a Case for each test of `tests`, whether it ran or not."""

    def __init__(self, tests, *arguments):
        super().__init__(*arguments)
        self.tests = tests
        self.cases = {}
        self.began = time.monotonic()
        signal.signal(signal.SIGTERM, self.end)

    def end(self, number, frame):
        """Bazel's signal, when the time is over: the test that runs fails and
        cleans up, and no other begins."""
        self.stop()
        raise SystemExit("the time of this test is over")

    def case(self, test):
        class_name, _, name = test.id().rpartition(".")
        return self.cases.setdefault(test.id(), Case(class_name, name))

    def find(self, test, tag, message, text=""):
        """Of a test, or of all that a failed fixture has kept from running."""
        test = getattr(test, "test_case", test)  # of a part of it
        fixture = _FIXTURE.fullmatch(test.id())
        kept = []
        if fixture and fixture[1] == "setUp":
            kept = [one for one in self.tests
                    if unittest.util.strclass(one.__class__) == fixture[3] or
                    one.__class__.__module__ == fixture[3]]
        if fixture and not kept:
            case = self.cases.setdefault(
                test.id(), Case(fixture[3], fixture[1] + fixture[2]))
            case.findings.append((tag, message, text))
        for one in kept or ([] if fixture else [test]):
            self.case(one).findings.append((tag, message, text))

    def find_error(self, test, tag, error):
        message = "".join(traceback.format_exception_only(*error[:2])).strip()
        self.find(test, tag, message,
                  "".join(traceback.format_exception(*error)))

    def startTest(self, test):
        self.case(test)
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        self.case(test).seconds = time.monotonic() - self.began
        super().stopTest(test)

    def addError(self, test, err):
        self.find_error(test, "error", err)
        super().addError(test, err)

    def addFailure(self, test, err):
        self.find_error(test, "failure", err)
        super().addFailure(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self.find_error(test, "failure" if failed else "error", err)
        super().addSubTest(test, subtest, err)

    def addSkip(self, test, reason):
        self.find(test, "skipped", reason)
        super().addSkip(test, reason)

    def addUnexpectedSuccess(self, test):
        self.find(test, "failure", "passes, and is expected to fail")
        super().addUnexpectedSuccess(test)


def write_xml(path, name, cases):
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites, "testsuite", name=name, tests=str(len(cases)))
    for tag, count in (("failure", "failures"), ("error", "errors"),
                       ("skipped", "skipped")):
        suite.set(count, str(sum(
            any(found[0] == tag for found in case.findings)
            for case in cases)))
    suite.extend(case.element() for case in cases)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8",
                                          xml_declaration=True)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def chosen(tests, patterns):
    """Those that one of the patterns names; all, where there are none."""
    def matches(test, pattern):
        if "*" in pattern:
            return fnmatch.fnmatchcase(test.id(), pattern)
        return pattern in test.id()

    patterns = [pattern for pattern in patterns.split(":") if pattern]
    return [test for test in tests if not patterns or
            any(matches(test, pattern) for pattern in patterns)]


def shard(tests):
    """The part of the tests that this process is to run."""
    total = int(os.environ.get("TEST_TOTAL_SHARDS") or 1)
    index = int(os.environ.get("TEST_SHARD_INDEX") or 0)
    if os.environ.get("TEST_SHARD_STATUS_FILE"):
        pathlib.Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()
    return tests[index::total]


def load(path):
    """The tests of a file; SkipTest where it says so itself."""
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    return list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))


def run(path):
    """Exit code, and the cases."""
    whole = Case(path.stem, "<file>")
    try:
        tests = load(path)
    except unittest.SkipTest as skip:
        print(f"{path.name}: skipped {str(skip)!r}", file=sys.stderr)
        whole.findings.append(("skipped", str(skip), ""))
        return 0, [whole]
    except Exception as error:  # pylint: disable=broad-except
        traceback.print_exc()
        whole.findings.append(
            ("error", repr(error), traceback.format_exc()))
        return 1, [whole]
    pattern = os.environ.get("TESTBRIDGE_TEST_ONLY", "")
    tests = chosen(tests, pattern)
    if not tests:
        what = f"no test is named by {pattern!r}" if pattern else "has no test"
        print(f"{path.name}: {what}", file=sys.stderr)
        whole.findings.append(("error", what, ""))
        return 1, [whole]

    tests = shard(tests)
    result = unittest.TextTestRunner(
        verbosity=2, resultclass=functools.partial(Result, tests)).run(
            unittest.TestSuite(tests))
    for test in tests:
        if test.id() not in result.cases:
            result.find(test, "error", "was not run")
    return (0 if result.wasSuccessful() and not result.shouldStop else 1,
            list(result.cases.values()))


def main():
    if len(sys.argv) != 2 or not os.path.isfile(sys.argv[1]):
        print(f"run_unittests: the arguments are {sys.argv[1:]}; legal is one "
              "file of tests", file=sys.stderr)
        return 2
    if os.environ.get("TEST_TMPDIR"):
        os.environ["TMPDIR"] = os.environ["TEST_TMPDIR"]
        tempfile.tempdir = None
    # Not resolved: what a test opens beside it, it has to declare.
    path = pathlib.Path(sys.argv[1]).absolute()
    code, cases = run(path)
    if os.environ.get("XML_OUTPUT_FILE"):
        write_xml(os.environ["XML_OUTPUT_FILE"], path.stem, cases)
    return code


if __name__ == "__main__":
    sys.exit(main())
