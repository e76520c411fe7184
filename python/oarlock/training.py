"""Training with the engine: one call, which runs `oarlock train`."""

import dataclasses
import json
import os
import shutil
import tempfile
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from oarlock import _find, cluster, errors
from oarlock import features as features_module
from oarlock._job_process import JobProcess, failure_of
from oarlock._progress import ProgressDisplay
from oarlock._scratch import Scratch, is_paths

# Flags that arguments of train() stand for.
_ARGUMENTS = {
    "model": "model", "features": "features", "train_files": "data",
    "test_files": "test", "server_num": "servers", "pserver_endpoints": "servers",
    "worker_num": "workers", "trainer_num": "workers", "trainers": "workers",
}
# Flags of a process that is one role of a job, or that train() gives by itself.
_NOT_HERE = ("role", "trainer_id", "current_endpoint", "alone", "events",
             "parent_pidfd", "help", "version")
# What an evaluation has beside metrics.
_NO_METRICS = ("phase_name", "file", "examples", "trained_examples", "trained_steps",
               "unix_seconds", "best", "checkpoint")

Servers = Union[int, str, Sequence[str], cluster.LocalCluster]
FeatureList = Union[features_module.Features, Sequence[features_module.Feature]]
PathLike = Union[str, "os.PathLike[str]"]


class Stop(Exception):
    """Raised by an `on_evaluation` to end training well.

    Training ends after the batches that are under way; the test files are evaluated
    once more, a checkpoint is made, and train() returns its result.

    Args:
        reason: one sentence, which becomes `stop_reason` of the summary.
    """

    def __init__(self, reason: str = "oarlock.Stop was raised") -> None:
        super().__init__(reason)


@dataclasses.dataclass(frozen=True)
class TrainingEvaluation:
    """An evaluation of the test files, over all workers. Made by train().

    Attributes:
        name: "test/0": after epoch 0; "evaluation/3": the fourth one beside training;
            "predict/7": file 7 of online training, before it is trained.
        epoch: the number in the name.
        examples: that were predicted.
        metrics: by name, "auc", "logloss", "label_mean" ...; NaN where there is
            nothing to tell.
        trained_examples, trained_steps: of the job, when the evaluation began.
        unix_seconds: when it ended.
        best: it was the best one so far, by early_stop_metric.
        checkpoint: folder of the checkpoint that is kept for it; None: none.
        file: of "predict", its name; else empty.
    """

    name: str
    epoch: int
    examples: int
    metrics: Dict[str, float]
    trained_examples: int
    trained_steps: int
    unix_seconds: float
    best: bool
    checkpoint: Optional[str]
    file: str

    @property
    def auc(self) -> float:
        """metrics["auc"]: area under the ROC curve."""
        return self.metrics["auc"]

    @property
    def logloss(self) -> float:
        """metrics["logloss"]: mean of -(y ln p + (1 - y) ln(1 - p)), in nats."""
        return self.metrics["logloss"]


class TrainingResult:
    """What train() has done. Made by train().

    A checkpoint for which train() was given no folder lies in a temporary one, which
    goes when the result does.

    Attributes:
        evaluations: in their order, List[TrainingEvaluation].
        summary: `summary.json`, as docs/configuration.md has it; empty where the job
            was interrupted before its end.
        checkpoint: folder of the newest checkpoint; None: none was made, as without
            servers, or servers that stay keep it where this machine does not see it.
        log_dir: folder of the logs; None: they were not wanted, and are gone.
        stopped: whether training ended before its data did.
    """

    def __init__(self, evaluations: List[TrainingEvaluation], summary: Dict[str, Any],
                 checkpoint: Optional[str], log_dir: Optional[str], stopped: bool,
                 scratch: Optional[str]) -> None:
        self.evaluations = evaluations
        self.summary = summary
        self.checkpoint = checkpoint
        self.log_dir = log_dir
        self.stopped = stopped
        if scratch is not None:
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)

    def __repr__(self) -> str:
        last = self.evaluations[-1] if self.evaluations else None
        metrics = "" if last is None else "".join(
            f", {name} {value:.4f}" for name, value in last.metrics.items())
        return (f"<oarlock.TrainingResult {len(self.evaluations)} evaluations{metrics}, "
                f"checkpoint {self.checkpoint}>")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has ended train(), which has made a checkpoint before.

    Attributes:
        checkpoint: its folder; None: none could be made. With the same `checkpoint_dir`
            and `resume=True` training goes on from it.
        result: what there was until then, a TrainingResult.
    """

    def __init__(self, text: str, result: TrainingResult) -> None:
        super().__init__(text)
        self.checkpoint = result.checkpoint
        self.result = result


def train(model: str,
          features: Optional[FeatureList] = None,
          *, data: Any = None, test: Any = None, servers: Servers = 1,
          workers: int = 1, load: Optional[PathLike] = None,
          checkpoint_dir: Optional[PathLike] = None,
          log_dir: Optional[PathLike] = None,
          on_evaluation: Optional[Callable[[TrainingEvaluation], Any]] = None,
          progress: bool = True, scratch_mb: int = 4096,
          **flags: Any) -> TrainingResult:
    """Trains a model with the engine, by processes of its own.

    Ctrl-C ends the job with a checkpoint; a second one ends it at once. Nothing of it
    runs when train() has returned or raised, or when this process has ended. Threads
    may train at a time; the line of progress is the main thread's.

    Args:
        model: such as "deepfm"; see docs/models.md.
        features: of columns, Features or a list of them; None: `data` is text of
            `data_format`.
        data: what to train on. Paths, patterns or URLs of files: of Parquet if there
            are `features`, else as `data_format` says. Or data in memory, with
            `features`: what has `__arrow_c_stream__` (a table of pyarrow or polars, a
            frame of pandas 2.2, a relation of duckdb), a dict of arrays, or an iterable
            of these, of which only a piece is in memory. It is written once to a
            temporary folder, which goes in the end.
        test: what to evaluate on after each epoch, likewise; None: nothing.
        servers: a number: so many on this machine, for this job. 0: none; one process
            trains alone, faster with small models, and leaves no checkpoint.
            "host:port,host:port", a list of these or a LocalCluster: servers that stay,
            for which this is one run; rows and checkpoints are theirs.
        workers: processes that train; each has `thread_num` threads.
        load: a checkpoint whose rows and parameters it begins with.
        checkpoint_dir: of checkpoints; None: a temporary folder that goes with the
            result, and one checkpoint in the end.
        log_dir: of logs and summary.json; None: a temporary folder, which stays if
            the job fails.
        on_evaluation: called with each evaluation in its order, in this thread. Raising
            Stop ends training well, another exception with a checkpoint; that
            exception is raised then.
        progress: show a line on a terminal or in a notebook.
        scratch_mb: the most that data in memory may take in the temporary folder, MB.
        flags: flags of `oarlock train` by their names, for example epochs=3,
            learning_rate=0.01, mode="sync", seed=7, resume=True. A list is separated by
            commas.

    Returns:
        Evaluations, summary and checkpoint.

    Raises:
        InvalidArgumentError: an argument or a flag is not legal; an unknown flag names
            the nearest one.
        TrainingError: the job failed, and why; `log_dir` has its logs.
        ResourceExhaustedError: data in memory is larger than scratch_mb, or the disk.
        NotFoundError: the program `oarlock` cannot be started, or pyarrow is missing.
        Interrupted: Ctrl-C, once, which is a KeyboardInterrupt; has the checkpoint.
    """
    call = _Call(model, features, data, test, servers, workers, load, checkpoint_dir,
                 log_dir, on_evaluation, flags)
    folder = tempfile.mkdtemp(prefix="oarlock-train-")
    try:
        return call.run(folder, progress, scratch_mb)
    finally:
        call.clean(folder)


class _Call:
    """One call of train()."""

    def __init__(self, model: str, features: Any, data: Any, test: Any,
                 servers: Servers, workers: int, load: Optional[PathLike],
                 checkpoint_dir: Optional[PathLike], log_dir: Optional[PathLike],
                 on_evaluation: Optional[Callable[[TrainingEvaluation], Any]],
                 flags: Dict[str, Any]) -> None:
        self._model = model
        if features is not None and not isinstance(features, features_module.Features):
            features = features_module.Features(features)
        self._features: Optional[features_module.Features] = features
        self._data, self._test = data, test
        self._servers, self._workers = servers, workers
        self._load = load
        self._checkpoint_dir = checkpoint_dir
        self._log_dir = log_dir
        self._on_evaluation = on_evaluation
        self._flags = flags
        self._evaluations: List[TrainingEvaluation] = []
        self._seen: Set[Tuple[str, float]] = set()
        self._began = 0.0
        # Where servers that stay have their checkpoints.
        self._servers_folder = ""
        # Folders in the temporary one that outlive the call.
        self._kept: List[str] = []
        self._check()

    # -- Arguments ----------------------------------------------------------------

    def _check(self) -> None:
        for name in self._flags:
            if name in _ARGUMENTS:
                raise errors.InvalidArgumentError(
                    f"{name} is no flag of train(); give {_ARGUMENTS[name]}=")
            if name in _NOT_HERE:
                raise errors.InvalidArgumentError(
                    f"{name} is no flag of train(), which runs a whole job")
        if isinstance(self._servers, bool) or isinstance(self._workers, bool) or (
                not isinstance(self._workers, int)) or self._workers < 1:
            raise errors.InvalidArgumentError(
                f"servers is {self._servers!r} and workers is {self._workers!r}; legal "
                "are numbers, of workers from 1 on")
        if self._servers == 0 and self._workers != 1:
            raise errors.InvalidArgumentError(
                f"workers is {self._workers} with servers=0, which is one process; give "
                "thread_num= for more threads, or servers=1")
        if self._servers == 0 and (self._load or self._checkpoint_dir):
            given = "load" if self._load else "checkpoint_dir"
            raise errors.InvalidArgumentError(
                f"{given} is for servers, and servers is 0; give servers=1")
        if self._stays and (self._load or self._checkpoint_dir):
            given = "load" if self._load else "checkpoint_dir"
            raise errors.InvalidArgumentError(
                f"{given} is given, but servers that stay have their own; give it to "
                "`oarlock server` or LocalCluster")
        if self._data is None and not self._flags.get("watch_dir"):
            raise errors.InvalidArgumentError(
                "data is missing; give paths of files, or data in memory")

    @property
    def _stays(self) -> bool:
        """The servers are there already."""
        return not isinstance(self._servers, int)

    def _words(self, folder: str, scratch: Scratch) -> List[str]:
        """The command line."""
        flags: Dict[str, Any] = {"model": self._model, "log_dir": self._logs(folder)}
        if self._features is not None:
            path = os.path.join(folder, "features.json")
            self._features.save(path)
            flags.update(features=path, data_format="parquet")
        words = [_find.program().path, "train", "--events"]
        for what, flag, value in (("data", "train_files", self._data),
                                  ("test", "test_files", self._test)):
            if value is None:
                continue
            if self._features is None and not is_paths(value):
                raise errors.InvalidArgumentError(
                    f"{what} is in memory, and features are not given, which say what "
                    "the columns are; give features")
            words += [f"--{flag}={path}" for path in scratch.paths(what, value)]
        flags.update(self._server_flags(folder))
        if self._load is not None:
            flags["load"] = os.fspath(self._load)
        flags.update(self._flags)
        return words + [f"--{name}={_flag_text(value)}"
                        for name, value in flags.items() if value is not None]

    def _server_flags(self, folder: str) -> Dict[str, Any]:
        servers = self._servers
        if servers == 0:
            return {"alone": True}
        flags: Dict[str, Any] = {"worker_num": self._workers}
        if isinstance(servers, cluster.LocalCluster):
            return {**flags, "pserver_endpoints": servers.address,
                    "token_file": servers.token_file, "job_id": servers.job_id}
        if isinstance(servers, int):
            flags.update(server_num=servers, checkpoint_dir=self._checkpoints(folder))
            if self._checkpoint_dir is None:
                flags.update(checkpoint_interval_s=0, checkpoint_keep=1)
            return flags
        return {**flags, "pserver_endpoints": servers if isinstance(servers, str)
                else ",".join(servers)}

    def _logs(self, folder: str) -> str:
        return (os.path.join(folder, "logs") if self._log_dir is None
                else os.path.abspath(os.fspath(self._log_dir)))

    def _checkpoints(self, folder: str) -> str:
        return (os.path.join(folder, "checkpoints") if self._checkpoint_dir is None
                else os.path.abspath(os.fspath(self._checkpoint_dir)))

    # -- The job ------------------------------------------------------------------

    def run(self, folder: str, progress: bool, scratch_mb: int) -> TrainingResult:
        """Runs the job; `folder` is temporary."""
        scratch = Scratch(os.path.join(folder, "data"), scratch_mb)
        process = JobProcess(self._words(folder, scratch))
        # Evaluations of before are those of the job that this one resumes.
        self._began = time.time()
        try:
            process.start()
            with ProgressDisplay(progress) as display:
                try:
                    code = self._follow(process, display)
                except KeyboardInterrupt:
                    display.clear()
                    code = self._end_early(process, "interrupted in Python")
                    raise self._interrupted(folder, code) from None
                except BaseException as failure:
                    display.clear()
                    self._end_early(
                        process, f"on_evaluation raised {type(failure).__name__}")
                    raise
            return self._finish(process, folder, code)
        finally:
            _close(process)

    def _follow(self, process: JobProcess, display: ProgressDisplay) -> int:
        """Until the job has ended; its exit code."""
        while True:
            event = process.next_event()
            if event.kind == "end":
                return int(event.content)
            if event.kind == "checkpoint_dir":
                self._servers_folder = event.content
            elif event.kind == "progress":
                display.show(event.content)
            elif event.kind == "evaluation":
                evaluation = self._take(event.content)
                if evaluation is None or self._on_evaluation is None:
                    continue
                display.clear()
                try:
                    self._on_evaluation(evaluation)
                except Stop as stop:
                    process.command(f"stop {stop}")

    def _take(self, content: Dict[str, Any]) -> Optional[TrainingEvaluation]:
        """An evaluation that was not known yet."""
        evaluation = _evaluation_of(content)
        known = (evaluation.name, evaluation.unix_seconds)
        if known in self._seen or evaluation.unix_seconds < self._began:
            return None
        self._seen.add(known)
        self._evaluations.append(evaluation)
        return evaluation

    def _end_early(self, process: JobProcess, reason: str) -> int:
        """Ends the job with a checkpoint, and waits for the end; its exit code."""
        if self._servers == 0:
            process.kill()
        else:
            # Servers that stay are not this job's to end.
            process.command(f"{'stop' if self._stays else 'drain'} {reason}")
        while True:
            event = process.next_event()
            if event.kind == "end":
                return int(event.content)
            if event.kind == "checkpoint_dir":
                self._servers_folder = event.content
            elif event.kind == "evaluation":
                self._take(event.content)
            elif event.kind == "answer" and event.content[1]:
                # The servers are not there yet, or no more.
                process.kill()

    def _finish(self, process: JobProcess, folder: str, code: int) -> TrainingResult:
        """After the end of a job that nobody has ended early."""
        if code != 0:
            raise self._failed(process, folder, code)
        summary = self._summary(folder)
        for content in summary["evaluations"]:
            evaluation = self._take(content)
            if evaluation is not None and self._on_evaluation is not None:
                try:
                    self._on_evaluation(evaluation)
                except Stop:
                    pass  # It has ended.
        return self._result(folder, summary)

    def _summary(self, folder: str) -> Dict[str, Any]:
        with open(os.path.join(self._logs(folder), "summary.json"),
                  encoding="utf-8") as file:
            summary: Dict[str, Any] = json.load(file)
        return summary

    def _failed(self, process: JobProcess, folder: str, code: int) -> errors.Error:
        text = failure_of(process.log(), code)
        if code == 2:
            return errors.InvalidArgumentError(text)
        logs = self._logs(folder)
        try:
            os.makedirs(logs, exist_ok=True)
            with open(os.path.join(logs, "trainlog"), "w", encoding="utf-8") as file:
                file.write("\n".join(process.log()) + "\n")
        except OSError:  # There is no room for more.
            return errors.TrainingError(text)
        self._kept.append(logs)
        return errors.TrainingError(f"{text}; its logs are in {logs}", logs)

    def _interrupted(self, folder: str, code: int) -> Interrupted:
        # A job that was drained has no summary; one of before may lie there.
        summary = self._summary(folder) if code == 0 else {}
        result = self._result(folder, summary)
        made = ("no checkpoint was made" if result.checkpoint is None
                else f"its checkpoint is {result.checkpoint}")
        return Interrupted(f"training was interrupted; {made}", result)

    def _result(self, folder: str, summary: Dict[str, Any]) -> TrainingResult:
        checkpoint: Optional[str] = None
        if self._stays and self._servers_folder:
            checkpoint = _newest(self._servers_folder)
        elif self._servers != 0:
            checkpoint = _newest(self._checkpoints(folder))
        kept: Optional[str] = None
        if checkpoint is not None and checkpoint.startswith(folder + os.sep):
            kept = folder
            self._kept.append(self._checkpoints(folder))
        log_dir = None if self._log_dir is None else self._logs(folder)
        stopped = not summary or bool(summary["stop_reason"])
        return TrainingResult(self._evaluations, summary, checkpoint, log_dir, stopped,
                              kept)

    def clean(self, folder: str) -> None:
        """Removes what the call has made and nobody needs."""
        stays = False
        for entry in os.scandir(folder):
            if entry.path in self._kept:
                stays = True
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        if not stays:
            shutil.rmtree(folder, ignore_errors=True)


def _close(process: JobProcess) -> None:
    """Nothing is left when it returns, however often it is interrupted."""
    interrupt: Optional[KeyboardInterrupt] = None
    while True:
        try:
            process.close()
            break
        except KeyboardInterrupt as again:
            interrupt = again
    if interrupt is not None:
        raise interrupt


def _flag_text(value: Any) -> str:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # A number of numpy's.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(_flag_text(each) for each in value)
    return str(value)


def _evaluation_of(content: Dict[str, Any]) -> TrainingEvaluation:
    """Of JSON as summary.json has it."""
    name = str(content["phase_name"])
    metrics = {key: float("nan") if value is None else float(value)
               for key, value in content.items()
               if key not in _NO_METRICS
               and (value is None or isinstance(value, (int, float)))}
    return TrainingEvaluation(
        name=name, epoch=int(name.rsplit("/", 1)[-1]),
        examples=int(content["examples"]), metrics=metrics,
        trained_examples=int(content["trained_examples"]),
        trained_steps=int(content["trained_steps"]),
        unix_seconds=float(content["unix_seconds"]), best=bool(content["best"]),
        checkpoint=content["checkpoint"] or None, file=content["file"])


def _newest(folder: str) -> Optional[str]:
    """The checkpoint that CURRENT names; None: there is none."""
    try:
        with open(os.path.join(folder, "CURRENT"), encoding="utf-8") as file:
            name = file.read().split(" ", 1)[0]
    except OSError:
        return None
    return os.path.join(folder, name) if name else None
