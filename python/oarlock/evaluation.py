"""Metrics over the examples of all workers."""

from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np

from oarlock import _library, _operation, errors

if TYPE_CHECKING:
    from oarlock.job import Job


class EvaluationResult(NamedTuple):
    """Metrics over all workers.

    Made by Evaluation.sum(), the same for all workers.

    Attributes:
        name: of the evaluation, "test/0".
        examples: of all workers.
        auc: area under the ROC curve, ties counted half, from a histogram of 27,650
            buckets of log odds; NaN where one class is missing.
        logloss: mean of -(y ln p + (1 - y) ln(1 - p)) in nats, p limited to
            [2^-24, 1 - 2^-24]; NaN without examples.
        label_mean: mean of the labels.
    """

    name: str
    examples: int
    auc: float
    logloss: float
    label_mean: float


class Evaluation:
    """Predictions of examples, summed up over all workers.

    Made by Job.evaluation(). Each worker adds its own examples, and then all of them
    call sum(). It is in the job's list of evaluations then, as `oarlock ctl status`
    shows it.

    Attributes:
        job: whose workers add to it.
        name: "test".
        epoch: which evaluation of that name it is.
    """

    def __init__(self, job: "Job", name: str, epoch: int) -> None:
        self.job = job
        self.name = name
        self.epoch = epoch

    def add(self, labels: Any, predictions: Any) -> None:
        """Adds examples; they are counted here until sum().

        Args:
            labels: [n], 0 or 1.
            predictions: [n], probabilities.

        Raises:
            InvalidArgumentError: other values, or arrays that differ in length;
                nothing was added.
        """
        labels = np.ascontiguousarray(labels, np.float32)
        predictions = np.ascontiguousarray(predictions, np.float32)
        if labels.shape != predictions.shape:
            raise errors.InvalidArgumentError(
                f"labels are {labels.shape}, predictions {predictions.shape}; both "
                "have one value for each example")
        name = self.name.encode()
        _library.call(_library.library().evaluation_add, self.job._handle, name,
                      len(name), self.epoch, _library.address_of(labels),
                      _library.address_of(predictions), labels.size)

    def sum(self, *, timeout: Optional[float] = None) -> EvaluationResult:
        """The metrics over what all workers have added; waits for all of them.

        Args:
            timeout: seconds; None: as long as it takes.

        Raises:
            FailedPreconditionError: summed up before.
        """
        name = self.name.encode()
        told = _operation.run(_library.library().evaluation_sum_begin,
                              self.job._handle, name, len(name), self.epoch,
                              timeout=timeout)
        return EvaluationResult(
            str(told["work"]), int(told["examples"]), float(told["auc"]),
            float(told["logloss"]), float(told["label_mean"]))

    def __repr__(self) -> str:
        return f"<oarlock.Evaluation '{self.name}/{self.epoch}'>"
