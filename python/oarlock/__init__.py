"""Oarlock, a parameter server for distributed training.

    import oarlock
    with oarlock.LocalCluster(servers=2) as cluster, cluster.join() as job:
        table = job.create_table("w", dim=1, optimizer=oarlock.Adagrad(0.05))
        rows = table.pull([1, 2, 3])

docs/python.md goes through it task by task. `python -m oarlock` is the command line.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

# As base/process/version.h has it, which a test compares.
__version__ = "0.1.0"

# Name -> the module that has it. They are imported when they are used first, so that
# the command line starts at once.
_MODULES = {
    **dict.fromkeys(
        ["Adagrad", "Adam", "Adamw", "Constant", "CountAdmission", "Ctr",
         "Eviction", "Ftrl", "LazyAdam", "Momentum", "Normal", "Optimizer",
         "ProbabilityAdmission", "Sgd", "SharedAdagrad", "SharedAdam",
         "ShowClickAdmission", "Uniform"], "rules"),
    **dict.fromkeys(
        ["AlreadyExistsError", "CancelledError", "ClosedError", "DataLossError", "Error",
         "FailedPreconditionError", "FencedError", "ForkedError", "InternalError",
         "InvalidArgumentError", "NotFoundError", "ResourceExhaustedError",
         "TimeoutError", "TrainingError", "UnauthenticatedError", "UnavailableError",
         "UnimplementedError"], "errors"),
    "Job": "job",
    **dict.fromkeys(["connect", "join"], "joining"),
    **dict.fromkeys(["Part", "Step"], "steps"),
    **dict.fromkeys(["DenseTable", "Rows", "Table", "hash_texts"], "tables"),
    **dict.fromkeys(["Evaluation", "EvaluationResult"], "evaluation"),
    **dict.fromkeys(["DenseFeature", "Feature", "Features", "Group", "Label",
                     "SequenceFeature", "SparseFeature", "Weight"], "features"),
    **dict.fromkeys(["Interrupted", "Stop", "TrainingEvaluation", "TrainingResult",
                     "train"], "training"),
    "Future": "_operation",
    "LocalCluster": "cluster",
}

if TYPE_CHECKING:
    # The same for whoever reads types; mypy and editors do not run what is below.
    from oarlock._operation import Future as Future
    from oarlock.cluster import LocalCluster as LocalCluster
    from oarlock.errors import (
        AlreadyExistsError as AlreadyExistsError,
        CancelledError as CancelledError, ClosedError as ClosedError,
        DataLossError as DataLossError, Error as Error,
        FailedPreconditionError as FailedPreconditionError,
        FencedError as FencedError, ForkedError as ForkedError,
        InternalError as InternalError,
        InvalidArgumentError as InvalidArgumentError,
        NotFoundError as NotFoundError,
        ResourceExhaustedError as ResourceExhaustedError,
        TimeoutError as TimeoutError,
        TrainingError as TrainingError,
        UnauthenticatedError as UnauthenticatedError,
        UnavailableError as UnavailableError,
        UnimplementedError as UnimplementedError)
    from oarlock.evaluation import (
        Evaluation as Evaluation, EvaluationResult as EvaluationResult)
    from oarlock.features import (
        DenseFeature as DenseFeature, Feature as Feature, Features as Features,
        Group as Group, Label as Label, SequenceFeature as SequenceFeature,
        SparseFeature as SparseFeature, Weight as Weight)
    from oarlock.job import Job as Job
    from oarlock.joining import connect as connect, join as join
    from oarlock.rules import (
        Adagrad as Adagrad, Adam as Adam, Adamw as Adamw, Constant as Constant,
        CountAdmission as CountAdmission, Ctr as Ctr, Eviction as Eviction,
        Ftrl as Ftrl, LazyAdam as LazyAdam, Momentum as Momentum,
        Normal as Normal, Optimizer as Optimizer,
        ProbabilityAdmission as ProbabilityAdmission, Sgd as Sgd,
        SharedAdagrad as SharedAdagrad, SharedAdam as SharedAdam,
        ShowClickAdmission as ShowClickAdmission, Uniform as Uniform)
    from oarlock.steps import Part as Part, Step as Step
    from oarlock.tables import (
        DenseTable as DenseTable, Rows as Rows, Table as Table,
        hash_texts as hash_texts)
    from oarlock.training import (
        Interrupted as Interrupted, Stop as Stop,
        TrainingEvaluation as TrainingEvaluation, TrainingResult as TrainingResult,
        train as train)

__all__ = sorted(_MODULES)


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'oarlock' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"oarlock.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> List[str]:
    return sorted([*globals(), *_MODULES])


def program(name: str = "oarlock") -> str:
    """The path of a program that belongs to this package.

    It is looked for in OARLOCK_HOME, the package, the Bazel tree and the system's
    folders. Where it is in none, the path is the package's, and no file is there.

    Args:
        name: "oarlock", "oarlock-score", or "oarlock-examples", which wants the name
            of an example, such as oarlock-ctr, as argv[0].
    """
    from oarlock import _programs

    return _programs.program(name)


def keep_memory() -> None:
    """Makes malloc of this process keep freed memory, for good.

    The only function that changes the process. Large pulls get faster by it where
    glibc would give their memory back and fetch it again.
    """
    from oarlock import _library

    _library.call(_library.library().keep_memory)
