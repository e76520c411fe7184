"""Tests of finished programs, over tests/system/harness.py."""

load("//bazel:py_test.bzl", "oarlock_py_test")

# The harness finds a program through its variable.
_PROGRAMS = {
    "OARLOCK_BIN": "//cli:oarlock",
    "OARLOCK_CIFAR10": "//examples/cifar10:train",
    "OARLOCK_COUNTING_TRAINER": "//tests/stress:counting_trainer",
    "OARLOCK_COUNTING_WORKER": "//tests/stress:counting_worker",
    "OARLOCK_CTR": "//examples/ctr:train",
    "OARLOCK_FAULTY_PROXY": "//tests/stress:faulty_proxy",
    "OARLOCK_INTEROP_PEER": "//tests/system:interop_peer",
    "OARLOCK_MNIST": "//examples/mnist:train",
    "OARLOCK_REPLAY_ORACLE": "//tests/stress:replay_oracle",
    "OARLOCK_RESNET": "//examples/resnet:train",
    "OARLOCK_SCORE": "//examples/score",
}

def system_test(name, programs = [], data = [], **kwargs):
    """An oarlock_py_test that starts `oarlock` and other programs.

    Args:
      name: the test's name, of the file NAME.py.
      programs: the variables of those that it starts besides `oarlock`.
      data: modules that it imports besides the harness, files that it opens.
      **kwargs: as for oarlock_py_test.
    """
    oarlock_py_test(
        name = name,
        data = ["harness.py"] + data,
        programs = {
            variable: _PROGRAMS[variable]
            for variable in ["OARLOCK_BIN"] + programs
        },
        **kwargs
    )
