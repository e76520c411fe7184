// The limit of reader_bench: the same text scanned for its newlines with
// memchr, from memory, by one thread. Shares nothing with the product.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/common/repetitions.h"
#include "bench/data/criteo_text.h"

namespace {

oarlock_bench::Figures Scan(const std::string& text) {
  size_t num_lines = 0;
  const double start = oarlock_bench::ThreadCpu();
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    p = static_cast<const char*>(
        std::memchr(p, '\n', static_cast<size_t>(end - p)));
    ++p;
    ++num_lines;
  }
  const double seconds = oarlock_bench::ThreadCpu() - start;
  if (num_lines != oarlock_bench::kNumLines) std::exit(1);
  return {{"lines_per_second", static_cast<double>(num_lines) / seconds},
          {"bytes_per_second", static_cast<double>(text.size()) / seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string text = oarlock_bench::CriteoText(oarlock_bench::kNumLines);
  oarlock_bench::Repetitions repetitions;
  repetitions.Add("scan", [&] { return Scan(text); });
  return repetitions.Run(argc, argv);
}
