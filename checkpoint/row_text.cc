#include "checkpoint/row_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace oarlock::checkpoint {
namespace {

// Of a word that is none, in a message.
constexpr size_t kShownBytes = 40;

std::string Shown(absl::string_view word) {
  return absl::StrCat(absl::CEscape(word.substr(0, kShownBytes)),
                      word.size() > kShownBytes ? "..." : "");
}

// The next word of *line, empty at its end.
absl::string_view TakeWord(absl::string_view* line) {
  const size_t begin = std::min(line->find_first_not_of(" \t"), line->size());
  line->remove_prefix(begin);
  const absl::string_view word = line->substr(0, line->find_first_of(" \t"));
  line->remove_prefix(word.size());
  return word;
}

bool ParseFloat(absl::string_view word, float* x) {
  const char* const end = word.data() + word.size();
  const absl::from_chars_result read = absl::from_chars(word.data(), end, *x);
  if (read.ptr != end || word.empty()) return false;
  // What is too small to be told from 0 is that; what is too large is not.
  return read.ec == std::errc() ||
         (read.ec == std::errc::result_out_of_range && std::abs(*x) < 1);
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(what);
}

}  // namespace

std::string RowText::Describe() const {
  return absl::StrCat("key, ", num_statistics() != 0 ? "show, click, " : "",
                      rules_.layout().dim(), " of embedding, ",
                      rules_.layout().state_size(), " of optimizer state");
}

void RowText::Append(const std::byte* packed, std::string* text) const {
  absl::StrAppend(
      text, static_cast<uint64_t>(sparse_table::PackedRows::KeyOf(packed)));
  const std::byte* const floats =
      packed + sparse_table::PackedRows::kHeaderBytes;
  const auto append = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      float x;
      std::memcpy(&x, floats + i * sizeof(x), sizeof(x));
      absl::StrAppendFormat(text, " %.9g", x);
    }
  };
  if (rules_.extended_dim() == 0 ||
      sparse_table::PackedRows::HeaderOf(packed).extended()) {
    append(0, num_floats());
  } else {
    append(0, num_statistics() + rules_.embedding_dim());
    const size_t state = num_statistics() + rules_.layout().dim();
    append(state, state + embedding_state());
  }
  text->push_back('\n');
}

absl::Status RowText::Parse(absl::string_view line, std::byte* packed) const {
  const absl::string_view key_word = TakeWord(&line);
  uint64_t key;
  if (!absl::SimpleAtoi(key_word, &key)) {
    return Malformed(absl::StrCat("the key is '", Shown(key_word),
                                  "'; legal is a whole number below 2^64"));
  }
  thread_local std::vector<float> values;
  values.clear();
  for (absl::string_view word = TakeWord(&line); !word.empty();
       word = TakeWord(&line)) {
    float x;
    if (!ParseFloat(word, &x)) {
      return Malformed(absl::StrCat("word ", values.size() + 2, " is '",
                                    Shown(word), "'; legal is a float"));
    }
    values.push_back(x);
  }
  // As a row that has just been created, in memory's layout.
  thread_local std::vector<std::byte> row;
  row.assign(rules_.layout().row_bytes(), std::byte{0});
  sparse_table::RowLayout::Header(row.data()).key = Key{key};
  if (rules_.extended_dim() != 0) rules_.BeginExtended(row.data());
  const bool may_be_short =
      rules_.extended_dim() != 0 &&
      !sparse_table::RowLayout::Header(row.data()).extended();
  const bool is_short = may_be_short && values.size() == num_short_floats();
  if (!is_short && values.size() != num_floats()) {
    return Malformed(absl::StrCat(
        "the row of key ", key, " has ", values.size() + 1, " words; legal is ",
        num_floats() + 1, " (", Describe(), ")",
        may_be_short ? absl::StrCat(", or ", num_short_floats() + 1,
                                    " without an extended part")
                     : ""));
  }
  const float* from = values.data();
  if (num_statistics() != 0) {
    for (size_t i = 0; i < 2; ++i, ++from) {
      if (!std::isfinite(*from) || *from < 0) {
        return Malformed(absl::StrFormat(
            "%s of key %d is %g; legal is a number of at least 0",
            i == 0 ? "show" : "click", key, *from));
      }
      rules_.layout().Statistics(row.data())[i] = *from;
    }
  }
  const size_t dim = is_short ? rules_.embedding_dim() : rules_.layout().dim();
  std::memcpy(rules_.layout().Embedding(row.data()), from, dim * sizeof(float));
  std::memcpy(rules_.layout().State(row.data()), from + dim,
              (values.data() + values.size() - from - dim) * sizeof(float));
  if (rules_.extended_dim() != 0 && !is_short) {
    sparse_table::RowLayout::Header(row.data()).packed |=
        sparse_table::RowHeader::kExtended;
  }
  format_.Pack(row.data(), packed);
  return absl::OkStatus();
}

}  // namespace oarlock::checkpoint
