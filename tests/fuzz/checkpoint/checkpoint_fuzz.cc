// Fuzz target of what is parsed in a checkpoint before any sum vouches for it,
// for libFuzzer and for checkpoint_replay_test.
//
// Input: a letter, then bytes. m: text of a manifest. s: a MANIFEST with its
// last line. r: a record's name and value. Aborts when what was accepted does
// not come back, or when an error has a code of its own.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "checkpoint/manifest.h"
#include "storage/checkpoint_dir.h"
#include "storage/checkpoint_record.h"

namespace {

void Must(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void TryManifest(const std::string& text) {
  const auto opened = oarlock::storage::OpenManifest(
      "it", oarlock::storage::SealManifest(text));
  Must(opened.ok() && *opened == text, "a sealed manifest does not open");
  const auto manifest = oarlock::checkpoint::ParseManifest("it", text);
  if (!manifest.ok()) {
    Must(absl::IsDataLoss(manifest.status()) ||
             absl::IsFailedPrecondition(manifest.status()),
         "an error of another code");
    return;
  }
  const auto again = oarlock::checkpoint::ParseManifest(
      "it", oarlock::checkpoint::FormatManifest(*manifest));
  Must(again.ok(), "a manifest that was written is refused");
  Must(oarlock::checkpoint::FormatManifest(*again) ==
           oarlock::checkpoint::FormatManifest(*manifest),
       "a manifest changes when it is written");
}

void TrySealed(const std::string& sealed) {
  const auto opened = oarlock::storage::OpenManifest("it", sealed);
  if (opened.ok()) {
    Must(oarlock::storage::SealManifest(*opened) == sealed,
         "two seals of one text");
  } else {
    Must(absl::IsDataLoss(opened.status()), "an error of another code");
  }
}

void TryRecord(absl::string_view bytes) {
  const absl::string_view name =
      bytes.substr(0, oarlock::storage::RecordName::kBytes);
  const absl::string_view value = bytes.substr(name.size());
  if (const auto decoded = oarlock::storage::DecodeRecordName(name)) {
    const auto encoded = oarlock::storage::EncodeRecordName(*decoded);
    Must(absl::string_view(encoded.data(), encoded.size()) == name,
         "a name changes");
  }
  if (const auto opened = oarlock::storage::OpenRecord(name, value)) {
    std::string sealed(*opened);
    oarlock::storage::SealRecord(name, sealed);
    Must(sealed == value, "two seals of one record");
  }
  std::string sealed(value);
  oarlock::storage::SealRecord(name, sealed);
  Must(oarlock::storage::OpenRecord(name, sealed) == value,
       "a sealed record does not open");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      TryManifest(bytes);
      break;
    case 's':
      TrySealed(bytes);
      break;
    case 'r':
      TryRecord(bytes);
      break;
  }
  return 0;
}
