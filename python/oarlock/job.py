"""A job's servers, as a reader or as a worker sees them."""

import ctypes
import json
import threading
import types
import weakref
from typing import (Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Type,
                    Union)

from oarlock import (_events, _library, _log, _operation, errors, evaluation, rules,
                     steps, tables)

MODES = ("async", "sync")
# As cluster/wire_version.h has it: the data order of leases by number.
_NUMBERS_ALONE = "examples by number alone"


class Job:
    """The servers of a job. Made by connect() and join(); a context manager.

    Thread-safe. A reader creates, counts, touches and blocks nothing; a worker takes
    part in the run until it leaves.

    Attributes:
        mode: "async" or "sync", of the tables that it creates.
        rank, world: of a worker, its number and that of all workers of the run; of a
            reader None.
        run: number of the run; of a reader None.
    """

    def __init__(self, config: Dict[str, Any], mode: str = "async") -> None:
        if mode not in MODES:
            raise errors.InvalidArgumentError(
                f"mode is {mode!r}; legal are {', '.join(MODES)}")
        self.mode = mode
        self._config = config
        self._handle = 0
        self._tables: Dict[str, Any] = {}
        # Works that the run before has left in part, and this job has not leased.
        self._unfinished: Set[str] = set()
        self._join_text = b""
        # Sync mode: how often all parts of a work were trained.
        self._turns: Dict[str, int] = {}
        # Epochs of evaluations that were begun without one, by name.
        self._evaluations: Dict[str, int] = {}
        self._lock = threading.Lock()
        self.rank: Optional[int] = None
        self.world: Optional[int] = None
        self.run: Optional[int] = None
        # The library writes here: Ctrl-C may come as soon as it has.
        handle = ctypes.c_uint64()
        self._finalizer = weakref.finalize(self, _free_client, handle)
        text = _library.to_json(config)
        _library.call(_library.library().client_create, text, len(text),
                      ctypes.byref(handle))
        self._handle = handle.value
        self._events = _events.Events(handle.value)
        _log.follow()

    # -- Life -----------------------------------------------------------------

    def _connect(self) -> "Job":
        _operation.run(_library.library().connect_begin, self._handle)
        return self

    def _join(self, join: Dict[str, Any]) -> "Job":
        self._join_text = text = _library.to_json(join)
        registered = _operation.run(_library.library().join_begin, self._handle,
                                    text, len(text))
        # Of another data order it is of a program of another kind: no work of this
        # one, whatever its name.
        self._unfinished = {
            left["phase_name"] if left.get("data_order", "") == _NUMBERS_ALONE
            else f"{left['phase_name']}#" for left in registered.get("unfinished", [])}
        self.rank = int(join["rank"])
        self.world = int(registered["num_workers"])
        self.run = int(registered["run"])
        return self

    def _go_on_with(self, work: Optional[str]) -> None:
        """Before this run leases a work, or pushes without one: what the run before
        has pushed to some servers only is completed, or the servers go back."""
        if not self._unfinished:
            return
        # "train/0#2" is the second turn of "train/0".
        same = {name for name in self._unfinished
                if name.split("#")[0] == work and not name.endswith("#")}
        self._unfinished -= same
        if same or not self._unfinished:
            return
        names = ", ".join(f"'{name.rstrip('#')}'" for name in sorted(self._unfinished))
        _log.logger().warning(
            "the run before has pushed a part of %s to some servers only, and this "
            "one does not go on with it: the servers go back to the newest "
            "checkpoint, or to the beginning", names)
        reason = f"this run does not go on with {names}".encode()
        try:
            _operation.run(_library.library().leave_begin, self._handle,
                           _library.LEAVE_ROLL_BACK, reason, len(reason))
        except errors.FencedError:
            pass  # Another worker of this run was first.
        self._join(json.loads(self._join_text))
        with self._lock:
            configs = [table.config for table in self._tables.values()]
        for config in configs:
            text = _library.to_json(config)
            _operation.run(_library.library().create_table_begin, self._handle,
                           text, len(text))

    @property
    def is_worker(self) -> bool:
        """Whether it takes part in a run."""
        return self.rank is not None

    def leave(self, error: Optional[BaseException] = None) -> None:
        """Ends this worker's part, and the connections. Idempotent.

        Args:
            error: why it gives up; what it had leased goes to others.
        """
        if self._handle == 0:
            return
        try:
            if self.is_worker:
                reason = ("" if error is None
                          else f"{type(error).__name__}: {error}"[:500]).encode()
                _operation.run(_library.library().leave_begin, self._handle,
                               _library.LEAVE_DONE if error is None
                               else _library.LEAVE_GIVE_UP, reason, len(reason))
        finally:
            self._handle = 0
            self._finalizer()

    close = leave

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        if error is None:
            self.leave()
            return
        try:
            self.leave(error)
        except errors.Error:  # The first error is the one to tell.
            pass

    def check_alive(self) -> None:
        """Raises why this worker takes part no more, if so. Asks nobody.

        Raises:
            FencedError: another one has its place, or its run is over.
            CancelledError: the job is being ended, and why.
        """
        _library.call(_library.library().alive, self._handle)

    # -- Tables ---------------------------------------------------------------

    def create_table(self, name: str, dim: int, optimizer: rules.Optimizer,
                     initial: rules.Initial = 0.0, *,
                     admission: Optional[rules.Admission] = None,
                     eviction: Optional[rules.Eviction] = None,
                     ctr: Optional[rules.Ctr] = None, seed: int = 0,
                     reduction: str = "mean",
                     memory_budget_bytes: int = 0) -> tables.Table:
        """Creates a table of rows, or opens it if it is there and the same.

        Args:
            name: unique in the job; the table's id follows from it.
            dim: floats of a row.
            optimizer: how gradients change rows.
            initial: values of a row that nobody has pushed; a number is a constant.
            admission: which keys get a row; None: every one.
            eviction: which rows go; None: none.
            ctr: rows remember shows and clicks.
            seed: of initial values, with the table's id and the key.
            reduction: how a sync round combines its workers' gradients, "mean" or
                "sum".
            memory_budget_bytes: of rows and their index on all servers; rows beyond
                it lie on the servers' disks (--tier_dir). 0: no limit.

        Raises:
            AlreadyExistsError: it is there and differs.
            InvalidArgumentError: a value is not legal, or a table of another mode.
            FailedPreconditionError: a reader creates nothing; or a memory budget, and
                servers without --tier_dir.
        """
        sparse: Dict[str, Any] = {
            "dim": dim,
            "initializer": rules.initial_config(initial),
            "accessor": "PLAIN" if ctr is None else "CTR",
        }
        if ctr is not None:
            sparse["ctr"] = ctr.to_config()
        if admission is not None:
            sparse["admission"] = admission.to_config()
        if eviction is not None:
            sparse["eviction"] = eviction.to_config()
        if memory_budget_bytes:
            sparse["memory_budget_bytes"] = memory_budget_bytes
        config = self._table_config(name, optimizer, seed, reduction)
        config["sparse"] = sparse
        table: tables.Table = self._create(config)
        return table

    def create_dense(self, name: str, parameters: Dict[str, Sequence[int]],
                     optimizer: rules.Optimizer,
                     initial: "Union[rules.Initial, Dict[str, rules.Initial]]" = 0.0,
                     *, seed: int = 0, reduction: str = "mean",
                     block_size: int = 16384) -> tables.DenseTable:
        """Creates dense parameters, or opens them if they are there and the same.

        Args:
            name, optimizer, seed, reduction: as of create_table().
            parameters: {name: shape}, in the order in which they lie.
            initial: for all, or {name: initial}; those left out begin with 0.
            block_size: floats of a block, the unit that a server has; up to 2^22.

        Raises:
            AlreadyExistsError, InvalidArgumentError: as of create_table().
        """
        import math

        if isinstance(initial, dict):
            for each in initial:
                if each not in parameters:
                    raise errors.InvalidArgumentError(
                        f"initial has '{each}', which is no parameter; they are "
                        f"{', '.join(parameters)}")
        entries = []
        offset = 0
        for each, shape in parameters.items():
            start = initial.get(each, 0.0) if isinstance(initial, dict) else initial
            entries.append({"name": each, "offset": offset,
                            "shape": [int(n) for n in shape],
                            "initializer": rules.initial_config(start)})
            offset += math.prod(shape)
        config = self._table_config(name, optimizer, seed, reduction)
        config["dense"] = {"size": offset, "block_size": block_size,
                           "parameters": entries}
        table: tables.DenseTable = self._create(config)
        return table

    def _table_config(self, name: str, optimizer: rules.Optimizer, seed: int,
                      reduction: str) -> Dict[str, Any]:
        return {
            "name": name,
            "mode": self.mode.upper(),
            "reduction": reduction.upper(),
            "optimizer": optimizer.to_config(),
            "seed": seed,
        }

    def _create(self, config: Dict[str, Any]) -> Any:
        text = _library.to_json(config)
        return self._table_of(_operation.run(
            _library.library().create_table_begin, self._handle, text, len(text)))

    def _table_of(self, config: Dict[str, Any]) -> Any:
        # A reader pushes nothing, whose mode would matter.
        if self.is_worker and config["mode"] != self.mode.upper():
            raise errors.InvalidArgumentError(
                f"table '{config['name']}' is of mode {config['mode'].lower()}, this "
                f"job of mode {self.mode}; all tables of a client have one mode")
        kind = tables.Table if "sparse" in config else tables.DenseTable
        with self._lock:
            return self._tables.setdefault(config["name"], kind(self, config))

    def table(self, name: str) -> Any:
        """Opens a table that is there: a Table or a DenseTable.

        Args:
            name: of the table.

        Raises:
            NotFoundError: the job has no table of this name.
        """
        with self._lock:
            if name in self._tables:
                return self._tables[name]
        text = name.encode()
        return self._table_of(_operation.run(
            _library.library().open_table_begin, self._handle, text, len(text)))

    def pull(self, pulls: "Sequence[Tuple[tables.Table, Any]]", *,
             padding: Optional[int] = None,
             timeout: Optional[float] = None) -> List[tables.Rows]:
        """Pulls rows of several tables, in one message to each server.

        Args:
            pulls: [(table, keys), ...].
            padding, timeout: as of Table.pull, which also says what is raised.

        Returns:
            Rows of each pull.
        """
        return self.pull_async(pulls, padding=padding).result(timeout)

    def pull_async(self, pulls: "Sequence[Tuple[tables.Table, Any]]", *,
                   padding: Optional[int] = None
                   ) -> "_operation.Future[List[tables.Rows]]":
        """As pull(), but returns at once.

        Args:
            pulls, padding: as of pull().
        """
        return tables.pull_rows(self, pulls, padding)

    # -- Steps ----------------------------------------------------------------

    def step(self, part: Optional[steps.Part] = None) -> steps.Step:
        """Begins a push; see Step.

        Args:
            part: whose examples' gradients it has. Without one nobody can complete
                the push if this worker dies in it: the run is over then, and the
                servers go back to the newest checkpoint, or to the beginning.
        """
        if part is None:
            self._go_on_with(None)
        return steps.Step(self, part)

    def lease(self, name: str, *, epoch: int = 0, total: int, block: int = 4096,
              again: bool = False) -> Iterator[steps.Part]:
        """Iterates over the parts of a work that this worker gets.

        Each of examples 0 to total - 1 is in one part of one worker, and its step is
        applied once, whoever dies. A part for which no step was made counts as
        trained when the next one is asked for. The loop ends for all workers when
        nothing is left, also of what dead workers had.

        Args:
            name, epoch: of the work, for example "train", 0: the same in all workers.
            total: examples.
            block: examples of a part; the last one may be shorter.
            again: where this run has finished the work, begin it anew.

        Raises:
            FailedPreconditionError: this run has finished it, and `again` is False.
        """
        # Parts of rounds are never completed.
        self._go_on_with(f"{name}/{epoch}" if self.mode == "async" else None)
        if self.mode == "sync":
            yield from self._split(name, epoch, total, block, again)
            return
        config = {"name": name, "epoch": epoch, "total": total, "block": block,
                  "begins": True, "again": again}
        parts = 0
        while True:
            text = _library.to_json(config)
            config["begins"] = False
            leased = _operation.run(_library.library().lease_begin, self._handle,
                                    text, len(text))
            if int(leased["lease"]) == 0:
                if not parts:
                    _log.logger().info("'%s/%d': others have all parts, and none was "
                                       "left for this worker", name, epoch)
                return
            part = steps.Part(leased)
            parts += 1
            yield part
            if not part._stepped:
                self.step(part)._push()

    def _split(self, name: str, epoch: int, total: int, block: int,
               again: bool) -> Iterator[steps.Part]:
        """The parts of a work in sync mode: part i is worker i mod world's."""
        assert self.rank is not None and self.world is not None
        work = f"{name}/{epoch}"
        turns = self._turns.get(work, 0)
        if turns > 0 and not again:
            raise errors.FailedPreconditionError(
                f"'{work}' is finished: all of its parts were trained in this run; "
                "lease another epoch or another name, or begin it anew (again=True)")
        here = work if turns == 0 else f"{work}#{turns + 1}"
        self.join_rounds()
        try:
            # All are members before the first round.
            self.barrier(f"{here}/members")
            for begin in range(self.rank * block, total, self.world * block):
                part = steps.Part({"lease": 0, "repairs": False, "ranges": [
                    {"begin": begin, "end": min(begin + block, total)}]})
                yield part
                if not part._stepped:
                    self.step(part)._push()
        finally:
            self.leave_rounds()
        self.barrier(f"{here}/trained")
        self._turns[work] = turns + 1

    def join_rounds(self) -> None:
        """Sync mode: this worker has a part in every round from the next one on.

        A step is its part of one round, which is applied when all have pushed.
        lease() does this by itself.
        """
        _operation.run(_library.library().rounds_begin, self._handle, 1)

    def leave_rounds(self) -> None:
        """Sync mode: the others' rounds wait for this worker no more."""
        _operation.run(_library.library().rounds_begin, self._handle, 0)

    # -- The job --------------------------------------------------------------

    def barrier(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Waits until all live workers of the run have called it with this name.

        Args:
            name: each is passed once in a run: who comes later does not wait.
            timeout: seconds; None: as long as it takes.

        Raises:
            TimeoutError: not within `timeout`; it may be called again.
        """
        text = name.encode()
        _operation.run(_library.library().barrier_begin, self._handle, text,
                       len(text), timeout=timeout)

    def evaluation(self, name: str = "test", *,
                   epoch: Optional[int] = None) -> "evaluation.Evaluation":
        """Metrics over the examples of all workers.

        Args:
            name: not that of a work.
            epoch: the same in all workers; None: one more than at the last call with
                this name, from 0.
        """
        if epoch is None:
            epoch = self._evaluations.get(name, 0)
        self._evaluations[name] = epoch + 1
        return evaluation.Evaluation(self, name, epoch)

    def call(self, method: str, request: Optional[Dict[str, Any]] = None, *,
             server: int = 0, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Calls the servers' control plane.

        Args:
            method: such as "CoordinatorService/GetJobStatus".
            request: JSON of the method's request (proto/v1/).
            server: index of the server; the coordinator is 0.
            timeout: seconds; None: as long as it takes.

        Returns:
            JSON of its response; 64-bit integers are text there.

        Raises:
            InvalidArgumentError: no such method, server or field; names the methods.
        """
        name, text = method.encode(), _library.to_json(request or {})
        return _operation.run(_library.library().call_begin, self._handle, server,
                              name, len(name), text, len(text), timeout=timeout)

    def status(self) -> Dict[str, Any]:
        """How the job stands: JSON of JobStatusResponse."""
        return self.call("CoordinatorService/GetJobStatus")

    def checkpoint(self, *, best: bool = False,
                   timeout: Optional[float] = None) -> str:
        """Makes a checkpoint; returns its folder when it is durable.

        Args:
            best: it stays until the next one that is the best.
            timeout: seconds; None: as long as it takes.

        Raises:
            FailedPreconditionError: the servers have no folder for checkpoints.
            TimeoutError: not within `timeout`.
        """
        made = self.call("CoordinatorService/Checkpoint", {"best": best},
                         timeout=timeout)
        return str(made["directory"])

    def drain(self, reason: str = "asked for by a client") -> None:
        """Ends the job: workers learn it and leave, then servers end.

        Args:
            reason: for the servers' log and the workers' errors.
        """
        self.call("CoordinatorService/Drain", {"reason": reason})

    def __repr__(self) -> str:
        who = f"worker {self.rank} of {self.world}" if self.is_worker else "reader"
        state = who if self._handle else "closed"
        return (f"<oarlock.Job at {','.join(self._config['server_endpoints'])}, "
                f"{state}>")

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.Job cannot be pickled; send its address, and "
                        "connect() or join() in the other process")


def _free_client(handle: "ctypes.c_uint64") -> None:
    if handle.value:
        _library.library().client_free(handle, None)
