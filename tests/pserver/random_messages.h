// Messages whose fields were drawn at random, from values that a server may
// read wrongly: none, limits and their neighbours, what does not fit.

#ifndef OARLOCK_TESTS_PSERVER_RANDOM_MESSAGES_H_
#define OARLOCK_TESTS_PSERVER_RANDOM_MESSAGES_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/random.h"

namespace oarlock::pserver {

// Not thread-safe.
class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : random_(seed) {}

  // Values with which a field of this name gets further than with others.
  void SetKnown(const std::string& field, std::vector<uint64_t> values) {
    numbers_[field] = std::move(values);
  }
  void SetKnownText(const std::string& field, std::vector<std::string> texts) {
    texts_[field] = std::move(texts);
  }

  // Sets about half of the fields.
  void Fill(google::protobuf::Message* message) { Fill(message, kMaxDepth); }
  // Changes one field, somewhere in the message.
  void Change(google::protobuf::Message* message);

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool OneIn(uint64_t times) { return random_.Below(times) == 0; }
  template <typename T>
  T One(const std::vector<T>& values) {
    return values[random_.Below(values.size())];
  }

 private:
  // Of messages within messages.
  static constexpr int kMaxDepth = 5;

  void Fill(google::protobuf::Message* message, int depth);
  void Set(google::protobuf::Message* message,
           const google::protobuf::FieldDescriptor* field, int depth);
  int RandomSize();
  uint64_t Number(const std::string& field);
  float Real();
  std::string Text(const google::protobuf::FieldDescriptor* field);

  RandomSequence random_;
  absl::flat_hash_map<std::string, std::vector<uint64_t>> numbers_;
  absl::flat_hash_map<std::string, std::vector<std::string>> texts_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_RANDOM_MESSAGES_H_
