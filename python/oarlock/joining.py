"""How a program comes to a job: connect() and join()."""

import time
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from oarlock import _library, _log, errors
from oarlock.job import Job


def _client_config(address: Union[str, Sequence[str], None],
                   options: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """JSON of ClientConfig, and what the environment says of this process."""
    role: Dict[str, Any] = {}
    if address is None:
        role = _library.role()
        if not role["server_endpoints"]:
            raise errors.InvalidArgumentError(
                "no address is given, and the environment names no servers "
                f"({role['reason']}); give host:port of each")
        endpoints = list(role["server_endpoints"])
        options.setdefault("job_id", role["job_id"])
    elif isinstance(address, str):
        endpoints = [each.strip() for each in address.split(",")]
    else:
        endpoints = list(address)
    wire = options.pop("wire", None)
    config = {"server_endpoints": endpoints}
    if wire is not None:
        config["pull_format"] = config["push_format"] = wire
    config.update({name: value for name, value in options.items()
                   if value is not None})
    return config, role


def connect(address: Union[str, Sequence[str], None] = None, *,
            mode: str = "async", **options: Any) -> Job:
    """Connects to the servers of a job as a reader.

    A reader pulls and asks; it creates, counts, touches and blocks nothing.

    Args:
        address: "host:port,host:port" or a list, all servers in their order; None:
            what the environment says.
        mode: of the job's tables, "async" or "sync".
        options: fields of ClientConfig: job_id, token_file, tls_cert_file,
            connect_timeout_s (60), rpc_timeout_s (8) ..., and wire: how values travel,
            "float32", "bfloat16" or "float16".

    Raises:
        UnavailableError: no server answered in time.
        FailedPreconditionError: another job, or another list of servers.
        UnauthenticatedError: the servers want a token, or another one.
        InvalidArgumentError: an option or mode is not legal, or no address is known.
    """
    config, _ = _client_config(address, options)
    return Job(config, mode)._connect()


def join(address: Union[str, Sequence[str], None] = None, *,
         rank: Optional[int] = None, world: Optional[int] = None,
         mode: str = "async", take_over: bool = False,
         on_death: str = "repair", run: Optional[str] = None,
         wait_for_rank: Optional[float] = 10.0, **options: Any) -> Job:
    """Joins a run of the job as a worker.

    Args:
        address: as in connect().
        rank, world: this worker's number, from 0, and that of all workers of the run;
            None: what the environment says, else 0 and what the servers say. The
            first worker of a run says its size.
        take_over: take the place of a worker of this rank that is alive.
        on_death: what becomes of a push that a worker has sent to some servers only
            when it dies. "repair": whoever leases its part next completes it, with
            the same keys. "cut": it cannot be repeated; the run is over, and the
            servers go back to the newest checkpoint, or to the beginning. The
            same in all workers of a run. A step without a part is never repaired,
            nor one in sync mode.
        run: the run's name, chosen by the program and the same in all of its workers.
            A worker that a supervisor starts again then takes part in that run, or is
            refused where the others have finished it; without a name it would begin
            the next run, and do the work anew.
        mode, options: as in connect().
        wait_for_rank: seconds to wait for the rank, since the lease of a worker that
            was killed runs out a few seconds later; None: not at all.

    Raises:
        AlreadyExistsError: a worker of this rank is alive; names its host and pid.
        InvalidArgumentError: a rank beyond the run, or as of connect().
        FailedPreconditionError: the run of this name is over, or another one is under
            way; or as of connect().
        UnavailableError, UnauthenticatedError: as of connect().
    """
    config, role = _client_config(address, options)
    if rank is None:
        rank = int(role.get("rank", 0)) if role.get("role") == "worker" else 0
    if world is None:
        world = int(role.get("world", 0)) if role.get("role") == "worker" else 0
    deadline = time.monotonic() + (wait_for_rank or 0)
    told = False
    while True:
        job = Job(config, mode)
        try:
            return job._join({"rank": rank, "world": world, "take_over": take_over,
                              "on_death": on_death, "run": run or ""})
        except errors.AlreadyExistsError as taken:
            job.leave()
            if time.monotonic() >= deadline:
                raise
            if not told:
                _log.logger().warning(
                    "%s; waiting up to %.0f s for its lease to run out", taken,
                    wait_for_rank)
                told = True
            time.sleep(0.2)
        except BaseException:
            job.leave()
            raise
