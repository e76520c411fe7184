#include "client/messages/input_messages.h"

#include <cstddef>

namespace oarlock::client {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;

}  // namespace

std::vector<v1::DefineInputRequest> InputParts(
    const std::string& name, const std::vector<v1::ListedFile>& files) {
  std::vector<v1::DefineInputRequest> parts;
  size_t bytes = 0;
  const auto begin_part = [&] {
    v1::DefineInputRequest& part = parts.emplace_back();
    part.set_name(name);
    part.set_part(static_cast<uint32_t>(parts.size() - 1));
    bytes = 0;
  };
  begin_part();
  for (const v1::ListedFile& file : files) {
    const size_t file_bytes = file.ByteSizeLong();
    if (bytes > 0 && bytes + file_bytes > kPartBytes) begin_part();
    *parts.back().add_files() = file;
    bytes += file_bytes;
  }
  parts.back().set_last(true);
  return parts;
}

bool AppendPart(const v1::GetInputResponse& part, JobClient::Input* input) {
  input->files.insert(input->files.end(), part.files().begin(),
                      part.files().end());
  if (part.last()) input->features = part.features();
  return part.last();
}

}  // namespace oarlock::client
