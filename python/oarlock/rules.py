"""What a table is made of: update rules, initial values, admission, eviction.

Each class becomes a message of proto/v1/table.proto. What is None is the rule's own
default; docs/update_rules.md has the formulas.
"""

import dataclasses
import re
from typing import Any, Dict, Optional, Union

Config = Dict[str, Any]


def _given(instance: Any, names: Any) -> Config:
    """The fields that are not None."""
    return {name: getattr(instance, name) for name in names
            if getattr(instance, name) is not None}


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base of all update rules.

    Attributes:
        learning_rate: more than 0.
        l1, l2: at least 0: l1 * |w| + l2 / 2 * w^2 in the loss of every weight that
            is updated.
        warmup_steps: the rate rises linearly over so many steps.
        weight_bounds: (lower, upper): weights are clipped to it after each update.
        schedule: JSON of LearningRateSchedule, such as
            {"exponential": {"steps": 1000, "rate": 0.9}}.
    """

    learning_rate: float
    l1: Optional[float] = None
    l2: Optional[float] = None
    warmup_steps: Optional[int] = None
    weight_bounds: Optional[Any] = None
    schedule: Optional[Config] = None

    def to_config(self) -> Config:
        """JSON of OptimizerConfig."""
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
    """

    initial_accumulator: Optional[float] = None
    epsilon: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class SharedAdagrad(Adagrad):
    """Adagrad with one accumulator for a row."""


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Kingma, Ba, "Adam", 2015; bias correction by the age of the row."""

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
    """Adam with decoupled weight decay: Loshchilov, Hutter, 2019."""

    weight_decay: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Momentum(Optimizer):
    """Sgd with momentum, Nesterov's if `nesterov`."""

    momentum: Optional[float] = None
    nesterov: Optional[bool] = None


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """McMahan et al., "Ad click prediction", 2013; its alpha is learning_rate."""

    beta: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Initial values, uniform in [-range, range)."""

    range: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"uniform_range": self.range}


@dataclasses.dataclass(frozen=True)
class Normal:
    """Initial values, normal with this standard deviation and mean 0."""

    stddev: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"normal_stddev": self.stddev}


@dataclasses.dataclass(frozen=True)
class Constant:
    """Initial values, all the same."""

    value: float

    def to_config(self) -> Config:
        """JSON of Initializer."""
        return {"constant": self.value}


Initial = Union[float, int, Uniform, Normal, Constant]


def initial_config(initial: Initial) -> Config:
    """JSON of Initializer; a number stands for Constant."""
    if isinstance(initial, (int, float)):
        return Constant(float(initial)).to_config()
    return initial.to_config()


@dataclasses.dataclass(frozen=True)
class CountAdmission:
    """A key gets its row at its push number `pushes`, 2 to 65,535."""

    pushes: int
    sketch_bytes: Optional[int] = None

    def to_config(self) -> Config:
        """JSON of AdmissionConfig."""
        return {"count": {"pushes": self.pushes},
                **_given(self, ["sketch_bytes"])}


@dataclasses.dataclass(frozen=True)
class ProbabilityAdmission:
    """A key gets its row at each push with this probability, in (0, 1)."""

    probability: float

    def to_config(self) -> Config:
        """JSON of AdmissionConfig."""
        return {"probability": {"probability": self.probability}}


@dataclasses.dataclass(frozen=True)
class ShowClickAdmission:
    """A key gets its row when the scores of its pushes add up to this, above 0.

    Needs statistics of shows and clicks (`Ctr`).
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
    """Which rows go.

    Attributes:
        idle_ticks: rows without a push for so many ticks of logical time.
        score_min: rows whose score is below this (`Ctr` alone).
        rows_max: beyond so many rows, those with the lowest scores, or that were
            pushed longest ago.
        low_mark: `rows_max` evicts down to this share of it.
        period_ticks: ticks between two checks.
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
    """Rows remember shows and clicks; score = non_click_coefficient * (show - click)
    + click_coefficient * click.

    Attributes:
        decay_rate: both are multiplied by it at the end of each period, in (0, 1].
        decay_period_ticks: ticks of a period.
        divide_by_show: a key's gradient is divided by the shows pushed with it.
    """

    non_click_coefficient: Optional[float] = None
    click_coefficient: Optional[float] = None
    decay_rate: Optional[float] = None
    decay_period_ticks: Optional[int] = None
    divide_by_show: Optional[bool] = None

    def to_config(self) -> Config:
        """JSON of CtrOptions."""
        return _given(self, [f.name for f in dataclasses.fields(self)])
