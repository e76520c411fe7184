"""Tests in Python, as Bazel's."""

def oarlock_py_test(
        name,
        src = None,
        data = [],
        programs = {},
        python = "debian",
        env = {},
        timeout = "long",
        tags = [],
        **kwargs):
    """A test that runs one file of Python's unittest.

    Not Bazel's own py_test: what that writes begins with
    "#!/usr/bin/env python", which Debian 12 lacks and Bazel 4.2 cannot change,
    and it starts Python without -I. Here a script starts Python's tests, and
    tests/python/run_unittests.py writes each test method into test.xml.

    The test runs in the root of the runfiles, which has the repository's
    folders: it opens there only what it declares.

    Args:
      name: the test's name.
      src: the file of tests; NAME.py where there is none.
      data: modules that it imports and files that it opens.
      programs: programs that it starts, and the variable with the path of each:
        variable -> label.
      python: "debian" for Debian's Python and its packages, "pypi" for the
        virtual environment of tests/python/make_venv.sh.
      env: other variables.
      timeout: far above what the test takes: jobs have deadlines of their own.
      tags: "exclusive" where a test wants all cores, "local" where it does what
        Bazel's sandbox forbids.
      **kwargs: as for every test: shard_count, size...
    """
    src = src or name + ".py"

    # The network of a test in the sandbox is its own: no two tests that run at
    # a time choose the same port.
    own_network = [] if "local" in tags else ["block-network"]
    native.sh_test(
        name = name,
        srcs = ["//tests/python:run_unittests.sh"],
        args = [python, "$(rootpath %s)" % src],
        data = [src, "//tests/python:run_unittests.py"] + data +
               programs.values(),
        env = dict(env, **{
            variable: "$(rootpath %s)" % label
            for variable, label in programs.items()
        }),
        timeout = timeout,
        tags = tags + own_network,
        **kwargs
    )
