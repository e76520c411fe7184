"""The columns that a model reads, by name."""

import json
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Union

from oarlock import errors

_TYPES = {None: "AS_IT_IS", "int": "INTEGER", "text": "TEXT"}
_TRANSFORMS = {None: "IDENTITY", "log1p": "LOG1P"}
_POOLINGS = {"mean": "MEAN", "sum": "SUM"}


def _choose(feature: str, what: str, value: Any, legal: Dict[Any, str]) -> str:
    if value not in legal:
        raise errors.InvalidArgumentError(
            f"feature '{feature}' has {what}={value!r}; legal are "
            f"{', '.join(repr(each) for each in legal)}")
    return legal[value]


class Feature:
    """A column that a model reads.

    Made by Label, Weight, Group, DenseFeature, SparseFeature and SequenceFeature, which
    are its kinds.

    Attributes:
        name: of the column; a field of a struct is "a.b".
    """

    def __init__(self, name: str, kind: str, content: Dict[str, Any],
                 missing: Optional[str] = None) -> None:
        self.name = name
        self._message: Dict[str, Any] = {"name": name, kind: content}
        if _choose(name, "missing", missing, {None: "error", "null": "null"}) == "null":
            self._message["missing_is_null"] = True

    def __repr__(self) -> str:
        return f"<oarlock.{type(self).__name__} '{self.name}'>"


class Label(Feature):
    """What is predicted: 0 or 1."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "label", {})


class Weight(Feature):
    """How much an example counts, in loss and metrics; not negative."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "weight", {})


class Group(Feature):
    """Whose examples are ranked among each other, such as a user."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "group", {})


class DenseFeature(Feature):
    """A number.

    Args:
        name: of the column.
        transform: "log1p": log(1 + max(x, 0)); None: as it is.
        null: what null counts as, after the transform.
        missing: "null": a file without the column has null; None: that is an error.
    """

    def __init__(self, name: str, *, transform: Optional[str] = None,
                 null: float = 0.0, missing: Optional[str] = None) -> None:
        super().__init__(name, "dense", {
            "transform": _choose(name, "transform", transform, _TRANSFORMS),
            "null": null}, missing)


class SparseFeature(Feature):
    """One id, whose row the model reads.

    Args:
        name: of the column.
        dim: floats of a row; 0: as the job has it.
        type: "int": integers, and columns of text are refused. "text": text, and
            integers count as their decimal digits. None: as the column of the first
            file is; it stays so.
        shares: the feature whose rows it has; dim and type are that one's.
        missing: as of DenseFeature.
    """

    def __init__(self, name: str, *, dim: int = 0, type: Optional[str] = None,
                 shares: Optional[str] = None, missing: Optional[str] = None) -> None:
        super().__init__(name, "sparse", _slot(name, dim, type, shares), missing)


class SequenceFeature(Feature):
    """A list of ids, whose rows become one.

    Args:
        name: of the column.
        pooling: "mean" or "sum" of the rows.
        max_length: only so many ids count, the first ones; 0: all.
        dim, type, shares, missing: as of SparseFeature.
    """

    def __init__(self, name: str, *, dim: int = 0, type: Optional[str] = None,
                 shares: Optional[str] = None, pooling: str = "mean",
                 max_length: int = 0, missing: Optional[str] = None) -> None:
        content = _slot(name, dim, type, shares)
        content["pooling"] = _choose(name, "pooling", pooling, _POOLINGS)
        content["max_length"] = max_length
        super().__init__(name, "sequence", content, missing)


def _slot(name: str, dim: int, kind: Optional[str],
          shares: Optional[str]) -> Dict[str, Any]:
    return {"dim": dim, "type": _choose(name, "type", kind, _TYPES),
            "shares": shares or ""}


class Features:
    """The features of a job. Their order means nothing.

    Args:
        features: one for each column.

    Attributes:
        names: of all of them, sorted.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self._messages: List[Dict[str, Any]] = [each._message for each in features]
        self.names = sorted(str(each["name"]) for each in self._messages)

    def to_json(self) -> str:
        """JSON of FeatureList (proto/v1/features.proto), as `--features` takes it."""
        return json.dumps({"features": self._messages}, indent=1)

    def save(self, path: "Union[str, pathlib.Path]") -> None:
        """Writes to_json() to a file.

        Args:
            path: of the file.
        """
        pathlib.Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return f"<oarlock.Features {', '.join(self.names)}>"
