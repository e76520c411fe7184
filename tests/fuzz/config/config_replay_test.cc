// Runs the fuzz target of configurations without a fuzzer: on texts made from
// seeds, and on the files named on the command line (the corpus, a crash).
// OARLOCK_FUZZ_INPUTS sets how many inputs are made.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "fleet/command_line/message_flags.h"
#include "proto/job_config.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace oarlock {
namespace {

std::vector<std::string>* files = new std::vector<std::string>;

void RunOn(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

constexpr const char* kValues[] = {
    "0",    "1",    "-1",       "512",   "1e400", "nan",  "inf",
    "0x10", "true", "9e18",     "adam",  "sync",  "",     "a,b, ,c",
    "lr",   "1.5f", "bfloat16", "\"x\"", "'",     "\xff", "2147483648",
};

std::string RandomField(RandomSequence* r) {
  const auto fields = FlagFields(v1::JobConfig::descriptor());
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
  const char* wanted = std::getenv("OARLOCK_FUZZ_INPUTS");
  const uint64_t num_inputs = wanted == nullptr ? 20000 : std::atoll(wanted);
  for (uint64_t seed = 0; seed < num_inputs; ++seed) {
    // An abort leaves this as the last line.
    if (seed % 10000 == 0) std::cerr << "seeds from " << seed << "\n";
    RandomSequence r(seed);
    const bool is_text = r.Below(2) == 0;
    std::string input = is_text ? RandomText(&r) : RandomWords(&r);
    for (uint64_t n = r.Below(3); n > 0 && !input.empty(); --n) {
      input[r.Below(input.size())] = static_cast<char>(r.Below(256));
    }
    RunOn(std::string(1, is_text ? 0 : 1) + input);
  }
}

TEST(ConfigReplayTest, FilesOfTheCorpusPass) {
  for (const std::string& path : *files) {
    std::cerr << path << "\n";
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    RunOn(std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) oarlock::files->push_back(argv[i]);
  return RUN_ALL_TESTS();
}
