"""modes: what a mode does differently is asked of its class.

--mode is text in worker/config/training_mode.cc alone, everywhere else it is a
TrainingMode. A server's services, logs and checkpoints ask an aggregator, and
compare no UpdateMode.
"""

import re

import tree as trees

_TEXT = r'"(?:async|half_async|ssp|sync|geo)"'
_COMPARES_TEXT = re.compile(rf"[=!]=\s*{_TEXT}|{_TEXT}\s*[=!]=")
_COMPARES_UPDATE_MODE = re.compile(
    r"[=!]=\s*v1::(?:ASYNC|SYNC|GEO)\b|\bv1::(?:ASYNC|SYNC|GEO)\s*[=!]="
    r"|\bcase v1::(?:ASYNC|SYNC|GEO)\b")
_ONE_PLACE = "worker/config/training_mode.cc"
_ASK_THE_AGGREGATOR = ("pserver/service/", "pserver/checkpoint/",
                       "pserver/fencing/")


def check(tree):
    findings, read = [], 0
    for path in trees.product(tree.ending(*trees.SOURCES)):
        read += 1
        text = tree.text(path)
        if path != _ONE_PLACE:
            findings += [trees.Finding(
                path, trees.line_at(text, match.start()), "modes",
                "the text of a mode is compared; ask worker::ModeOf")
                for match in _COMPARES_TEXT.finditer(text)]
        if path.startswith(_ASK_THE_AGGREGATOR):
            findings += [trees.Finding(
                path, trees.line_at(text, match.start()), "modes",
                "a mode is compared; ask the table's Aggregator")
                for match in _COMPARES_UPDATE_MODE.finditer(text)]
    return findings, f"{read} files"
