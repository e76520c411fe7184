#include "storage/push_log_format.h"

#include <xxhash.h>

#include <cstring>

#include "absl/base/internal/endian.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace oarlock {
namespace {

constexpr absl::string_view kSegmentMagic = "OARLKLOG";
constexpr uint32_t kRecordMagic = 0x524b4c4f;
constexpr absl::string_view kSuffix = ".log";
constexpr size_t kMinDigits = 8;

}  // namespace

}  // namespace oarlock
