"""Oarlock, a parameter server for distributed training: its programs.

The programs lie in bin/ beside this file, the shared libraries that they need
beside the package. Each command becomes one of them; the examples are one
program, which knows by the command's name what it is.
"""

import os
import sys

_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def program(name="oarlock"):
    """The path of a program: oarlock, oarlock-score, or oarlock-examples, which
    wants the name of an example, such as oarlock-ctr, as argv[0]."""
    return os.path.join(_BIN, name)


def _become(name, command=None):
    path = program(name)
    os.execv(path, [command or path] + sys.argv[1:])


def _main():
    _become("oarlock")


def _ctr():
    _become("oarlock-examples", "oarlock-ctr")


def _mnist():
    _become("oarlock-examples", "oarlock-mnist")


def _cifar10():
    _become("oarlock-examples", "oarlock-cifar10")


def _resnet():
    _become("oarlock-examples", "oarlock-resnet")


def _score():
    _become("oarlock-score")
