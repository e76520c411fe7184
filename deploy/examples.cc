// The example programs in one, as packages carry them: the name by which it is
// started says which one it is.

#include <cstdio>
#include <cstring>

// The mains of examples/*/train.cc: see oarlock_example in bazel/oarlock.bzl.
int Cifar10Main(int argc, char** argv);
int CtrMain(int argc, char** argv);
int MnistMain(int argc, char** argv);
int ResNetMain(int argc, char** argv);

namespace {

struct Example {
  const char* name;
  int (*main)(int argc, char** argv);
};

constexpr Example kExamples[] = {
    {"oarlock-cifar10", Cifar10Main},
    {"oarlock-ctr", CtrMain},
    {"oarlock-mnist", MnistMain},
    {"oarlock-resnet", ResNetMain},
};

const char* BaseName(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = argc == 0 ? "" : BaseName(argv[0]);
  for (const Example& example : kExamples) {
    if (std::strcmp(name, example.name) == 0) return example.main(argc, argv);
  }
  std::fprintf(stderr,
               "oarlock-examples: it is started as '%s', which is no example; "
               "legal names are",
               name);
  const char* before = " ";
  for (const Example& example : kExamples) {
    std::fprintf(stderr, "%s%s", before, example.name);
    before = ", ";
  }
  std::fprintf(stderr, "\n");
  return 2;
}
