"""What tests of the Python package share: the package on the path, and waits."""

import os
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import oarlock  # noqa: E402


def eventually(condition, seconds=30.0):
    """Whether the condition holds within some seconds; it is asked again and again."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        threading.Event().wait(0.01)
    return True


def processes_named(word):
    """Pids of processes whose command line has the word."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in command:
            found.append(int(entry.name))
    return found


def children_of(pid):
    """Pids of a process's children."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(each) for each in (task / "children").read_text().split()]
    return found


def server_pid(cluster, index):
    """Pid of a server of a LocalCluster."""
    for pid in children_of(cluster.pid):
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        if f"PADDLE_PSERVER_ID={index}".encode() in environment.split(b"\0"):
            return pid
    raise AssertionError(f"no server {index}")


def pushes_of(reader, table):
    """Pushes that server 0 has applied to the table of this name."""
    status = reader.call("ServerAdminService/GetServerStatus")
    return next(int(each["version"]) for each in status["tables"]
                if each["config"]["name"] == table)


def is_stopped(pid):
    """Whether all threads of the process are stopped."""
    return all((task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def descriptors():
    """What each descriptor of this process is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return found


def thread_names():
    """Names of this process's threads, sorted."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            names.append(
                pathlib.Path(f"/proc/self/task/{thread}/comm").read_text().strip())
        except OSError:
            pass
    return sorted(names)


__all__ = ["ROOT", "children_of", "descriptors", "eventually", "is_stopped", "oarlock",
           "processes_named", "pushes_of", "server_pid", "thread_names"]
