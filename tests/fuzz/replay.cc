#include "tests/fuzz/replay.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

namespace oarlock {
namespace {

constexpr uint64_t kSeedsPerLine = 10000;

// Named on the command line; of a folder all that lie in it.
std::vector<std::filesystem::path>& Files() {
  static auto* const files = new std::vector<std::filesystem::path>;
  return *files;
}

void AddFiles(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    Files().push_back(path);
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    AddFiles(entry.path());
  }
}

TEST(ReplayTest, FilesOfTheCorpusPass) {
  for (const std::filesystem::path& path : Files()) {
    std::cerr << path << "\n";
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    RunTarget(std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

}  // namespace

void RunTarget(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

uint64_t RunOnSeeds(uint64_t usual,
                    const std::function<std::string(uint64_t seed)>& make) {
  const char* wanted = std::getenv("OARLOCK_FUZZ_INPUTS");
  const uint64_t num_inputs = wanted == nullptr ? usual : std::atoll(wanted);
  for (uint64_t seed = 0; seed < num_inputs; ++seed) {
    if (seed % kSeedsPerLine == 0) std::cerr << "seeds from " << seed << "\n";
    RunTarget(make(seed));
  }
  return num_inputs;
}

}  // namespace oarlock

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) oarlock::AddFiles(argv[i]);
  return RUN_ALL_TESTS();
}
