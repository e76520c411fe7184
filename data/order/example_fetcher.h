// Reads examples by their numbers.

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

// Reads any lines of the concatenation of all files. Thread-compatible.
class ExampleFetcher {
 public:
  // The places of lines that Fetch does not append: malformed lines, and lines
  // that are only a comment.
  static constexpr uint32_t kMalformed = ~uint32_t{0};
  static constexpr uint32_t kComment = kMalformed - 1;
  static bool IsExample(uint32_t place) { return place < kComment; }

  // `options` must be valid; `index` is the index of `files`; `index` and
  // `bad_lines` outlive this object.
  ExampleFetcher(const DataOptions& options, std::vector<std::string> files,
                 const SourceIndex* index, BadLines* bad_lines);

  // Appends examples to `batch`, each once; does not change the ranges of
  // `batch`. `examples` must be ascending and may contain an example several
  // times. (*places)[i] becomes the place of examples[i] in `batch`. Calls with
  // ascending examples read each file once. A file without seek is read again
  // from its start when a call begins before the end of the last call. Errors
  // are those of BatchReader::Next.
  absl::Status Fetch(absl::Span<const uint64_t> examples, Batch* batch,
                     std::vector<uint32_t>* places);

 private:
  // Moves lines_ to line `line` of file `file`.
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
