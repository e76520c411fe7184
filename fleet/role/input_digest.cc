#include "fleet/role/input_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/str_format.h"

namespace oarlock {
namespace {

constexpr uint64_t kEdgeBytes = 1 << 20;

// Adds up to kEdgeBytes from `begin` on.
void AddBytes(std::ifstream& in, uint64_t begin, XXH3_state_t* state) {
  std::string bytes(kEdgeBytes, '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(begin));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  XXH3_64bits_update(state, bytes.data(), in.gcount());
}

}  // namespace

std::string InputDigest(const std::vector<std::string>& files) {
  if (files.empty()) return "";
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(
      XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const std::string& file : files) {
    std::error_code none;
    const bool regular = std::filesystem::is_regular_file(file, none);
    std::ifstream in;
    // To open a pipe is to wait for its writer.
    if (regular) in.open(file, std::ios::binary);
    if (!regular || !in) {
      XXH3_64bits_update(state.get(), file.data(), file.size());
      continue;
    }
    const uint64_t size = std::filesystem::file_size(file, none);
    XXH3_64bits_update(state.get(), &size, sizeof(size));
    AddBytes(in, 0, state.get());
    if (size > kEdgeBytes) {
      AddBytes(in, std::max(size - kEdgeBytes, kEdgeBytes), state.get());
    }
  }
  return absl::StrFormat("%016x", XXH3_64bits_digest(state.get()));
}

}  // namespace oarlock
