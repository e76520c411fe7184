"""The process `oarlock train`, and what it tells."""

import collections
import json
import os
import selectors
import signal
import site
import subprocess
import sys
import threading
import time
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple

from oarlock import _find, cluster, errors

# Lines of its log that are kept.
_LOG_LINES = 400
_LINE_BYTES = 1 << 20
# How long it may take to end all of its processes before it is killed itself; its
# guardian ends them then.
_KILL_SECONDS = 5.0
_KILL_PERIOD_SECONDS = 0.1


class Event(NamedTuple):
    """Something that the process told.

    Attributes:
        kind: "progress", "evaluation", "answer", "checkpoint_dir" or "end".
        content: the line, the evaluation, (command, error), the folder of servers that
            stay, or the exit code.
    """

    kind: str
    content: Any


class JobProcess:
    """A thread that starts the process, reads all that it writes, and waits for it.

    The process has a session of its own, so Ctrl-C at a terminal is the caller's alone,
    and ends with this one. Whatever interrupts the caller, the thread goes on until
    nothing is left.
    """

    def __init__(self, words: List[str]) -> None:
        self._words = words
        self._changed = threading.Condition()
        self._events: Deque[Event] = collections.deque()
        self._log: Deque[str] = collections.deque(maxlen=_LOG_LINES)
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._failure: Optional[BaseException] = None
        self._killed_at: Optional[float] = None
        self._thread = threading.Thread(target=self._run, name="oarlock-train")

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def next_event(self) -> Event:
        """What it told next; waits. The last one is "end"."""
        with self._changed:
            while not self._events:
                self._changed.wait()
            event = self._events[0]
            if event.kind != "end":
                self._events.popleft()
        if event.kind == "end" and self._failure is not None:
            raise self._failure
        return event

    def command(self, line: str) -> None:
        """Writes a line to it; an "answer" follows, or the end."""
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            os.write(process.stdin.fileno(), " ".join(line.split()).encode()[:2000]
                     + b"\n")
        except (OSError, ValueError):
            pass  # It has ended.

    def log(self) -> List[str]:
        """The last lines of its log."""
        with self._changed:
            return list(self._log)

    def kill(self) -> None:
        """Ends it and all that it has started, at once."""
        if self._killed_at is None:
            self._killed_at = time.monotonic()

    def close(self) -> None:
        """Kills what runs, and waits until nothing is left."""
        self.kill()
        if self._thread.ident is not None:
            self._thread.join()

    # -- The thread ---------------------------------------------------------------

    def _run(self) -> None:
        code: Optional[int] = None
        pidfd = cluster._pidfd()
        try:
            code = self._run_process(pidfd)
        except OSError as failure:
            self._failure = errors.NotFoundError(
                f"the program {self._words[0]} cannot be started: {failure}; "
                f"{_find.WHAT_TO_DO}")
        except BaseException as failure:  # The caller raises it.
            self._failure = failure
        finally:
            if pidfd >= 0:
                os.close(pidfd)
            self._tell(Event("end", code))

    def _run_process(self, pidfd: int) -> int:
        words, inherited = list(self._words), []
        if pidfd >= 0:
            words.append(f"--parent_pidfd={pidfd}")
            inherited.append(pidfd)
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=inherited, start_new_session=True,
            env=_environment())
        self._process = process
        assert process.stdin and process.stdout and process.stderr
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ, self._take_line)
                selector.register(process.stderr, selectors.EVENT_READ, self._take_log)
                rests: Dict[int, bytes] = {}
                while selector.get_map():
                    for key, _ in selector.select(_KILL_PERIOD_SECONDS):
                        descriptor = key.fd
                        piece = os.read(descriptor, 1 << 16)
                        if not piece:
                            selector.unregister(key.fileobj)
                            piece = b"\n" if rests.get(descriptor) else b""
                        *lines, rest = (rests.pop(descriptor, b"") + piece).split(b"\n")
                        rests[descriptor] = rest[:_LINE_BYTES]
                        for line in lines:
                            key.data(line.decode(errors="replace"))
                    self._kill_if_asked(process)
                    # What it has started may have its pipes for a moment longer.
                    if process.poll() is not None and not selector.select(0):
                        break
            while process.poll() is None:
                self._kill_if_asked(process)
                try:
                    process.wait(_KILL_PERIOD_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
            return process.returncode
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()

    def _kill_if_asked(self, process: "subprocess.Popen[bytes]") -> None:
        """The second signal kills what it has started; so would its own death."""
        if self._killed_at is None or process.poll() is not None:
            return
        late = time.monotonic() - self._killed_at > _KILL_SECONDS
        process.send_signal(signal.SIGKILL if late else signal.SIGTERM)

    def _take_line(self, line: str) -> None:
        """A line of standard output; those that are no JSON are for people."""
        if not line.startswith("{"):
            return
        try:
            told = json.loads(line)
        except ValueError:
            return
        if "answer" in told:
            self._tell(Event("answer", (told["answer"], told["error"])))
            return
        for kind in ("progress", "evaluation", "checkpoint_dir"):
            if kind in told:
                self._tell(Event(kind, told[kind]))

    def _take_log(self, line: str) -> None:
        with self._changed:
            self._log.append(line)

    def _tell(self, event: Event) -> None:
        with self._changed:
            # Of lines that nobody has looked at only the newest is kept.
            if (event.kind == "progress" and self._events
                    and self._events[-1].kind == "progress"):
                self._events.pop()
            self._events.append(event)
            self._changed.notify_all()


# What says of a process which one of a job it is, beside PADDLE_...
_ROLE = ("TRAINING_ROLE", "POD_IP", "SYS_JOB_ID", "OARLOCK_ALONE", "OARLOCK_LISTEN_FD",
         "OARLOCK_RESTART", "OARLOCK_RESTART_TOGETHER")


def _environment() -> Dict[str, str]:
    """This process's, with what readers of columns need to run this package."""
    # A role of this process's is not one of the child's.
    environment = {name: value for name, value in os.environ.items()
                   if not (name.startswith("PADDLE_") or name in _ROLE)}
    environment.setdefault("OARLOCK_PYTHON", sys.executable)
    folder = os.path.dirname(_find.PACKAGE)
    if folder not in [*site.getsitepackages(), site.getusersitepackages()]:
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = folder + (os.pathsep + before if before else "")
    return environment


def failure_of(log: List[str], code: int) -> str:
    """Why the command failed: its own line, or that of the first process that did."""
    marked = "oarlock train: "
    for line in log:
        if line.strip().startswith(marked):
            return line.strip()[len(marked):]
    for line in log:
        # "2026-11-28 17:40:15.153 E launcher  ..."
        words: Tuple[str, ...] = tuple(line.split(None, 4))
        if len(words) == 5 and words[2] == "E":
            return words[4]
    if code < 0:
        return f"the command was ended by signal {-code}"
    return (log[-1].strip() if log and log[-1].strip()
            else f"the command ended with exit code {code}")
