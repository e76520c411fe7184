"""clock: time comes through constructors, and tests do not sleep.

Product sources wait with a limit by a Clock, too; in tests such a limit is a
deadline that no verdict depends on. Tests pause in eventually.h and in the
harness of the system tests alone. Places that are still to be mended are counted in clock_debt.txt, which only
shrinks; real_time.txt names the tests whose verdict depends on a duration.
tests/cases has reports of others, which are no tests.
"""

import re

import tree as trees

DEBT = "tests/lint/clock_debt.txt"
REAL_TIME = "tests/real_time.txt"
MAX_REAL_TIME = 10
_CPP = re.compile(
    r"\babsl::Now\b|\bGetCurrentTimeNanos\b|\bSleepFor\b|\bsleep_(?:for|until)\b"
    r"|\b(?:u|nano)?sleep\(|\bclock_nanosleep\b"
    r"|\b(?:steady|system|high_resolution)_clock\b"
    r"|\bClock::(?:Real|Monotonic)\(|\bclock_gettime\b|\bgettimeofday\b"
    r"|\bstd::time\(|\bgpr_now\b")
_WAIT = re.compile(
    r"\b(?:Await|Wait\w*|\w*LockWhen)With(?:Timeout|Deadline)\b"
    r"|\bwait_(?:for|until)\(")
_PYTHON = re.compile(r"\btime\.sleep\(|\bfrom time import .*\bsleep\b")
_MAIN = re.compile(r"^int main\(", re.MULTILINE)
_EXEMPT = ("base/clock.cc", "base/clock.h", "tests/base/clock_test.cc",
           "tests/base/eventually.h", "tests/base/skippable_clock.h")


def places(tree):
    """Path -> the lines on which it reads the clock, sleeps or waits by it."""
    found = {}
    product = set(trees.product(tree.paths))
    for path in tree.ending(*trees.SOURCES):
        code = trees.code_of(tree.text(path))
        if path in _EXEMPT or _MAIN.search(code):
            continue
        matches = list(_CPP.finditer(code))
        if path in product:
            matches += _WAIT.finditer(code)
        if matches:
            found[path] = sorted(trees.line_at(code, match.start())
                                 for match in matches)
    for path in tree.ending(".py"):
        if not path.startswith("tests/") or path.startswith(
                ("tests/lint/", "tests/cases/")):
            continue
        text = re.sub(r"#[^\n]*", "", tree.text(path))
        lines = [trees.line_at(text, match.start())
                 for match in _PYTHON.finditer(text)]
        if lines:
            found[path] = lines
    return found


def _debt(tree):
    """Path -> (line in DEBT, places that it may have), and faulty lines."""
    listed, findings = {}, []
    if not tree.has(DEBT):
        return listed, findings
    for number, line in enumerate(tree.text(DEBT).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) ([1-9]\d*)", line)
        if match is None or match[1] in listed:
            findings.append(trees.Finding(
                DEBT, number, "clock", f"{line!r}; legal is a path, a space, "
                "a count from 1, each path once"))
            continue
        listed[match[1]] = number, int(match[2])
    return listed, findings


def _real_time(tree):
    if not tree.has(REAL_TIME):
        return []
    findings, tests = [], 0
    for number, line in enumerate(tree.text(REAL_TIME).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        tests += 1
        if not re.fullmatch(r"\S+: \S+ .*", line):
            findings.append(trees.Finding(
                REAL_TIME, number, "clock",
                f"{line!r}; legal is a test, a colon and its reason"))
        if tests > MAX_REAL_TIME:
            findings.append(trees.Finding(
                REAL_TIME, number, "clock",
                f"test number {tests}, at most {MAX_REAL_TIME} are allowed; "
                "let the test own its clock"))
    return findings


def check(tree):
    listed, findings = _debt(tree)
    found = places(tree)
    for path, lines in found.items():
        _, allowed = listed.get(path, (0, 0))
        if len(lines) > allowed:
            findings.append(trees.Finding(
                path, lines[-1], "clock",
                f"reads the machine's clock, sleeps or waits by it in "
                f"{len(lines)} places, {allowed} are listed; take a Clock by "
                "constructor"
                + ("" if path.endswith(".py") or not path.startswith("tests/")
                   else ", wait for a condition")))
    for path, (number, allowed) in listed.items():
        count = len(found.get(path, ()))
        if count < allowed:
            what = f"lower the number to {count}" if count else (
                "take the line out")
            findings.append(trees.Finding(
                DEBT, number, "clock",
                f"{path} has {count} places, {allowed} are listed; {what}"))
    findings += _real_time(tree)
    return findings, f"{sum(map(len, found.values()))} places to mend"


def write(tree):
    """The debt of today, as clock_debt.txt writes it."""
    return "".join(f"{path} {len(lines)}\n"
                   for path, lines in sorted(places(tree).items()))
