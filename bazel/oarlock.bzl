"""Build rules of Oarlock: generated protobuf code, example programs."""

def oarlock_proto_library(name, srcs, deps = [], has_services = False):
    """A C++ library of the code that protoc generates.

    Args:
      name: the library's name.
      srcs: .proto files, imported by their path from the repository's root.
      deps: other oarlock_proto_library targets that srcs import.
      has_services: whether gRPC stubs are generated as well.
    """
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [dep + "_protos" for dep in deps],
        visibility = ["//visibility:public"],
    )
    headers = []
    sources = []
    command = ["/usr/bin/protoc --proto_path=. --proto_path=/usr/include",
               "--cpp_out=$(GENDIR)"]
    for src in srcs:
        stem = src[:-len(".proto")]
        headers.append(stem + ".pb.h")
        sources.append(stem + ".pb.cc")
        if has_services:
            headers.append(stem + ".grpc.pb.h")
            sources.append(stem + ".grpc.pb.cc")
    if has_services:
        command.append("--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin" +
                       " --grpc_out=$(GENDIR)")
    for src in srcs:
        command.append("$(location %s)" % src)
    native.genrule(
        name = name + "_generated",
        srcs = [":" + name + "_protos"] + srcs,
        outs = headers + sources,
        cmd = " ".join(command),
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-Wno-error"],
        visibility = ["//visibility:public"],
        deps = deps + ["@system//:grpc" if has_services else "@system//:protobuf"],
    )

def oarlock_example(name, main, srcs, deps):
    """An example program, and its main as a function of a library.

    The program is what a user builds. Packages carry one program for all
    examples (//deploy:oarlock-examples), which calls the function.

    Args:
      name: the program's name; the library is NAME_main.
      main: the function's name, in the global namespace.
      srcs: the program's sources.
      deps: what they depend on.
    """
    native.cc_binary(name = name, srcs = srcs, deps = deps)
    native.cc_library(
        name = name + "_main",
        srcs = srcs,
        local_defines = ["main=" + main],
        deps = deps,
    )
