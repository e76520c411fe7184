"""Compiles kernels with nvcc."""

load("@cuda//:toolkit.bzl", "NVCC")

# Machine code for Hopper, and code that the driver compiles for everything
# else from Ampere on.
_ARCHITECTURES = " ".join([
    "-gencode arch=compute_90,code=sm_90",
    "-gencode arch=compute_80,code=compute_80",
])

def cuda_library(name, src, includes, deps, nvccopts = [], **kwargs):
    """A library of one .cu file.

    Args:
      name: the library's name.
      src: the .cu file.
      includes: every header of ours that it includes, directly or not.
      deps: libraries that who links it needs.
      nvccopts: further flags of nvcc.
      **kwargs: of the cc_library, such as its hdrs.
    """
    native.genrule(
        name = name + "_object",
        srcs = [src] + includes,
        outs = [name + ".pic.a"],
        cmd = " ".join([
            NVCC,
            "-c -std=c++20 -O3 --expt-relaxed-constexpr",
            _ARCHITECTURES,
        ] + nvccopts + [
            "-Xcompiler -fPIC,-Wall -I .",
            "$(location %s) -o $@.o && ar rcsD $@ $@.o && rm $@.o" % src,
        ]),
    )
    native.cc_library(
        name = name,
        srcs = [name + ".pic.a"],
        deps = deps,
        linkstatic = True,
        **kwargs
    )
