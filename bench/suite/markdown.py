#!/usr/bin/env python3
"""Prints the file of `bench/run.sh --json FILE` as the table of bench/README.md.

    python3 bench/suite/markdown.py FILE
"""

import json
import sys


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def ratio(value, spread, target):
    low, high = spread
    wanted = "" if target is None else f", wanted {target:.2g}"
    return f"{value:.2f} ({low:.2f} to {high:.2f}{wanted})"


def cells(row):
    # Absent in files of bench/data_parallel.py and of earlier versions.
    if row.get("reason") is not None:
        return [row["name"], row["reason"], "", ""]
    ours = f"{number(row['ours'])} {row['unit']}"
    if row["target"] is not None:
        ours += f" (wanted {row['target']:g})"
    limit = ""
    if row["limit"] is not None:
        limit = ratio(row["ratio_to_limit"], row["spread"]["ratio_to_limit"],
                      row["target_to_limit"]) + f" of {row['limit_name']}"
    peers = "; ".join(
        f"{peer['name']} "
        f"{ratio(peer['ratio'], peer['spread'], peer['target'])}"
        for peer in row["peers"])
    return [row["name"], ours, limit, peers]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    print("| row | ours | of the limit | times as fast as |")
    print("| --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(cells(row)) + " |")


if __name__ == "__main__":
    main()
