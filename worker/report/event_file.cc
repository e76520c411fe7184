#include "worker/report/event_file.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "proto/vendored/event.pb.h"
#include "worker/report/crc32c.h"

namespace oarlock::worker {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

// Of files of this process, which may begin several in a second.
std::atomic<int> num_files = 0;

template <typename Integer>
void AppendLittleEndian(Integer value, std::string* to) {
  for (size_t i = 0; i < sizeof value; ++i) {
    to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

std::string HostName() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::string FrameRecord(absl::string_view bytes) {
  std::string record;
  AppendLittleEndian(uint64_t{bytes.size()}, &record);
  AppendLittleEndian(MaskedCrc32c(record), &record);
  absl::StrAppend(&record, bytes);
  AppendLittleEndian(MaskedCrc32c(bytes), &record);
  return record;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const std::string& folder, absl::Time now) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto file = absl::WrapUnique(new EventFile(absl::StrFormat(
      "%s/events.out.tfevents.%010d.%s.%d.%d", folder, absl::ToUnixSeconds(now),
      HostName(), getpid(), num_files++)));
  file->out_.open(file->path_, std::ios::binary | std::ios::trunc);
  events::Event first;
  first.set_wall_time(UnixSeconds(now));
  first.set_file_version(kFileVersion);
  OARLOCK_RETURN_IF_ERROR(file->Write(first.SerializeAsString()));
  return file;
}

absl::Status EventFile::Add(int64_t step, absl::Time time,
                            const Scalars& scalars) {
  events::Event event;
  event.set_wall_time(UnixSeconds(time));
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    if (!std::isfinite(value)) continue;
    events::Summary::Value* const point = event.mutable_summary()->add_value();
    point->set_tag(tag);
    point->set_simple_value(static_cast<float>(value));
  }
  if (event.summary().value().empty()) return absl::OkStatus();
  return Write(event.SerializeAsString());
}

absl::Status EventFile::Write(absl::string_view event) {
  out_ << FrameRecord(event) << std::flush;
  if (out_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot write ", path_,
      "; is there room, and may this process write in --tensorboard_dir?"));
}

}  // namespace oarlock::worker
