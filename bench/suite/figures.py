"""Rows of the bench's JSON file, made of the numbers of several turns."""

import dataclasses
import statistics
import sys

# How the reasons of rows without figures begin.
NOT_ON_THIS_CPU = "not on this CPU"
FAILED = "failed"


@dataclasses.dataclass
class Beside:
    """What ours is measured against: a limit, or what a user would take
    instead. `values` are of the same turns as ours."""
    name: str
    values: list
    # The least ratio that is wanted.
    target: float | None = None


def quartiles(values):
    if len(values) < 2:
        return [values[0], values[0]]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return [low, high]


def significant(value):
    return float(f"{value:.4g}")


def ratios(ours, others, more_is_better=True):
    """How many times as fast as the others ours was, turn by turn."""
    if more_is_better:
        return [mine / other for mine, other in zip(ours, others)]
    return [other / mine for mine, other in zip(ours, others)]


def median_and_spread(values):
    return (significant(statistics.median(values)),
            [significant(v) for v in quartiles(values)])


def _empty(name, unit):
    return {
        "name": name, "ours": None, "unit": unit,
        "limit": None, "ratio_to_limit": None,
        "peer": None, "ratio_to_peer": None,
        "spread": {}, "turns": 0, "limit_name": None, "peers": [],
        "target": None, "target_to_limit": None, "reason": None,
    }


def without_figures(name, unit, reason):
    """A row that has a reason instead, as it stands in the JSON file."""
    return _empty(name, unit) | {"reason": reason}


def has_failed(result):
    """Whether a row came to nothing though it should have."""
    return (result["reason"] or "").startswith(FAILED)


def row(name, unit, ours, limit=None, peers=(), more_is_better=True,
        target=None):
    """The row as it stands in the JSON file: see bench/README.md."""
    median, spread = median_and_spread(ours)
    result = _empty(name, unit) | {
        "ours": median, "spread": {"ours": spread}, "turns": len(ours),
        "limit_name": limit.name or None if limit else None,
        "target": target, "target_to_limit": limit.target if limit else None,
    }
    if limit is not None:
        result["limit"] = significant(statistics.median(limit.values))
        result["ratio_to_limit"], result["spread"]["ratio_to_limit"] = (
            median_and_spread(ratios(ours, limit.values, more_is_better)))
    for peer in peers:
        ratio, spread = median_and_spread(
            ratios(ours, peer.values, more_is_better))
        result["peers"].append({
            "name": peer.name,
            "value": significant(statistics.median(peer.values)),
            "ratio": ratio, "spread": spread, "target": peer.target})
    if result["peers"]:
        result["peer"] = result["peers"][0]["value"]
        result["ratio_to_peer"] = result["peers"][0]["ratio"]
        result["spread"]["ratio_to_peer"] = result["peers"][0]["spread"]
    return result


def _against(name, value, ratio, spread, target):
    low, high = spread
    wanted = ""
    if target is not None:
        verdict = "ok" if ratio >= target else "MISSED"
        wanted = f"  wanted {target:.2f}: {verdict}"
    return (f"    {ratio:6.2f} ({low:.2f} to {high:.2f}) of {name} "
            f"{value:.4g}{wanted}")


def show(result, more_is_better=True):
    """Prints a row."""
    if result["reason"] is not None:
        print(f"{result['name']:44s} {result['reason']}", flush=True)
        return
    low, high = result["spread"]["ours"]
    target = result["target"]
    wanted = ""
    if target is not None:
        met = (result["ours"] >= target if more_is_better
               else result["ours"] <= target)
        wanted = f"  wanted {target:g}: {'ok' if met else 'MISSED'}"
    print(f"{result['name']:44s} {result['ours']:8.4g} {result['unit']} "
          f"({low:.4g} to {high:.4g}, turns: {result['turns']}){wanted}")
    if result["limit"] is not None:
        print(_against(f"the limit, {result['limit_name']},", result["limit"],
                       result["ratio_to_limit"],
                       result["spread"]["ratio_to_limit"],
                       result["target_to_limit"]))
    for peer in result["peers"]:
        print(_against(peer["name"], peer["value"], peer["ratio"],
                       peer["spread"], peer["target"]))
    sys.stdout.flush()
