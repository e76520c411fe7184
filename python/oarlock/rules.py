"""What a table is made of: update rules, initial values, admission, eviction.

Each class becomes a message of proto/v1/table.proto. What is None is the rule's own
default; docs/update_rules.md has the formulas.
"""

import dataclasses
import re
from typing import Any, Dict, Optional, Union

from oarlock import errors

Config = Dict[str, Any]


def _given(instance: Any, names: Any) -> Config:
    """The fields that are not None."""
    return {name: getattr(instance, name) for name in names
            if getattr(instance, name) is not None}


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base of all update rules.

    A step is a push to a row's partition, or to a block of dense parameters.

    Attributes:
        learning_rate: more than 0.
        l1, l2: at least 0, None: 0. l1 * |w| + l2 / 2 * w^2 in the loss of every
            weight that is updated. Adamw takes no l2.
        warmup_steps: the rate rises linearly over so many steps; None: it is full at
            once.
        weight_bounds: (lower, upper): weights are clipped to it after each update;
            None: none.
        schedule: JSON of LearningRateSchedule, such as
            {"exponential": {"steps": 1000, "rate": 0.9}}; None: constant.
    """

    learning_rate: float
    l1: Optional[float] = None
    l2: Optional[float] = None
    warmup_steps: Optional[int] = None
    weight_bounds: Optional[Any] = None
    schedule: Optional[Config] = None

    def to_config(self) -> Config:
        """JSON of OptimizerConfig."""
        if type(self) is Optimizer:
            raise errors.InvalidArgumentError(
                "Optimizer is the base of all update rules; choose one, such as "
                f"Adagrad({self.learning_rate})")
        common = [field.name for field in dataclasses.fields(Optimizer)]
        own = [field.name for field in dataclasses.fields(self)
               if field.name not in common]
        config = _given(self, common)
        if "weight_bounds" in config:
            lower, upper = config["weight_bounds"]
            config["weight_bounds"] = {"lower": lower, "upper": upper}
        name = re.sub("(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        config[name] = _given(self, own)
        return config


@dataclasses.dataclass(frozen=True)
class Sgd(Optimizer):
    """w -= learning_rate * g."""


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """A rate for each weight, that falls with the sum of its squared gradients.

    Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011.

    Attributes:
        initial_accumulator: what the sum begins with, at least 0; None: 0.
        epsilon: added to the sum's root, more than 0; None: 1e-10.
    """

    initial_accumulator: Optional[float] = None
    epsilon: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class SharedAdagrad(Adagrad):
    """Adagrad with one accumulator for a row."""


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Kingma, Ba, "Adam", 2015; bias correction by the age of the row.

    Attributes:
        beta1, beta2: decay of the first and second moment in a step, in [0, 1); None:
            0.9 and 0.999.
        epsilon: added to the second moment's root, more than 0; None: 1e-8.
    """

    beta1: Optional[float] = None
    beta2: Optional[float] = None
    epsilon: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class LazyAdam(Adam):
    """Adam with bias correction by the age of the table."""


@dataclasses.dataclass(frozen=True)
class SharedAdam(Adam):
    """Adam with one second moment for a row."""


@dataclasses.dataclass(frozen=True)
class Adamw(Adam):
    """Adam with decoupled weight decay: Loshchilov, Hutter, 2019.

    Attributes:
        weight_decay: an update takes learning_rate * weight_decay of a weight away; at
            least 0, None: 0.01.
    """

    weight_decay: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Momentum(Optimizer):
    """Sgd with momentum.

    Attributes:
        momentum: decay of the velocity in a step, in [0, 1); None: 0.9.
        nesterov: whether it is Nesterov's; None: False.
    """

    momentum: Optional[float] = None
    nesterov: Optional[bool] = None


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """McMahan et al., "Ad click prediction", 2013; its alpha is learning_rate.

    Attributes:
        beta: makes the first steps small, more than 0; None: 1, for summed losses.
            The mean of a batch of B examples wants 1 / B.
    """

    beta: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Initial values, uniform in [-range, range).

    Attributes:
        range: at least 0.
    """

    range: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"uniform_range": self.range}


@dataclasses.dataclass(frozen=True)
class Normal:
    """Initial values, normal with mean 0.

    Attributes:
        stddev: the standard deviation, at least 0.
    """

    stddev: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"normal_stddev": self.stddev}


@dataclasses.dataclass(frozen=True)
class Constant:
    """Initial values, all the same.

    Attributes:
        value: of each float.
    """

    value: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"constant": self.value}


Initial = Union[float, int, Uniform, Normal, Constant]


def initial_config(initial: Initial) -> Config:
    """JSON of Initializer; a number stands for Constant."""
    if isinstance(initial, (Uniform, Normal, Constant)):
        return initial.to_config()
    try:
        return Constant(float(initial)).to_config()
    except (TypeError, ValueError):
        raise errors.InvalidArgumentError(
            f"initial is {initial!r}; legal are a number, Uniform, Normal and "
            "Constant") from None


@dataclasses.dataclass(frozen=True)
class CountAdmission:
    """A key gets its row when it has been pushed often enough.

    Until then its gradients are dropped. The count is a sketch's: seldom a key gets its
    row a push early.

    Attributes:
        pushes: number of the push that makes the row, 2 to 65,535.
        sketch_bytes: memory for counts of keys without rows, of the table on all
            servers; None: 64 MiB. At least 1,024 for each partition.
    """

    pushes: int
    sketch_bytes: Optional[int] = None

    def to_config(self) -> Config:
        """JSON of AdmissionConfig."""
        return {"count": {"pushes": self.pushes},
                **_given(self, ["sketch_bytes"])}


@dataclasses.dataclass(frozen=True)
class ProbabilityAdmission:
    """A key gets its row at each push by chance.

    Attributes:
        probability: in (0, 1). The draw follows from seed, worker, push and key.
    """

    probability: float

    def to_config(self) -> Config:
        """JSON of AdmissionConfig."""
        return {"probability": {"probability": self.probability}}


@dataclasses.dataclass(frozen=True)
class ShowClickAdmission:
    """A key gets its row when the scores of its pushes are enough.

    Needs statistics of shows and clicks (`Ctr`).

    Attributes:
        score: what they have to add up to, above 0.
        sketch_bytes: as of CountAdmission.
    """

    score: float
    sketch_bytes: Optional[int] = None

    def to_config(self) -> Config:
        """JSON of AdmissionConfig."""
        return {"show_click": {"score": self.score},
                **_given(self, ["sketch_bytes"])}


Admission = Union[CountAdmission, ProbabilityAdmission, ShowClickAdmission]


@dataclasses.dataclass(frozen=True)
class Eviction:
    """Which rows go; None: no such limit.

    A tick of logical time is a second, unless the servers' --tick_s says otherwise.

    Attributes:
        idle_ticks: rows without a push for so many ticks, up to 2^23.
        score_min: rows whose score is below this (`Ctr` alone).
        rows_max: of the table on all servers; beyond them, the rows with the lowest
            scores, or without `Ctr` those that were pushed longest ago.
        low_mark: `rows_max` evicts down to this share of it, in (0, 1]; None: 0.9.
        period_ticks: ticks between two checks; None: 60.
    """

    idle_ticks: Optional[int] = None
    score_min: Optional[float] = None
    rows_max: Optional[int] = None
    low_mark: Optional[float] = None
    period_ticks: Optional[int] = None

    def to_config(self) -> Config:
        """JSON of EvictionConfig."""
        return _given(self, [f.name for f in dataclasses.fields(self)])


@dataclasses.dataclass(frozen=True)
class Ctr:
    """Rows remember shows and clicks, which Step.push brings, and have a score.

    score = non_click_coefficient * (show - click) + click_coefficient * click.

    Attributes:
        non_click_coefficient, click_coefficient: at least 0; None: 0.1 and 1.
        decay_rate: shows and clicks are multiplied by it at the end of each period, in
            (0, 1]; None: they do not decay.
        decay_period_ticks: ticks of a period (see Eviction); None: 86,400.
        divide_by_show: a key's gradient is divided by the shows pushed with it, if
            there are any; None: False.
    """

    non_click_coefficient: Optional[float] = None
    click_coefficient: Optional[float] = None
    decay_rate: Optional[float] = None
    decay_period_ticks: Optional[int] = None
    divide_by_show: Optional[bool] = None

    def to_config(self) -> Config:
        """JSON of CtrOptions."""
        return _given(self, [f.name for f in dataclasses.fields(self)])
