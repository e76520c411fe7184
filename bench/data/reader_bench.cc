// Lines a second of a thread's CPU time, from a file in the page cache to
// batches: read(2), lines, fields, hashes.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/common/repetitions.h"
#include "bench/data/criteo_text.h"
#include "data/order/example_reader.h"
#include "data/order/source_index.h"
#include "data/parse/bad_lines.h"

namespace {

using oarlock_bench::Figures;

constexpr size_t kBatchSize = 512;

// A file that goes with the process.
class TextFile {
 public:
  TextFile()
      : path_(std::filesystem::temp_directory_path() /
              ("oarlock_reader_bench." + std::to_string(getpid()))) {
    std::ofstream(path_, std::ios::binary)
        << oarlock_bench::CriteoText(oarlock_bench::kNumLines);
  }
  ~TextFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

Figures Measure(const std::string& path,
                oarlock::data::DataOptions::DenseTransform transform) {
  oarlock::data::DataOptions options;
  options.dense_transform = transform;
  options.sparse_feature_dim = 10'000'001;
  oarlock::data::SharedList ranges(oarlock::data::WholeFileItems(1));
  oarlock::data::BadLines bad_lines;
  oarlock::data::BatchReader reader(options, {path}, &ranges, &bad_lines);
  oarlock::data::Batch batch;
  size_t num_lines = 0;
  const double start = oarlock_bench::ThreadCpu();
  while (true) {
    const auto more = reader.Next(kBatchSize, &batch);
    if (!more.ok()) {
      std::fprintf(stderr, "%s\n", more.status().ToString().c_str());
      std::exit(1);
    }
    if (!*more) break;
    num_lines += batch.num_examples;
  }
  const double seconds = oarlock_bench::ThreadCpu() - start;
  if (num_lines != oarlock_bench::kNumLines) std::exit(1);
  return {{"lines_per_second", static_cast<double>(num_lines) / seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  using Transform = oarlock::data::DataOptions::DenseTransform;
  const TextFile file;
  oarlock_bench::Repetitions repetitions;
  repetitions.Add("log1p",
                  [&] { return Measure(file.path(), Transform::kLog1p); });
  repetitions.Add("quick_start",
                  [&] { return Measure(file.path(), Transform::kQuickStart); });
  repetitions.Add("bucket",
                  [&] { return Measure(file.path(), Transform::kBucket); });
  return repetitions.Run(argc, argv);
}
