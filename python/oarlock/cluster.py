"""Servers on this machine, for as long as this process uses them."""

import atexit
import json
import os
import select
import signal
import subprocess
import threading
import time
import types
from typing import Any, Dict, List, Optional, Type

from oarlock import _find, errors, job, joining

# How long servers may take to come up, and to end.
_START_SECONDS = 60.0
_END_SECONDS = 10.0


def _pidfd() -> int:
    """A descriptor that is readable when this process has ended; -1: none here."""
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):  # Python 3.8, or a kernel before 5.3.
        return -1


class LocalCluster:
    """Servers on free ports of 127.0.0.1, which stay for one run after another.

    A context manager: leaving the block ends them. They end with this process in any
    case, whatever it dies of. One process of the program `oarlock cluster` starts and
    watches them, and starts a server that dies again, with all that it had.

    Args:
        servers: how many, 1 to 256.
        checkpoint_dir: of checkpoints; None: a temporary folder, which goes in the end.
        log_dir: of the servers' logs; None: a temporary folder, which goes as well.
        flags: further flags of `oarlock cluster`, for example lease_s=2,
            durability="checkpoint", resume=True.

    Attributes:
        server_endpoints: ["host:port", ...], by the servers' indices.
        address: the same as "host:port,host:port", for oarlock.connect() and
            oarlock.join() elsewhere.
        token_file, job_id: what clients elsewhere give.
        pid: of the process that watches the servers.

    Raises:
        UnavailableError: they did not come up, and why.
        TimeoutError: they did not come up within 60 seconds.
        NotFoundError: the program `oarlock` cannot be started.
    """

    def __init__(self, servers: int = 1, *, checkpoint_dir: Optional[str] = None,
                 log_dir: Optional[str] = None, **flags: Any) -> None:
        words = [_find.program().path, "cluster", f"--servers={servers}"]
        given = {"checkpoint_dir": checkpoint_dir, "log_dir": log_dir, **flags}
        for name, value in given.items():
            if value is not None:
                text = str(value).lower() if isinstance(value, bool) else value
                words.append(f"--{name}={text}")
        self._pidfd = _pidfd()
        inherited = []
        if self._pidfd >= 0:
            words.append(f"--parent_pidfd={self._pidfd}")
            inherited.append(self._pidfd)
        self._lines: List[str] = []
        self._closing = False
        self._owner = os.getpid()
        try:
            # A session of its own: Ctrl-C at a terminal is this process's alone.
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, pass_fds=inherited, start_new_session=True)
        except OSError as failure:
            self._close_pidfd()
            raise errors.NotFoundError(
                f"the program {words[0]} cannot be started: {failure}; "
                f"{_find.WHAT_TO_DO}") from None
        self._reader = threading.Thread(target=self._read_log, daemon=True,
                                        name="oarlock-cluster")
        self._reader.start()
        atexit.register(self.close)
        try:
            described = self._read_address()
        except BaseException:
            self.close()
            raise
        self.server_endpoints: List[str] = described["server_endpoints"]
        self.address = ",".join(self.server_endpoints)
        self.token_file: str = described["token_file"]
        self.job_id: str = described["job_id"]
        self.log_dir: str = described["log_dir"]
        self.checkpoint_dir: str = described["checkpoint_dir"]
        self.pid = self._process.pid

    def _read_address(self) -> Dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + _START_SECONDS
        text = b""
        while not text.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._process.stdout], [], [],
                                        max(0.0, min(left, 0.2)))
            if ready:
                piece = os.read(self._process.stdout.fileno(), 65536)
                if not piece:
                    code = self._process.wait()
                    self._reader.join(1.0)
                    raise errors.UnavailableError(
                        f"the servers did not start (exit code {code}): "
                        + (" | ".join(self._lines[-5:]) or "no line says why"))
                text += piece
            elif left <= 0:
                raise errors.TimeoutError(
                    f"the servers did not start within {_START_SECONDS:.0f} s")
        described: Dict[str, Any] = json.loads(text)
        return described

    def _read_log(self) -> None:
        """What the watching process says goes to the logger."""
        from oarlock import _log

        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            del self._lines[:-100]
            # "2026-11-28 17:40:15.153 W cluster  ..."
            words = text.split(" ", 3)
            level = {"W": 30, "E": 40}.get(words[2] if len(words) > 3 else "", 20)
            if self._closing:  # That it ends was asked for.
                level = min(level, 20)
            _log.logger().log(level, "%s", text)

    def _client_options(self, options: Dict[str, Any]) -> Dict[str, Any]:
        if self._process.poll() is not None:
            raise errors.ClosedError("the cluster was closed; make another one")
        return {"job_id": self.job_id, "token_file": self.token_file, **options}

    def connect(self, **options: Any) -> job.Job:
        """A reader of these servers.

        Args:
            options: as of oarlock.connect(), without the address.

        Raises:
            ClosedError: the cluster was closed.
        """
        return joining.connect(self.server_endpoints, **self._client_options(options))

    def join(self, *, rank: int = 0, world: int = 1, **options: Any) -> job.Job:
        """A worker of these servers.

        Args:
            rank, world: this worker's number, from 0, and that of all workers of the
                run.
            options: as of oarlock.join(), without the address.

        Raises:
            ClosedError: the cluster was closed.
        """
        return joining.join(self.server_endpoints, rank=rank, world=world,
                        **self._client_options(options))

    def close(self) -> None:
        """Ends the servers. Idempotent; in a forked child it does nothing."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        self._closing = True
        process = self._process
        if process.poll() is None:
            try:
                process.send_signal(signal.SIGTERM)
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reader.join(1.0)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._process.poll() is not None else self.address
        return f"<oarlock.LocalCluster {state}>"

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.LocalCluster cannot be pickled; send its address "
                        "and token_file")
