#!/usr/bin/env python3
"""Adds up how often each test passed, over days and commits.

  soak.py add COUNTS BEP LOG --commit COMMIT --seed SEED
      adds what one `bazel test` has run
  soak.py count COUNTS [--runs N]
      prints the tests that have not passed N times (20) as they are now, and
      exits 1 where there are any

COUNTS has lines "LABEL DIGEST PASSED FAILED". DIGEST is that of all sources that
the test is made of, as Bazel tells: a commit that changes none of them leaves
the count as it is, any other begins it anew.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402: found through the line above

ROOT = pathlib.Path(__file__).resolve().parents[2]


def closure(label, edges, known):
    """All labels that one is made of, itself among them."""
    found, todo = set(), [label]
    while todo:
        one = todo.pop()
        if one in known:
            found |= known[one]
        elif one not in found:
            found.add(one)
            todo.extend(edges.get(one, ()))
    known[label] = found
    return found


def digests(query_xml, content):
    """The digest of each test's sources. content(label): the bytes of a source
    file, or None for what is none of ours."""
    edges, tests = {}, []
    for rule in ElementTree.fromstring(query_xml).iter("rule"):
        label = rule.get("name")
        edges[label] = [dep.get("name") for dep in rule.findall("rule-input")]
        for output in rule.findall("rule-output"):
            edges[output.get("name")] = [label]
        if rule.get("class").endswith("_test"):
            tests.append(label)
    hashes = {}

    def hash_of(label):
        if label not in hashes:
            data = content(label)
            hashes[label] = (hashlib.sha256(data).hexdigest()
                             if data is not None else "")
        return hashes[label]

    result, known = {}, {}
    for test in tests:
        text = "\n".join(f"{label} {hash_of(label)}"
                         for label in sorted(closure(test, edges, known)))
        result[test] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return result


def digests_now():
    xml = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--output=xml",
         "kind(rule, deps(tests(//tests/...)))"],
        cwd=ROOT, check=True, capture_output=True).stdout

    def content(label):
        if not label.startswith("//"):
            return None
        path = ROOT / label.removeprefix("//").replace(":", "/").lstrip("/")
        return path.read_bytes() if path.is_file() else None

    return digests(xml, content)


def read_counts(path):
    """label -> [digest, passed, failed]."""
    counts = {}
    if pathlib.Path(path).exists():
        for line in pathlib.Path(path).read_text().splitlines():
            if line and not line.startswith("#"):
                label, digest, passed, failed = line.split()
                counts[label] = [digest, int(passed), int(failed)]
    return counts


def write_counts(path, counts):
    lines = ["# Written by tests/soak.sh: label, digest of its sources, how "
             "often it passed and failed",
             "# with both cores busy."]
    lines += [f"{label} {digest} {passed} {failed}"
              for label, (digest, passed, failed) in sorted(counts.items())]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def add(args):
    counts, now = read_counts(args.counts), digests_now()
    reported = collections.Counter()
    with open(args.log, "a", encoding="utf-8") as log:
        for target in cases.read_events(args.bep).values():
            digest = now.get(target.label)
            if digest is None or target.cached:
                continue
            entry = counts.get(target.label)
            if entry is None or entry[0] != digest:
                entry = counts[target.label] = [digest, 0, 0]
            passed = target.status == "PASSED"
            entry[1 if passed else 2] += 1
            reported[target.status] += 1
            log.write(json.dumps(
                {"commit": args.commit, "seed": args.seed,
                 "test": target.label, "digest": digest,
                 "result": target.status}) + "\n")
    write_counts(args.counts,
                 {label: entry for label, entry in counts.items()
                  if label in now})
    print("soak:", ", ".join(f"{number} {status}"
                             for status, number in sorted(reported.items())))
    return 0


def count(args):
    counts, now = read_counts(args.counts), digests_now()
    missing = 0
    for label, digest in sorted(now.items()):
        entry = counts.get(label, [None, 0, 0])
        passed, failed = entry[1:] if entry[0] == digest else (0, 0)
        if passed < args.runs or failed:
            missing += 1
            print(f"{label}: {passed} passed, {failed} failed, "
                  f"{args.runs} without a failure are asked for")
    print(f"{len(now) - missing} of {len(now)} tests passed {args.runs} times")
    return 1 if missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    adding = commands.add_parser("add")
    adding.add_argument("counts")
    adding.add_argument("bep")
    adding.add_argument("log")
    adding.add_argument("--commit", required=True)
    adding.add_argument("--seed", required=True)
    adding.set_defaults(run=add)
    counting = commands.add_parser("count")
    counting.add_argument("counts")
    counting.add_argument("--runs", type=int, default=20)
    counting.set_defaults(run=count)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
