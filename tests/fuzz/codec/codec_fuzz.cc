// Fuzz target of the wire codec, for libFuzzer and for codec_replay_test.
//
// Input: one byte for the kind of message, one for the longest slice (0: all
// in one), the rest the message. Aborts when a decoder disagrees with the
// generated parser and the protocol's rules.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/random.h"
#include "tests/wire/codec_oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto kind = static_cast<oarlock::wire::MessageKind>(
      data[0] % oarlock::wire::kNumMessageKinds);
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  oarlock::RandomSequence r(data[1]);
  const std::string disagreement = oarlock::wire::DisagreementWithGeneratedCode(
      kind, data[1] == 0 ? oarlock::wire::OneSlice(bytes)
                         : oarlock::wire::CutIntoSlices(bytes, data[1], &r));
  if (!disagreement.empty()) {
    std::fprintf(stderr, "%s\n", disagreement.c_str());
    std::abort();
  }
  return 0;
}
