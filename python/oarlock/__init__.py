"""Oarlock, a parameter server for distributed training: its programs.

The programs lie in bin/ beside this file, the shared libraries that they need
beside the package. Each has a command of its own name that becomes it.
"""

import os
import sys

_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def program(name="oarlock"):
    """The path of a program: oarlock, or an example such as oarlock-ctr."""
    return os.path.join(_BIN, name)


def _become(name):
    path = program(name)
    os.execv(path, [path] + sys.argv[1:])


def _main():
    _become("oarlock")


def _ctr():
    _become("oarlock-ctr")


def _mnist():
    _become("oarlock-mnist")


def _cifar10():
    _become("oarlock-cifar10")


def _resnet():
    _become("oarlock-resnet")


def _score():
    _become("oarlock-score")
