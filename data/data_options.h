// How input files become examples. docs/data.md describes the formats.

#ifndef OARLOCK_DATA_DATA_OPTIONS_H_
#define OARLOCK_DATA_DATA_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "data/batch.h"

namespace oarlock::data {

// Columns of a Criteo line, after the label.
inline constexpr int kCriteoIntegers = 13;
inline constexpr int kCriteoCategories = 26;

struct DataOptions {
  enum class Format {
    // label \t 13 integers \t 26 categories; an empty field is missing.
    kCriteo,
    // PaddlePaddle's text: "n v1 .. vn" for each slot, in the order dense
    // features, categorical slots, label.
    kMultiSlot,
    // "label index:value index:value ...": no dense features, one slot.
    kLibsvm,
    // Columns of files, which are no text: data/rows reads them.
    kColumns,
  };
  // What happens to the integers of a Criteo line. Other formats carry dense
  // features as they are.
  enum class DenseTransform {
    // (x - min) / (max - min) with the constants of PaddlePaddle's quick
    // start; missing is 0.
    kQuickStart,
    // log(1 + max(x, 0)); missing is 0.
    kLog1p,
    // No dense features: integers become 13 slots behind the categories, by
    // log-squared buckets (see line_parser.h).
    kBucket,
  };

  Format format = Format::kCriteo;
  DenseTransform dense_transform = DenseTransform::kLog1p;
  // Keys are reduced modulo this; 0: unbounded, 64 bits.
  uint64_t sparse_feature_dim = 0;
  // When not empty, `sh -c pipe_command` runs for each file, with the file as
  // its standard input. Examples are read from its standard output, in
  // `format`.
  std::string pipe_command{};
  // A phase with more malformed lines than this fails. At least 0.
  int64_t bad_lines_max = 100;
  // Skips what cannot be read, with one warning per file: a missing file, or
  // the rest of a file that is damaged or shorter than it was.
  bool leave_out_unreadable = false;
  // For kMultiSlot only: the number of dense features (0 to kMaxDense; 0: the
  // line has no dense slot) and of categorical slots (0 to kMaxSlots).
  int multi_slot_dense_dim = kCriteoIntegers;
  int multi_slot_num_slots = kCriteoCategories;
  // For kColumns only: what its features are.
  DataSchema columns = {};
  // Asked every tenth of a second while a pipe_command writes nothing, with how
  // long it has been silent: an error ends it, and the read with it. Null: it
  // is waited for.
  std::function<absl::Status(absl::Duration silent)> while_silent = nullptr;
  // `monotonic` measures how long the reader waits for a folder or a command.
  Clocks clocks = {};

  // The largest legal values of --dense_dim and --num_slots; models support
  // them.
  static constexpr int kMaxDense = 65536;
  static constexpr int kMaxSlots = 4096;

  // OK, or InvalidArgument naming the field and what is legal.
  absl::Status Validate() const;
};

// The name of `format` in --data_format and in exported models.
absl::string_view NameOf(DataOptions::Format format);
// The name of `transform` in --dense_transform and in exported models.
absl::string_view NameOf(DataOptions::DenseTransform transform);

// The schema of every batch read with `options`, which must be valid.
DataSchema SchemaOf(const DataOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_DATA_OPTIONS_H_
