// Examples by their numbers.

#ifndef OARLOCK_DATA_ORDER_EXAMPLE_FETCHER_H_
#define OARLOCK_DATA_ORDER_EXAMPLE_FETCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/batch.h"
#include "data/data_options.h"
#include "data/order/source_index.h"
#include "data/parse/bad_lines.h"
#include "data/parse/line_parser.h"
#include "data/reader/line_reader.h"

namespace oarlock::data {

// Reads lines of the concatenation of all files, wherever they stand. Thread-
// compatible.
class ExampleFetcher {
 public:
  // Where Fetch has put a line that is malformed, or only a comment: nowhere.
  static constexpr uint32_t kMalformed = ~uint32_t{0};
  static constexpr uint32_t kComment = kMalformed - 1;
  static bool IsExample(uint32_t place) { return place < kComment; }

  // `options` must be valid; `index` is that of `files`; it and `bad_lines`
  // outlive this.
  ExampleFetcher(const DataOptions& options, std::vector<std::string> files,
                 const SourceIndex* index, BadLines* bad_lines);

  // Appends examples to `batch`, each once, and nothing to its ranges.
  // `examples` ascend; the same one may stand there several times. (*places)[i]
  // becomes the place of examples[i] in `batch`. Ascending calls read each file
  // once; a file that cannot be sought in is read anew when a call begins
  // before the last one ended. Errors are those of BatchReader::Next.
  absl::Status Fetch(absl::Span<const uint64_t> examples, Batch* batch,
                     std::vector<uint32_t>* places);

 private:
  // lines_ stands at line `line` of file `file`.
  absl::Status MoveTo(size_t file, uint64_t line);

  const DataOptions options_;
  const std::vector<std::string> files_;
  const SourceIndex* const index_;
  BadLines* const bad_lines_;
  const std::unique_ptr<LineParser> parser_;
  std::unique_ptr<LineReader> lines_;
  size_t file_ = 0;  // of lines_
  std::string reason_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_FETCHER_H_
