// Fuzz target of the parsers and readers of training data, for libFuzzer and
// for data_replay_test.
//
// Input: the first byte chooses the parser and what is in front of it (see
// below), the rest is text, or zstd of text: each line is parsed into one
// batch. Aborts when a parser leaves the batch in a state that its header rules
// out.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "data/parse/line_parser.h"
#include "data/reader/compressed_source.h"
#include "data/reader/line_reader.h"

namespace oarlock {
namespace {

class BytesSource : public data::ByteSource {
 public:
  explicit BytesSource(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    const size_t n = std::min(size, bytes_.size());
    std::memcpy(data, bytes_.data(), n);
    bytes_.remove_prefix(n);
    return n;
  }
  absl::Status Seek(uint64_t) override {
    return absl::FailedPreconditionError("bytes cannot seek");
  }

 private:
  std::string_view bytes_;
};

// Bits of the first byte, above those of the parser.
constexpr uint8_t kWithReader = 8;
constexpr uint8_t kLibsvm = 16;
constexpr uint8_t kZstd = 32;
// Of multi-slot lines: no dense features.
constexpr uint8_t kNoDense = 64;

data::DataOptions OptionsOf(uint8_t choice) {
  data::DataOptions options;
  options.sparse_feature_dim = (choice & 1) != 0 ? 1000 : 0;
  if ((choice & kLibsvm) != 0) {
    options.format = data::DataOptions::Format::kLibsvm;
    return options;
  }
  switch ((choice >> 1) % 4) {
    case 0:
      options.dense_transform = data::DataOptions::DenseTransform::kQuickStart;
      break;
    case 1:
      options.dense_transform = data::DataOptions::DenseTransform::kLog1p;
      break;
    case 2:
      options.dense_transform = data::DataOptions::DenseTransform::kBucket;
      break;
    case 3:
      options.format = data::DataOptions::Format::kMultiSlot;
      options.multi_slot_dense_dim = (choice & kNoDense) != 0 ? 0 : 2;
      options.multi_slot_num_slots = 3;
  }
  return options;
}

void CheckBatch(const data::DataOptions& options, const data::Batch& batch) {
  const data::DataSchema schema = data::SchemaOf(options);
  const size_t num_dense = static_cast<size_t>(schema.num_dense);
  const size_t num_slots = static_cast<size_t>(schema.num_slots);
  OARLOCK_CHECK(batch.labels.size() == batch.num_examples);
  OARLOCK_CHECK(batch.dense.size() == batch.num_examples * num_dense);
  for (const float label : batch.labels)
    OARLOCK_CHECK(label == 0 || label == 1);
  for (const float x : batch.dense) OARLOCK_CHECK(std::isfinite(x));
  for (const Key key : batch.keys) {
    OARLOCK_CHECK(options.sparse_feature_dim == 0 ||
                  static_cast<uint64_t>(key) < options.sparse_feature_dim);
  }
  OARLOCK_CHECK(batch.weights.empty() ||
                batch.weights.size() == batch.keys.size());
  for (const float weight : batch.weights) {
    OARLOCK_CHECK(std::isfinite(weight) && weight != 0);
  }
  if (batch.offsets.empty()) {
    OARLOCK_CHECK(batch.keys.size() == batch.num_examples * num_slots);
    return;
  }
  OARLOCK_CHECK(batch.offsets.size() == batch.num_examples * num_slots + 1);
  OARLOCK_CHECK(batch.offsets.front() == 0);
  OARLOCK_CHECK(batch.offsets.back() == batch.keys.size());
  OARLOCK_CHECK(std::is_sorted(batch.offsets.begin(), batch.offsets.end()));
}

// The lines of what `bytes` unpack to, up to where they are damaged.
template <typename Visit>
void ForEachLineOfZstd(std::string_view bytes, const Visit& visit) {
  data::LineReader reader(
      "fuzz", data::Decompress(data::Compression::kZstd, "fuzz",
                               std::make_unique<BytesSource>(bytes)));
  std::string_view line;
  while (reader.Next(&line)) visit(line);
  OARLOCK_CHECK(!reader.Next(&line));
}

// The lines of `text` by a LineReader, or by hand: the reader's buffer takes
// long to make, above all under a sanitizer.
template <typename Visit>
void ForEachLine(std::string_view text, bool with_reader, const Visit& visit) {
  if (with_reader) {
    data::LineReader reader("fuzz", std::make_unique<BytesSource>(text));
    std::string_view line;
    while (reader.Next(&line)) visit(line);
    return;
  }
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    visit(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

// Parses `line` into `batch`, and checks what the call promises.
void ParseLine(std::string_view line, data::LineParser* parser,
               data::Batch* batch) {
  // A copy of its own, so that a sanitizer sees reads past its end.
  const std::unique_ptr<char[]> copy(new char[line.size()]);
  line.copy(copy.get(), line.size());
  const size_t num_before = batch->num_examples;
  const size_t keys_before = batch->keys.size();
  std::string reason;
  const std::string_view own(copy.get(), line.size());
  if (parser->Append(own, batch, &reason)) {
    OARLOCK_CHECK(!parser->IsComment(own));
    OARLOCK_CHECK(batch->num_examples == num_before + 1);
  } else {
    OARLOCK_CHECK(!reason.empty());
    OARLOCK_CHECK(reason.find('\n') == std::string::npos);
    OARLOCK_CHECK(batch->num_examples == num_before);
    OARLOCK_CHECK(batch->keys.size() == keys_before);
  }
}

}  // namespace
}  // namespace oarlock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oarlock;  // NOLINT: the target is outside the namespace
  if (size == 0) return 0;
  const data::DataOptions options = OptionsOf(data[0]);
  // Parsers keep nothing from line to line, but their tables take long to make.
  static std::unique_ptr<data::LineParser> parsers[256];
  std::unique_ptr<data::LineParser>& parser =
      parsers[data[0] & ~(kWithReader | kZstd)];
  if (parser == nullptr) parser = data::NewLineParser(options);
  data::Batch batch;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  const auto parse = [&](std::string_view line) {
    ParseLine(line, parser.get(), &batch);
  };
  if ((data[0] & kZstd) != 0) {
    ForEachLineOfZstd(bytes, parse);
  } else {
    ForEachLine(bytes, (data[0] & kWithReader) != 0, parse);
  }
  CheckBatch(options, batch);
  return 0;
}
