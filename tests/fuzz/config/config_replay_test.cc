// The fuzz target of configurations on texts made from seeds.

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "flags/message_flags.h"
#include "proto/config/job_config.pb.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

constexpr const char* kValues[] = {
    "0",    "1",    "-1",       "512",   "1e400", "nan",  "inf",
    "0x10", "true", "9e18",     "adam",  "sync",  "",     "a,b, ,c",
    "lr",   "1.5f", "bfloat16", "\"x\"", "'",     "\xff", "2147483648",
};

std::string RandomField(RandomSequence* r) {
  const auto fields = flags::FlagFields(v1::JobConfig::descriptor());
  std::string name = fields[r->Below(fields.size())]->name();
  if (r->Below(12) == 0) name.insert(r->Below(name.size()), 1, '_');
  return name;
}

std::string RandomValue(RandomSequence* r) {
  return kValues[r->Below(std::size(kValues))];
}

std::string RandomText(RandomSequence* r) {
  std::string text;
  for (uint64_t n = r->Below(6); n > 0; --n) {
    const char* quote = r->Below(2) == 0 ? "\"" : "";
    absl::StrAppend(&text, RandomField(r), r->Below(9) == 0 ? " " : ": ", quote,
                    RandomValue(r), quote, r->Below(7) == 0 ? " # why" : "",
                    "\n");
  }
  return text;
}

std::string RandomWords(RandomSequence* r) {
  std::string text;
  for (uint64_t n = r->Below(6); n > 0; --n) {
    absl::StrAppend(&text, "--", RandomField(r), r->Below(2) == 0 ? "=" : "\n",
                    RandomValue(r), n > 1 ? "\n" : "");
  }
  return text;
}

TEST(ConfigReplayTest, RandomConfigurationsAreReadOrRefusedInOneLine) {
  RunOnSeeds(4000, [](uint64_t seed) {
    RandomSequence r(seed);
    const bool is_text = r.Below(2) == 0;
    std::string input = is_text ? RandomText(&r) : RandomWords(&r);
    for (uint64_t n = r.Below(3); n > 0 && !input.empty(); --n) {
      input[r.Below(input.size())] = static_cast<char>(r.Below(256));
    }
    return std::string(1, is_text ? 0 : 1) + input;
  });
}

}  // namespace
}  // namespace oarlock
