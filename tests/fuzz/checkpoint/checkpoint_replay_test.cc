// The fuzz target of checkpoints on manifests and records that are changed a
// little, from seeds.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "checkpoint/manifest.h"
#include "storage/checkpoint_dir.h"
#include "storage/checkpoint_record.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

constexpr char kManifest[] = R"(format_version: 1
job_id: "default"
cut: 42
num_partitions: 8
servers {
  directory: "server-000"
  files { name: "CURRENT" bytes: 16 xxh3: 1311768467294899695 }
  files { name: "000012.sst" bytes: 4096 xxh3: 2 }
  tables { table: 1 rows: 1000 digest: 3 full: true }
}
servers { server_index: 1 directory: "server-001" }
tables { id: 1 name: "slots" sparse { dim: 8 accessor: PLAIN } }
tables { id: 2 name: "dense" dense { size: 1000 block_size: 256 } }
works { work: "train/0" covered { end: 500 } done: true }
)";

std::string RandomManifest(RandomSequence& random) {
  std::string text = kManifest;
  for (uint64_t i = random.Below(4); i > 0 && !text.empty(); --i) {
    const size_t at = random.Below(text.size());
    switch (random.Below(5)) {
      case 0:
        text[at] = static_cast<char>(random.Below(256));
        break;
      case 1:
        text[at] = static_cast<char>('0' + random.Below(10));
        break;
      case 2:
        text.erase(at, random.Below(20));
        break;
      case 3:
        text.insert(at, text.substr(random.Below(text.size()), 20));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

std::string RandomRecord(RandomSequence& random) {
  const auto name = storage::EncodeRecordName(
      {.cut = random.Below(5),
       .table = TableId(static_cast<uint32_t>(random.Below(3))),
       .unit = static_cast<uint32_t>(random.Below(3)),
       .kind = static_cast<storage::RecordKind>(1 + random.Below(3)),
       .number = 0});
  std::string value(random.Below(50), 'v');
  storage::SealRecord({name.data(), name.size()}, value);
  std::string bytes =
      absl::StrCat(std::string(name.data(), name.size()), value);
  if (random.Below(2) == 0) {
    bytes[random.Below(bytes.size())] ^= static_cast<char>(random.Below(256));
  }
  if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size()));
  return bytes;
}

TEST(CheckpointReplayTest, WhatIsAcceptedComesBack) {
  uint64_t num_accepted = 0, num_refused = 0;
  const uint64_t inputs = RunOnSeeds(20'000, [&](uint64_t seed) {
    RandomSequence random(seed);
    switch (random.Below(3)) {
      case 0: {
        const std::string text = RandomManifest(random);
        (checkpoint::ParseManifest("it", text).ok() ? num_accepted
                                                    : num_refused) += 1;
        return absl::StrCat("m", text);
      }
      case 1: {
        std::string sealed = storage::SealManifest(RandomManifest(random));
        if (random.Below(2) == 0) {
          sealed[random.Below(sealed.size())] ^= 1 << random.Below(8);
        }
        return absl::StrCat("s", sealed);
      }
      default:
        return absl::StrCat("r", RandomRecord(random));
    }
  });
  // Else the inputs are all alike.
  EXPECT_GT(num_accepted, inputs / 20);
  EXPECT_GT(num_refused, inputs / 20);
}

}  // namespace
}  // namespace oarlock
