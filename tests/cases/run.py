#!/usr/bin/env python3
"""Runs the cases of outcomes.txt, one at a time, and prints what they print.

usage: O=.../oarlock run.py [--work FOLDER] [CASE...]    (default: all)

A case ends when it has taken TIMEOUT_S, or when its processes have MEMORY_BYTES
together; what it has left running is killed. A CASE is a name or the beginning
of names: D3 runs D3a, D3b and so on. With --work the folder is kept, and out/
there has a file for each case.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
MARK = "OARLOCK_CASES_MARK"
TIMEOUT_S = 600
MEMORY_BYTES = 8 << 30
POLL_INTERVAL_S = 0.3


def read_cases():
    """Name -> command, of those that are run."""
    cases = {}
    with open(HERE / "outcomes.txt", encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, command, _ = line.split(" | ")
                if command != "-":
                    cases[name] = command
    return cases


def marked(mark):
    """Pids with the mark in their environment."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                environment = pathlib.Path(f"/proc/{entry}/environ")
                if needle in environment.read_bytes().split(b"\0"):
                    found.append(int(entry))
    return found


def resident_bytes(pids):
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            statm = pathlib.Path(f"/proc/{pid}/statm").read_text()
            pages += int(statm.split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(command, folder, out):
    """What ended it."""
    mark = uuid.uuid4().hex
    words = command.split()
    script = HERE / words[0]
    python = ["/usr/bin/python3", "-B"] if script.suffix == ".py" else []
    began = time.monotonic()
    with open(out, "wb") as file:
        process = subprocess.Popen(
            python + [str(script)] + words[1:], cwd=folder, stdout=file,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True, env=dict(os.environ, **{MARK: mark}))
    why, most = None, 0
    while process.poll() is None and why is None:
        time.sleep(POLL_INTERVAL_S)
        used = resident_bytes(marked(mark))
        most = max(most, used)
        if used > MEMORY_BYTES:
            why = f"stopped: it had {used >> 20} MiB"
        elif time.monotonic() - began > TIMEOUT_S:
            why = f"stopped after {TIMEOUT_S} s"
    while pids := marked(mark):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
    process.wait()
    return (why or f"rc {process.returncode}") + (
        f", {time.monotonic() - began:.0f} s, at most {most >> 20} MiB")


def prepare(work):
    """The folders that cases run in: server/ for those of server/, else demo/
    lies in it."""
    (work / "out").mkdir(parents=True, exist_ok=True)
    (work / "server").mkdir(exist_ok=True)
    if not (work / "server" / "tok").exists():
        subprocess.run([HERE / "server" / "prepare.sh"], check=True,
                       cwd=work / "server")
    if not (work / "demo").exists():
        subprocess.run(
            [os.environ["O"], "generate", "criteo", "--rows", "20000",
             "--files", "4", "--out", "demo"], check=True, cwd=work,
            stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--work")
    parser.add_argument("case", nargs="*")
    args = parser.parse_args()
    os.environ["O"] = os.path.abspath(os.environ["O"])
    # A shell's background jobs ignore these, and their children inherit that.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    cases = read_cases()
    if args.case:
        wanted = [name for name in cases if name in args.case
                  or name.rstrip("abcdefgh") in args.case]
    else:
        # Some commands show several cases.
        wanted = list({cases[name]: name for name in reversed(cases)}.values())
        wanted.reverse()
    if not wanted:
        sys.exit(f"run.py: no case '{' '.join(args.case)}' can be run; legal "
                 f"are {' '.join(cases)}")
    work = pathlib.Path(args.work or tempfile.mkdtemp(prefix="oarlock-cases-"))
    try:
        prepare(work.resolve())
        for name in wanted:
            server = cases[name].startswith("server/")
            out = work.resolve() / "out" / f"{name}.txt"
            print(f"=== {name}: {cases[name]}", flush=True)
            ended = run(cases[name], work / "server" if server else work, out)
            with open(out, "a", encoding="utf-8") as file:
                file.write(f"\n--- {ended}\n")
            print(out.read_text(encoding="utf-8", errors="replace"), flush=True)
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
