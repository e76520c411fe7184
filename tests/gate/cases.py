#!/usr/bin/env python3
"""Counts what a gate has run, case by case, and is strict about it.

  cases.py tests RESULTS BEP [--fresh] [--allowed FILE]
      adds the cases of one `bazel test`, as its build event file BEP and the
      test.xml of each target tell; exits 1 where one of them fails the gate
  cases.py check RESULTS NAME (passed | failed | unchanged)
      adds a check that is no Bazel test
  cases.py finish RESULTS
      prints what failed, then "N passed, N failed, N skipped"; exits 1 where
      anything failed

RESULTS is a file of one JSON object a line. What fails besides a case that
failed: a target that was flaky, timed out or was not run; one that ran no case,
or says nothing of its cases; a skip that FILE does not allow; with --fresh, a
result that Bazel took from a cache.

FILE has lines "LABEL CASE | REASON", compared as they are.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# How much of a failed target's log is shown.
MAX_LOG_LINES = 60
ALLOWED = pathlib.Path(__file__).parents[1] / "allowed_skips.txt"

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def record(path, **entry):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def read_results(path):
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def read_allowed(path):
    """The pairs (case, reason) that may be skipped; a case has its label."""
    allowed = set()
    for number, line in enumerate(
            pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        case, bar, reason = line.partition(" | ")
        if not bar or not reason or len(case.split()) != 2:
            raise SystemExit(
                f"cases: {path}:{number} is '{line}'; legal is "
                "'LABEL CASE | REASON'")
        allowed.add((case, reason))
    return allowed


class Target:
    """What one `bazel test` says of one target."""

    def __init__(self, label):
        self.label = label
        self.kind = ""
        self.status = None
        self.cached = False
        # (run, shard) -> the files of its last attempt.
        self.files = {}

    def add_result(self, identity, result):
        self.cached = (self.cached or result.get("cachedLocally", False) or
                       result.get("executionInfo", {}).get("cachedRemotely",
                                                           False))
        key = (identity.get("run", 1), identity.get("shard", 1))
        attempt = identity.get("attempt", 1)
        if attempt >= self.files.get(key, (0,))[0]:
            files = {output["name"]: path_of(output["uri"])
                     for output in result.get("testActionOutput", [])
                     if "uri" in output}
            self.files[key] = (attempt, files)

    def file(self, name):
        """The paths of the files of that name, one for each run and shard."""
        return [files[name] for _, files in self.files.values()
                if name in files]


def path_of(uri):
    return urllib.parse.unquote(urllib.parse.urlparse(uri).path)


def read_events(path):
    """The targets that a `bazel test` was to run, by label."""
    targets = {}

    def of(label):
        return targets.setdefault(label, Target(label))

    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        identity = event.get("id", {})
        if "configured" in event and event["configured"].get("testSize"):
            label = identity["targetConfigured"]["label"]
            of(label).kind = event["configured"]["targetKind"]
        elif "testResult" in event:
            of(identity["testResult"]["label"]).add_result(
                identity["testResult"], event["testResult"])
        elif "testSummary" in event:
            of(identity["testSummary"]["label"]).status = (
                event["testSummary"]["overallStatus"])
    return targets


def reason_of(element):
    """A skip's or failure's words, without gtest's place in the source."""
    text = element.get("message") or element.text or ""
    lines = text.strip().splitlines()
    if len(lines) > 1 and re.fullmatch(r"\S+:\d+", lines[0].strip()):
        lines = lines[1:]
    return " ".join(line.strip() for line in lines)


def cases_of(label, path):
    """The cases of a test.xml: (name, verdict, detail). None where the program
    wrote none and Bazel made one up."""
    cases = []
    root = ElementTree.parse(path).getroot()
    own_name = label.removeprefix("//").replace(":", "/")
    suites = list(root.iter("testsuite"))
    if len(suites) == 1 and suites[0].get("name") == own_name:
        return None
    for case in root.iter("testcase"):
        name = ".".join(part for part in (case.get("classname"),
                                          case.get("name")) if part)
        bad = case.find("failure")
        if bad is None:
            bad = case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            cases.append((name, FAILED, reason_of(bad)))
        elif skip is not None:
            cases.append((name, SKIPPED, reason_of(skip)))
        elif case.get("status") == "notrun":
            cases.append((name, SKIPPED, "disabled"))
        else:
            cases.append((name, PASSED, ""))
    return cases


def judge(target, allowed, fresh):
    """All cases of a target: (name, verdict, detail). What fails the target as
    a whole is a case named after what it is."""
    label = target.label
    if target.status is None:
        return [("<target>", FAILED, "was not run")]
    cases, silent = [], False
    for path in target.file("test.xml"):
        try:
            found = cases_of(label, path)
        except (OSError, ElementTree.ParseError) as error:
            found = None
            if target.status == "PASSED":
                cases.append(("<test.xml>", FAILED, str(error)))
        if found is None:
            silent = True
        else:
            cases.extend(found)
    cases = [(name, FAILED, f"may not be skipped: {detail}")
             if verdict == SKIPPED and
             (f"{label} {name}", detail) not in allowed
             else (name, verdict, detail) for name, verdict, detail in cases]
    if target.status != "PASSED" and (
            target.status not in ("FAILED",) or
            not any(verdict == FAILED for _, verdict, _ in cases)):
        cases.append(("<target>", FAILED, target.status))
    if target.status == "PASSED":
        if silent:
            cases.append(("<target>", FAILED, "says nothing of its cases"))
        elif not cases:
            cases.append(("<target>", FAILED, "runs no test"))
    if fresh and target.cached:
        cases.append(("<target>", FAILED, "was not run: a cached result"))
    return cases


def show_log(target):
    for path in target.file("test.log"):
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8",
                                                errors="replace")
        except OSError:
            continue
        print(f"--- {path}")
        print("\n".join(text.splitlines()[-MAX_LOG_LINES:]))


def add_tests(args):
    allowed = read_allowed(args.allowed)
    targets = read_events(args.bep)
    counts = collections.Counter()
    for target in sorted(targets.values(), key=lambda one: one.label):
        cases = judge(target, allowed, args.fresh)
        for name, verdict, detail in cases:
            counts[verdict] += 1
            record(args.results, name=f"{target.label} {name}",
                   verdict=verdict, detail=detail)
        bad = [case for case in cases if case[1] == FAILED]
        if bad:
            show_log(target)
            for name, _, detail in bad:
                print(f"FAILED  {target.label} {name}: {detail[:300]}")
    cached = sum(target.cached for target in targets.values())
    print(f"{cached} of {len(targets)} tests cached, "
          f"{sum(counts.values())} cases: {counts[PASSED]} passed, "
          f"{counts[FAILED]} failed, {counts[SKIPPED]} skipped")
    if not targets:
        record(args.results, name=args.bep, verdict=FAILED,
               detail="bazel test was to run nothing")
        print("FAILED  bazel test was to run nothing")
        return 1
    return 1 if counts[FAILED] else 0


def add_check(args):
    verdict = FAILED if args.verdict == "failed" else PASSED
    record(args.results, name=args.name, verdict=verdict,
           detail="unchanged" if args.verdict == "unchanged" else "")
    return 0


def finish(args):
    results = read_results(args.results)
    counts = collections.Counter(entry["verdict"] for entry in results)
    for entry in results:
        if entry["verdict"] == SKIPPED:
            print(f"skipped  {entry['name']}: {entry['detail']}")
    for entry in results:
        if entry["verdict"] == FAILED:
            print(f"failed  {entry['name']}: {entry['detail'][:300]}")
    print(f"{counts[PASSED]} passed, {counts[FAILED]} failed, "
          f"{counts[SKIPPED]} skipped")
    return 1 if counts[FAILED] or not results else 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    tests = commands.add_parser("tests")
    tests.add_argument("results")
    tests.add_argument("bep")
    tests.add_argument("--fresh", action="store_true")
    tests.add_argument("--allowed", default=ALLOWED)
    tests.set_defaults(run=add_tests)
    check = commands.add_parser("check")
    check.add_argument("results")
    check.add_argument("name")
    check.add_argument("verdict", choices=["passed", "failed", "unchanged"])
    check.set_defaults(run=add_check)
    end = commands.add_parser("finish")
    end.add_argument("results")
    end.set_defaults(run=finish)
    args = parser.parse_args(arguments)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
