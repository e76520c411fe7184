// What a user would take instead: gloo's all-reduce of floats, ring algorithm
// with its own defaults, two processes over loopback.

#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/collective/ranks.h"
#include "bench/common/repetitions.h"

namespace oarlock_bench {
namespace {

void Add(void* sum, const void* a, const void* b, size_t count) {
  auto* const to = static_cast<float*>(sum);
  const auto* const x = static_cast<const float*>(a);
  const auto* const y = static_cast<const float*>(b);
  for (size_t i = 0; i < count; ++i) to[i] = x[i] + y[i];
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  std::string folder =
      (std::filesystem::temp_directory_path() / "gloo_XXXXXX").string();
  Require(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  Ranks ranks(2);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(ranks.rank(), 2);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  std::vector<float> values(size_t{16} << 20, 0.0f);
  const auto call = [&](const Work& work) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), work.num_bytes / sizeof(float));
    options.setReduceFunction(Add);
    gloo::allreduce(options);
  };
  if (ranks.rank() == 1) {
    ranks.Serve(call);
    return 0;
  }
  Repetitions repetitions;
  for (const auto& [name, bytes, calls] :
       {std::tuple("64 MB", size_t{64} << 20, 5),
        {"1 MB", size_t{1} << 20, 100},
        {"1 KB", size_t{1024}, 1000}}) {
    const Work work = {0, bytes, static_cast<uint64_t>(calls)};
    repetitions.Add(name, [&, work] { return ranks.Measure(work, call); });
  }
  const int result = repetitions.Run(argc, argv);
  std::filesystem::remove_all(folder);
  return result;
}
