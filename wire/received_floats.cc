#include "wire/received_floats.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/finite.h"
#include "wire/value_format.h"

namespace oarlock::wire {
namespace {

// Values that are widened at a time. Bytes that straddle slices are put
// together first, in memory that stays in the first-level cache.
constexpr size_t kValuesAtOnce = 4096;

}  // namespace

ReceivedFloats::ReceivedFloats(SlicedBytes bytes, v1::ValueFormat format)
    : bytes_(std::move(bytes)),
      format_(format),
      size_(bytes_.size() / ValueBytes(format)) {
  OARLOCK_CHECK(size_ * ValueBytes(format) == bytes_.size());
}

bool ReceivedFloats::AllFinite() const {
  if (format_ != v1::FLOAT32) {
    std::vector<float> scratch;
    for (size_t begin = 0; begin < size_; begin += kValuesAtOnce) {
      const size_t now = std::min(size_ - begin, kValuesAtOnce);
      if (!oarlock::AllFinite(Elements(begin, now, &scratch), now))
        return false;
    }
    return true;
  }
  for (size_t begin = 0; begin < bytes_.size();) {
    const std::string_view run = bytes_.RunFrom(begin);
    // A float that straddles two pieces is put together.
    const size_t now = std::max<size_t>(run.size() / sizeof(float), 1);
    float straddling = 0;
    const void* floats = run.data();
    if (run.size() < sizeof(float)) {
      bytes_.CopyTo(begin, sizeof(float), &straddling);
      floats = &straddling;
    }
    if (!oarlock::AllFinite(floats, now)) return false;
    begin += now * sizeof(float);
  }
  return true;
}

void ReceivedFloats::CopyTo(size_t begin, size_t count, float* to) const {
  OARLOCK_CHECK(begin <= size_ && count <= size_ - begin);
  const size_t value_bytes = ValueBytes(format_);
  if (format_ == v1::FLOAT32) {
    bytes_.CopyTo(begin * value_bytes, count * value_bytes, to);
    return;
  }
  std::string scratch;
  while (count > 0) {
    const size_t now = std::min(count, kValuesAtOnce);
    const std::string_view narrow =
        bytes_.View(begin * value_bytes, now * value_bytes, &scratch);
    WidenValues(format_, narrow.data(), absl::MakeSpan(to, now));
    begin += now;
    to += now;
    count -= now;
  }
}

const float* ReceivedFloats::Elements(size_t begin, size_t count,
                                      std::vector<float>* scratch) const {
  if (format_ == v1::FLOAT32) {
    return bytes_.Elements<float>(begin, count, scratch);
  }
  if (scratch->size() < count) scratch->resize(count);
  CopyTo(begin, count, scratch->data());
  return scratch->data();
}

}  // namespace oarlock::wire
