"""What every fuzz target has beside its library and its replay test."""

def fuzz_corpus(fuzz):
    """The kept inputs, and the program that looks for more.

    Args:
      fuzz: the library with LLVMFuzzerTestOneInput.
    """
    native.filegroup(
        name = "corpus",
        testonly = True,
        srcs = native.glob(["corpus/*"]),
    )

    # Only clang has libFuzzer: tests/fuzz/fuzz.sh.
    native.cc_binary(
        name = "fuzzer",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [fuzz],
    )
