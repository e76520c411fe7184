// Lines as click logs have them, for the reader's bench and for its limit.
// Uses the standard library only.

#ifndef OARLOCK_BENCH_DATA_CRITEO_TEXT_H_
#define OARLOCK_BENCH_DATA_CRITEO_TEXT_H_

#include <cstddef>
#include <string>

namespace oarlock_bench {

// `num_lines` lines of 40 fields between tabs, a newline behind each: label, 13
// integers, 26 categories of 8 hex digits; integers as long, and fields as
// often missing, as in the real data. The same text in every call.
std::string CriteoText(size_t num_lines);

// How many lines the programs read: more bytes than any cache holds.
inline constexpr size_t kNumLines = 600'000;

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_DATA_CRITEO_TEXT_H_
