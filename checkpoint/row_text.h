// A row of a sparse table as a line of text, in PaddlePaddle's form, and back
// with its bits (docs/checkpoint_format.md, "Rows as text").

#ifndef OARLOCK_CHECKPOINT_ROW_TEXT_H_
#define OARLOCK_CHECKPOINT_ROW_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rules/row_rules.h"

namespace oarlock::checkpoint {

// Immutable, hence thread-safe.
class RowText {
 public:
  explicit RowText(sparse_table::RowRules rules)
      : rules_(std::move(rules)), format_(rules_.layout()) {}

  // How rows are packed.
  const sparse_table::PackedRows& format() const { return format_; }

  // Appends "key v v ...\n": the key as an unsigned decimal, show and click
  // where the table has them, the embedding, the optimizer state; floats with
  // the nine digits that give back their bits. A row whose extended part has
  // not been created has neither that nor its state.
  void Append(const std::byte* packed, std::string* text) const;

  // The inverse, of a line without its end; words may be any number of spaces
  // and tabs apart. Version and last touch of the row are left 0. What is
  // wrong, without the line's place, is DataLoss.
  absl::Status Parse(absl::string_view line, std::byte* packed) const;

 private:
  size_t num_statistics() const {
    return rules_.layout().has_statistics() ? 2 : 0;
  }
  size_t embedding_state() const {
    return rules_.rule().StateSize(rules_.embedding_dim());
  }
  // Floats of a row with its extended part, and without.
  size_t num_floats() const {
    return num_statistics() + rules_.layout().dim() +
           rules_.layout().state_size();
  }
  size_t num_short_floats() const {
    return num_statistics() + rules_.embedding_dim() + embedding_state();
  }
  // "key, show, click, 8 floats of embedding, 1 of optimizer state".
  std::string Describe() const;

  const sparse_table::RowRules rules_;
  const sparse_table::PackedRows format_;
};

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_ROW_TEXT_H_
