// The worked example of docs/wire_protocol.md, byte for byte.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "proto/v1/parameter.pb.h"
#include "tests/wire/codec_oracle.h"
#include "wire/wire_codec.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

std::string Document() {
  std::ifstream file("docs/wire_protocol.md");
  EXPECT_TRUE(file) << "run under bazel, or from the repository's root";
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The bytes of the code block that begins with ```name.
std::string Block(const std::string& name) {
  std::istringstream lines(Document());
  std::string line, hex;
  bool inside = false;
  while (std::getline(lines, line)) {
    if (line == "```" + name) {
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      for (char c : line.substr(0, line.find('#'))) {
        if (!absl::ascii_isspace(static_cast<unsigned char>(c))) hex += c;
      }
    }
  }
  EXPECT_FALSE(hex.empty()) << name;
  return absl::HexStringToBytes(hex);
}

template <typename Message>
std::string BytesOf(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message.SerializeAsString();
}

TEST(WireProtocolDocTest, ThePullRequestIsAsTheDocumentSays) {
  const std::string bytes = Block("pull-request");
  EXPECT_EQ(bytes, BytesOf<v1::PullSparseRequest>(R"(
      header { protocol_version: 2 job_hash: 0xcb14bd8a5c561c96
               routing_generation: 1 server_generation: 7 }
      table: 1 partitions: 145 partitions: 226
      group_sizes: 2 group_sizes: 1 keys: 1 keys: 81 keys: 0)"));
  const auto view = DecodePullSparseRequest(OneSlice(bytes));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->num_keys, 3u);
  EXPECT_EQ(view->header.job_hash(),
            static_cast<uint64_t>(FeatureHash("default", 0, 0)));
  std::vector<uint64_t> scratch;
  const uint64_t* keys = view->keys.Elements<uint64_t>(0, 3, &scratch);
  EXPECT_EQ(PartitionOfMix(Mix(keys[0]), 8), PartitionIndex(145));
  EXPECT_EQ(PartitionOfMix(Mix(keys[1]), 8), PartitionIndex(145));
  EXPECT_EQ(PartitionOfMix(Mix(keys[2]), 8), PartitionIndex(226));
}

TEST(WireProtocolDocTest, ThePullResponseIsAsTheDocumentSays) {
  const std::string bytes = Block("pull-response");
  EXPECT_EQ(bytes, BytesOf<v1::PullSparseResponse>(R"(
      header { server_generation: 7 routing_generation: 1 table_version: 3 }
      dim: 2 group_versions: 2 group_versions: 1
      values: 0.5 values: -1 values: 0.25 values: 0 values: 1.5 values: 2)"));
  EXPECT_TRUE(DecodePullSparseResponse(OneSlice(bytes)).ok());
}

TEST(WireProtocolDocTest, ThePushRequestIsAsTheDocumentSays) {
  const std::string bytes = Block("push-request");
  EXPECT_EQ(bytes, BytesOf<v1::PushSparseRequest>(R"(
      header { protocol_version: 2 job_hash: 0xcb14bd8a5c561c96
               routing_generation: 1 server_generation: 7
               worker_index: 1 worker_generation: 5 sequence: 300
               examples { begin: 1024 end: 1536 }
               message_count: 2 table_message_count: 1
               oldest_unanswered: 300 }
      table: 1 partitions: 145 group_sizes: 1 keys: 1
      values: 0.5 values: -1)"));
  EXPECT_TRUE(DecodePushSparseRequest(OneSlice(bytes)).ok());
}

TEST(WireProtocolDocTest, ThePushResponseIsAsTheDocumentSays) {
  EXPECT_EQ(Block("push-response"), BytesOf<v1::PushResponse>(R"(
      header { server_generation: 7 routing_generation: 1 table_version: 4 }
  )"));
}

TEST(WireProtocolDocTest, TheTablesOfHashesAndLimitsAreRight) {
  const std::string text = Document();
  for (uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{2},
                       uint64_t{12345678901234567890u}, ~uint64_t{0}}) {
    const std::string row =
        absl::StrCat("| ", key, " | ", absl::Hex(Mix(key), absl::kZeroPad16),
                     " | ", PartitionOfMix(Mix(key), 8).value(), " |");
    EXPECT_TRUE(absl::StrContains(text, row)) << row;
  }
  struct Vector {
    const char* text;
    uint32_t slot;
    uint64_t feature_dim;
  };
  for (const Vector& v :
       {Vector{"", 0, 0}, Vector{"", 5, 0}, Vector{"abc", 0, 0},
        Vector{"68fd1e64", 0, 0}, Vector{"68fd1e64", 1, 0},
        Vector{"68fd1e64", 25, 0}, Vector{"68fd1e64", 0, 10000001},
        Vector{"80e26c9b", 1, 10000001}}) {
    const uint64_t key =
        static_cast<uint64_t>(FeatureHash(v.text, v.slot, v.feature_dim));
    const std::string row = absl::StrCat(
        "| ", *v.text ? absl::StrCat("`", v.text, "`") : "(empty)", " | ",
        v.slot, " | ", v.feature_dim, " | ",
        v.feature_dim == 0 ? absl::StrCat(absl::Hex(key, absl::kZeroPad16))
                           : absl::StrCat(key));
    EXPECT_TRUE(absl::StrContains(text, row)) << row;
  }
  static_assert(kMaxMessageBytes == 64 << 20);
  static_assert(kMaxGroupsPerMessage == 65536);
  static_assert(kMaxKeysPerMessage == 4194304);
  static_assert(kMaxHeaderBytes == 1 << 20);
  static_assert(kPreferredMessageBytes == 1 << 20);
}

}  // namespace
}  // namespace oarlock::wire
