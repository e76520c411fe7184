"""Finds the CUDA toolkit, and compiles kernels with it.

The toolkit is looked for in CUDA_HOME, in /usr/local/cuda, and where nvcc on the
path lies. OARLOCK_CUDA=0 in the environment leaves it out. Where there is none,
@cuda has CUDA = False in its toolkit.bzl, no target depends on it, and
everything else is built as before.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# Linked into the binary: it opens the driver's library when it is first used,
# and says what is wrong where there is none.
cc_library(
    name = "runtime",
    srcs = ["libcudart_static.a"],
    hdrs = glob(["include/*.h", "include/crt/*.h", "include/crt/*.hpp",
                 "include/nccl_device/**"]),
    includes = ["include"],
    linkopts = ["-ldl", "-lrt", "-lpthread"],
)
"""

_EMPTY_BUILD = """
package(default_visibility = ["//visibility:public"])
"""

_TOOLKIT = """# Written by bazel/cuda.bzl.
CUDA = {cuda}
NCCL = {nccl}
CUDNN = {cudnn}
NVCC = "{nvcc}"
"""

# The first NCCL whose ranks connect without waiting (ncclCommInitRankConfig).
_MIN_NCCL = (2, 14)

def _defined(header, name):
    """The number that `#define name` in the header's text says; 0 if none."""
    for line in header.splitlines():
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if words[:2] == ["#define", name] and len(words) > 2 and words[2].isdigit():
            return int(words[2])
    return 0

def _has_nccl(repository_ctx, home):
    """Whether NCCL's header is there; one that is too old counts as none."""
    path = repository_ctx.path(str(home) + "/include/nccl.h")
    if not path.exists:
        return False
    header = repository_ctx.read(path)
    return (_defined(header, "NCCL_MAJOR"), _defined(header, "NCCL_MINOR")) >= _MIN_NCCL

def _home(repository_ctx):
    """The toolkit's folder, or None."""
    if repository_ctx.os.environ.get("OARLOCK_CUDA", "1") == "0":
        return None
    candidates = []
    if repository_ctx.os.environ.get("CUDA_HOME"):
        candidates.append(repository_ctx.path(repository_ctx.os.environ["CUDA_HOME"]))
    candidates.append(repository_ctx.path("/usr/local/cuda"))
    nvcc = repository_ctx.which("nvcc")
    if nvcc:
        candidates.append(nvcc.realpath.dirname.dirname)
    for home in candidates:
        needed = ["bin/nvcc", "include/cublasLt.h", "lib64/libcudart_static.a"]
        if all([repository_ctx.path(str(home) + "/" + part).exists for part in needed]):
            return home
    return None

def _cuda_toolkit_impl(repository_ctx):
    home = _home(repository_ctx)
    if home == None:
        repository_ctx.file("BUILD", _EMPTY_BUILD)
        repository_ctx.file("toolkit.bzl", _TOOLKIT.format(
            cuda = False,
            nccl = False,
            cudnn = False,
            nvcc = "",
        ))
        return
    repository_ctx.symlink(str(home) + "/include", "include")
    repository_ctx.symlink(str(home) + "/lib64/libcudart_static.a", "libcudart_static.a")
    repository_ctx.file("BUILD", _BUILD)
    repository_ctx.file("toolkit.bzl", _TOOLKIT.format(
        cuda = True,
        nccl = _has_nccl(repository_ctx, home),
        # A header of cuDNN 9: what came before has other libraries.
        cudnn = repository_ctx.path(str(home) + "/include/cudnn_graph.h").exists,
        nvcc = str(home) + "/bin/nvcc",
    ))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    environ = ["CUDA_HOME", "OARLOCK_CUDA"],
    local = True,
)
