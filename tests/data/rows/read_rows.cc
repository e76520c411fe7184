// Reads rows as a worker does, for tests/python/reader_test.py, and prints
// them.
//
//   read_rows FEATURES BLOCK_ROWS MEMORY_BYTES TIMEOUT_S PATTERN
//       [FORMAT [PREPARE]]
//
// FEATURES is JSON of FeatureList, without numbers or types; FORMAT is PARQUET,
// ARROW or CSV. Then for each line
// "FILE BEGIN END" of standard input: rows [BEGIN, END) of file number FILE, a
// line each, and a last line that begins with "end" or "failed". First lines:
// "pid N", the features as the files have them, and each file.

#include <google/protobuf/util/json_util.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "data/batch.h"
#include "data/rows/reader_process.h"

namespace oarlock::data {
namespace {

std::string Json(const google::protobuf::Message& message) {
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text);
  return text;
}

int Fail(const absl::Status& status) {
  std::printf("failed %d %s\n", static_cast<int>(status.code()),
              std::string(status.message()).c_str());
  return 1;
}

void Print(const Batch& batch, const DataSchema& schema, uint64_t begin) {
  for (size_t i = 0; i < batch.num_examples; ++i) {
    std::printf("row %" PRIu64 " %g", begin + i, batch.labels[i]);
    for (int d = 0; d < schema.num_dense; ++d) {
      std::printf(" %g", batch.dense[i * schema.num_dense + d]);
    }
    for (int s = 0; s < schema.num_slots; ++s) {
      const size_t cell = i * schema.num_slots + s;
      const size_t first = batch.offsets.empty() ? cell : batch.offsets[cell];
      const size_t last =
          batch.offsets.empty() ? cell + 1 : batch.offsets[cell + 1];
      std::printf(" |");
      for (size_t k = first; k < last; ++k) {
        std::printf(" %" PRIu64, static_cast<uint64_t>(batch.keys[k]));
      }
    }
    std::printf("\n");
  }
}

// Numbers in the order of the names.
FeatureList Numbered(v1::FeatureList list) {
  uint32_t number = 0;
  for (v1::Feature& feature : *list.mutable_features()) {
    if (feature.has_sparse()) feature.mutable_sparse()->set_number(++number);
    if (feature.has_sequence()) {
      feature.mutable_sequence()->set_number(++number);
    }
  }
  return *FeatureList::Create(list);
}

absl::Status ReadRange(ReaderProcess* process, const v1::ReadRows& rows,
                       const DataSchema& schema) {
  absl::Status status = process->Read(rows);
  if (!status.ok()) return status;
  uint64_t decoded = 0;
  for (;;) {
    const auto block = process->Next();
    if (!block.ok()) return block.status();
    if (!block->has_value()) break;
    const FeatureBlockView& view = (*block)->view;
    Batch batch;
    view.AppendTo(0, view.num_rows(), &batch);
    Print(batch, schema, (*block)->begin);
    if (view.num_bad() > 0) {
      std::printf("bad %" PRIu64 " row %" PRIu64 " %s\n", view.num_bad(),
                  (*block)->begin + view.first_bad_row(),
                  std::string(view.reason()).c_str());
    }
    decoded += (*block)->decoded_rows;
    status = process->Free(**block);
    if (!status.ok()) return status;
  }
  std::printf("end decoded %" PRIu64 "\n", decoded);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const auto features = FeatureList::Parse(argv[1]);
  if (!features.ok()) return Fail(features.status());
  ReaderOptions options;
  if (const char* const python = std::getenv("OARLOCK_PYTHON")) {
    options.command[0] = python;
  }
  options.block_rows = static_cast<uint32_t>(std::atoi(argv[2]));
  options.memory_bytes = static_cast<uint64_t>(std::atoll(argv[3]));
  options.read_timeout = absl::Seconds(std::atof(argv[4]));
  if (argc > 6 && !v1::BeginReading::Format_Parse(argv[6], &options.format)) {
    return Fail(absl::InvalidArgumentError(argv[6]));
  }
  if (argc > 7) options.prepare = argv[7];
  auto lister = ReaderProcess::Start(*features, options);
  if (!lister.ok()) return Fail(lister.status());
  const auto listing = (*lister)->List({argv[5]});
  if (!listing.ok()) return Fail(listing.status());
  lister->reset();
  const FeatureList numbered = Numbered(listing->features);
  auto process = ReaderProcess::Start(numbered, options);
  if (!process.ok()) return Fail(process.status());
  std::printf("pid %d\n%s\n", (*process)->pid(),
              Json(numbered.message()).c_str());
  for (const v1::ListedFile& file : listing->files) {
    std::printf("file %s\n", Json(file).c_str());
  }
  std::printf("ready\n");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    v1::ReadRows rows;
    *rows.mutable_file() = listing->files.at(std::stoul(words.at(0)));
    rows.set_begin(std::stoull(words.at(1)));
    rows.set_end(std::stoull(words.at(2)));
    const absl::Status status =
        ReadRange(process->get(), rows, numbered.schema());
    if (!status.ok()) Fail(status);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace oarlock::data

int main(int argc, char** argv) {
  return argc >= 6 && argc <= 8 ? oarlock::data::Main(argc, argv) : 2;
}
