// Every function of the C interface, called with nulls, wrong sizes, texts that
// are no JSON, and handles that are closed or of another kind, from several
// threads at once. A code comes each time, and nobody aborts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/random.h"
#include "capi/include/oarlock/oarlock.h"
#include "data/arrow/c_data.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::capi {
namespace {

constexpr int kThreads = 2;
constexpr size_t kArraySize = 32;

int NumCalls() {
  const char* const calls = std::getenv("OARLOCK_RANDOM_CALLS");
  return calls == nullptr ? 20000 : std::atoi(calls);
}

enum Kind { kClient, kOperation, kKeys, kStep, kFeatures, kSum, kKinds };

// Handles that were handed out, some of them closed since.
class Handles {
 public:
  void Add(Kind kind, uint64_t handle) {
    absl::MutexLock lock(&mutex_);
    std::deque<uint64_t>& handles = handles_[kind];
    if (handles.size() == 16) handles.pop_front();
    handles.push_back(handle);
  }
  // At most so many clients are open at a time, since each has threads.
  void AddClient(uint64_t handle) {
    uint64_t oldest = 0;
    {
      absl::MutexLock lock(&mutex_);
      clients_.push_back(handle);
      if (clients_.size() > 4) {
        oldest = clients_.front();
        clients_.pop_front();
      }
    }
    if (oldest != 0) oarlock_client_free(oldest, nullptr);
  }
  bool has_clients() const {
    absl::MutexLock lock(&mutex_);
    return !handles_[kClient].empty();
  }
  void FreeClients() {
    absl::MutexLock lock(&mutex_);
    for (const uint64_t client : clients_) oarlock_client_free(client, nullptr);
  }
  // Mostly one of this kind.
  uint64_t Any(Kind kind, uint64_t random) const {
    absl::MutexLock lock(&mutex_);
    if (random % 16 == 0) return random >> 32;
    const std::deque<uint64_t>& handles =
        handles_[random % 16 == 1 ? Kind(random / 16 % kKinds) : kind];
    if (handles.empty()) return 0;
    // The newest ones are mostly open.
    const size_t among = random / 128 % 4 == 0
                             ? handles.size()
                             : std::min<size_t>(2, handles.size());
    return handles[handles.size() - 1 - random / 512 % among];
  }

 private:
  mutable absl::Mutex mutex_;
  std::deque<uint64_t> handles_[kKinds] ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> clients_ ABSL_GUARDED_BY(mutex_);
};

// Where pulls write, to the end of the process.
float* Values() {
  static float* const values = new float[64];
  return values;
}

// What one thread calls with. Arrays are as long as their sizes say, or null:
// nothing else is promised.
class Caller {
 public:
  Caller(uint64_t seed, std::string config, Handles* handles)
      : random_(seed), config_(std::move(config)), handles_(handles) {}

  void CallAny();
  const std::map<oarlock_code, int>& codes() const { return codes_; }

 private:
  uint64_t Next() { return random_(); }
  bool Rarely() { return Next() % 8 == 0; }
  uint64_t Handle(Kind kind) { return handles_->Any(kind, Next()); }
  template <typename T>
  T* OrNull(T* pointer) {
    return Rarely() ? nullptr : pointer;
  }
  oarlock_error* Error() { return OrNull(&error_); }
  // A text of the list, sometimes with a wrong byte.
  const std::string& Text() {
    static const auto* const texts = new std::vector<std::string>{
        "",
        "{}",
        "{",
        "train",
        "\xff\xfe",
        "{\"rank\": 0}",
        "{\"rank\": 4294967295, \"world\": 4294967295}",
        "{\"name\": \"t\", \"total\": 100, \"block\": 10}",
        "{\"name\": \"t\", \"total\": 100, \"begins\": true, "
        "\"again\": true}",
        "{\"name\": \"t\", \"total\": \"18446744073709551615\", \"block\": 1}",
        "{\"name\": \"a\", \"mode\": \"ASYNC\", \"reduction\": \"MEAN\", "
        "\"optimizer\": {\"learning_rate\": 1, \"sgd\": {}}, \"sparse\": "
        "{\"dim\": 2, \"accessor\": \"PLAIN\"}}",
        "{\"name\": \"d\", \"mode\": \"ASYNC\", \"reduction\": \"MEAN\", "
        "\"optimizer\": {\"learning_rate\": 1, \"sgd\": {}}, \"dense\": "
        "{\"size\": 4, \"block_size\": 2, \"parameters\": [{\"name\": \"p\", "
        "\"shape\": [4]}]}}",
        "CoordinatorService/GetJobStatus",
        "ServerAdminService/GetServerStatus",
        "CoordinatorService/RegisterWorker",
        "{\"with_histograms\": true}",
        std::string(70000, '['),
    };
    text_ = (*texts)[Next() % texts->size()];
    if (Rarely() && !text_.empty()) {
      text_[Next() % text_.size()] = static_cast<char>(Next());
    }
    return text_;
  }
  size_t Count() { return Next() % (kArraySize + 1); }
  void Count(oarlock_code code) {
    ++codes_[code];
    if (code == OARLOCK_INTERNAL) std::printf("%s\n", error_.message);
  }
  // Mostly it has an end: what needs a session is reached.
  void Connect(oarlock_client client);
  // One of the functions of features; `to` gets new ones.
  oarlock_code CallFeatures(oarlock_features* to);
  // The same of sums.
  oarlock_code CallSums(oarlock_sum* to);

  RandomSequence random_;
  uint32_t table_of_a_ = 0;
  const std::string config_;
  Handles* const handles_;
  std::string text_;
  std::string other_text_;
  std::map<oarlock_code, int> codes_;
  oarlock_error error_ = {};
};

void Caller::Connect(oarlock_client client) {
  oarlock_operation operation = 0;
  const std::string join = "{\"world\": 1, \"take_over\": true}";
  const oarlock_code code =
      Next() % 4 == 0 ? oarlock_connect_begin(client, &operation, Error())
                      : oarlock_join_begin(client, join.data(), join.size(),
                                           &operation, Error());
  if (code == OARLOCK_OK) oarlock_wait(operation, 2000, Error());
}

oarlock_code Caller::CallFeatures(oarlock_features* to) {
  // A label and an id, of which each may be of a type that is refused.
  static const char* const kFormats[] = {"l", "c", "l", "n", "g", "+l", "tsu:"};
  ArrowSchema fields[2] = {};
  ArrowSchema* children[2] = {&fields[0], &fields[1]};
  for (int i = 0; i < 2; ++i) {
    fields[i].name = i == 0 ? "y" : "u";
    fields[i].format = Rarely() ? kFormats[Next() % 7] : "l";
  }
  const ArrowSchema schema = {
      "+s",     "",      nullptr, 0,      Rarely() ? 1 : 2,
      children, nullptr, nullptr, nullptr};
  static const int64_t kValues[kArraySize] = {1, 0, 1};
  static const void* buffers[2] = {nullptr, kValues};
  ArrowArray columns[2] = {};
  ArrowArray* arrays[2] = {&columns[0], &columns[1]};
  for (ArrowArray& column : columns) {
    column.length = kArraySize;
    column.n_buffers = 2;
    column.buffers = buffers;
  }
  const ArrowArray batch = {static_cast<int64_t>(Next() % kArraySize),
                            0,
                            0,
                            1,
                            Rarely() ? 1 : 2,
                            buffers,
                            arrays,
                            nullptr,
                            nullptr,
                            nullptr};
  const std::string list =
      Rarely() ? Text()
               : "{\"features\": [{\"name\": \"y\", \"label\": {}}, "
                 "{\"name\": \"u\", \"sparse\": {\"type\": \"INTEGER\", "
                 "\"number\": 1}}]}";
  alignas(64) char memory[4096];
  size_t size = 0;
  uint64_t bytes = 0;
  const oarlock_features features = Handle(kFeatures);
  switch (Next() % 5) {
    case 0:
      return oarlock_features_create(list.data(), list.size(), to, Error());
    case 1:
      return oarlock_features_resolve(features, OrNull(&schema), memory,
                                      sizeof memory, OrNull(&size), Error());
    case 2:
      return oarlock_features_bind(features, OrNull(&schema), Error());
    case 3: {
      const oarlock_code code =
          oarlock_features_prepare(features, OrNull(&batch), &bytes, Error());
      if (code != OARLOCK_OK) return code;
      return oarlock_features_write(features, OrNull(&batch), OrNull(memory),
                                    Rarely() ? 1 : sizeof memory, Error());
    }
    default:
      return Rarely() ? oarlock_features_free(features, Error()) : OARLOCK_OK;
  }
}

oarlock_code Caller::CallSums(oarlock_sum* to) {
  static const char kBytes[kArraySize] = {};
  uint64_t value = 0;
  const oarlock_sum sum = Handle(kSum);
  switch (Next() % 4) {
    case 0:
      return oarlock_sum_create(to, Error());
    case 1:
      return oarlock_sum_add(sum, OrNull(kBytes), Count(), Error());
    case 2:
      return oarlock_sum_value(sum, OrNull(&value), Error());
    default:
      return Rarely() ? oarlock_sum_free(sum, Error()) : OARLOCK_OK;
  }
}

void Caller::CallAny() {
  uint64_t handle = 0;
  size_t size = 0;
  int32_t number = 0;
  uint64_t keys[kArraySize];
  float floats[kArraySize * 2] = {};
  int32_t inverse[kArraySize];
  int64_t offsets[kArraySize + 1];
  char buffer[4096];
  for (uint64_t& key : keys) key = Next() % 10;
  for (int64_t& offset : offsets) {
    offset = static_cast<int64_t>(Next() % 40) - 4;
  }
  const size_t count = Count();
  const uint32_t table = Rarely() ? static_cast<uint32_t>(Next()) : table_of_a_;
  oarlock_code code = OARLOCK_OK;
  uint64_t* const to = OrNull(&handle);
  // Of what the call hands out.
  Kind kind = kOperation;
  switch (Next() % 31) {
    case 0:
      if (handles_->has_clients() && !Rarely()) return;
      text_ = Rarely() ? Text() : config_;
      code = oarlock_client_create(text_.data(), text_.size(), to, Error());
      kind = kClient;
      if (code == OARLOCK_OK) {
        handles_->AddClient(handle);
        Connect(handle);
      }
      break;
    case 1:
      if (!Rarely() || !Rarely()) return;
      code = oarlock_client_free(Handle(kClient), Error());
      break;
    case 2:
      code = oarlock_client_event_fd(Handle(kClient), OrNull(&number), Error());
      break;
    case 3:
      code = oarlock_connect_begin(Handle(kClient), to, Error());
      break;
    case 4:
      Text();
      code = oarlock_join_begin(Handle(kClient), text_.data(), text_.size(), to,
                                Error());
      break;
    case 5:
      if (!Rarely()) return;
      Text();
      code = oarlock_leave_begin(Handle(kClient), Next() % 3, text_.data(),
                                 text_.size(), to, Error());
      break;
    case 6:
      code = oarlock_alive(Handle(kClient), Error());
      break;
    case 7:
      code = Rarely() ? oarlock_finish(Handle(kOperation), Next() % 3, Error())
                      : oarlock_wait(Handle(kOperation), Next() % 3, Error());
      break;
    case 8:
      code = oarlock_cancel(Handle(kOperation), OrNull(&number), Error());
      break;
    case 9:
      code = oarlock_result(Handle(kOperation), OrNull(buffer),
                            Next() % sizeof buffer, OrNull(&size), Error());
      break;
    case 10:
      code = oarlock_operation_free(Handle(kOperation), Error());
      break;
    case 11:
      Text();
      code = oarlock_create_table_begin(Handle(kClient), text_.data(),
                                        text_.size(), to, Error());
      break;
    case 12:
      code = oarlock_open_table_begin(Handle(kClient), Rarely() ? nullptr : "a",
                                      1, to, Error());
      break;
    case 13: {
      uint32_t id = 0;
      code =
          oarlock_table_id(Rarely() ? nullptr : "a", 1, OrNull(&id), Error());
      if (code == OARLOCK_OK && id != 0) table_of_a_ = id;
      break;
    }
    case 14:
      kind = kKeys;
      code = oarlock_keys_create(Handle(kClient), OrNull(keys), count, to,
                                 OrNull(&size), Error());
      break;
    case 15:
      code = oarlock_keys_read(Handle(kKeys), OrNull(keys), count,
                               OrNull(inverse), Count(), Error());
      break;
    case 16:
      code = oarlock_keys_sum(Handle(kKeys), OrNull(floats), count,
                              1 + Next() % 2, OrNull(floats), Count(), Error());
      break;
    case 17:
      code = oarlock_keys_free(Handle(kKeys), Error());
      break;
    case 18:
      code =
          oarlock_hash_texts(Rarely() ? nullptr : buffer, 36, OrNull(offsets),
                             count, Next(), OrNull(keys), Error());
      break;
    case 19: {
      oarlock_sparse_pull pulls[2] = {};
      for (oarlock_sparse_pull& pull : pulls) {
        pull.table = table;
        pull.keys = Handle(kKeys);
        pull.values = OrNull(Values());
        pull.num_values = Next() % 64;
      }
      code = Rarely() ? oarlock_pull(Handle(kClient), OrNull(pulls), Next() % 3,
                                     Next() % 3, to, Error())
                      : oarlock_pull_begin(Handle(kClient), OrNull(pulls),
                                           Next() % 3, to, Error());
      break;
    }
    case 20: {
      code = oarlock_pull_dense_begin(Handle(kClient), table, OrNull(Values()),
                                      Next() % 64, to, Error());
      break;
    }
    case 21:
      kind = kStep;
      code = oarlock_step_create(Handle(kClient), Next() % 4, to, Error());
      break;
    case 22: {
      oarlock_sparse_push push = {};
      push.table = table;
      push.keys = Handle(kKeys);
      push.gradients = OrNull(floats);
      push.num_gradients = Next() % (2 * kArraySize);
      push.shows = Rarely() ? floats : nullptr;
      push.clicks = Rarely() ? floats : nullptr;
      code = oarlock_step_add(Handle(kStep), OrNull(&push), Error());
      break;
    }
    case 23: {
      oarlock_dense_push push = {};
      push.table = table;
      push.gradients = OrNull(floats);
      push.num_gradients = Next() % 8;
      code = oarlock_step_add_dense(Handle(kStep), OrNull(&push), Error());
      break;
    }
    case 24:
      code = Rarely() ? oarlock_step_free(Handle(kStep), Error())
             : Rarely()
                 ? oarlock_step_push(Handle(kStep), Next() % 3, to, Error())
                 : oarlock_step_push_begin(Handle(kStep), to, Error());
      break;
    case 25:
      Text();
      code = Rarely() ? oarlock_barrier_begin(Handle(kClient), text_.data(),
                                              text_.size(), to, Error())
                      : oarlock_lease_begin(Handle(kClient), text_.data(),
                                            text_.size(), to, Error());
      break;
    case 26:
      other_text_ = Text();
      Text();
      code = oarlock_call_begin(Handle(kClient), Next() % 2, text_.data(),
                                text_.size(), other_text_.data(),
                                other_text_.size(), to, Error());
      break;
    case 29:
      kind = kFeatures;
      code = CallFeatures(to);
      break;
    case 30:
      kind = kSum;
      code = CallSums(to);
      break;
    case 27:
      Text();
      // Labels and predictions that are legal, and others.
      for (float& value : floats) value = Rarely() ? 2.0f : Next() % 2;
      code = Rarely() ? oarlock_evaluation_sum_begin(Handle(kClient),
                                                     text_.data(), text_.size(),
                                                     Next() % 4, to, Error())
                      : oarlock_evaluation_add(
                            Handle(kClient), text_.data(), text_.size(),
                            Next() % 4, OrNull(floats),
                            OrNull(floats + kArraySize), count, Error());
      break;
    default:
      code = oarlock_log_read(OrNull(buffer), sizeof buffer, OrNull(&size),
                              OrNull(&number), Error());
      break;
  }
  Count(code);
  if (code == OARLOCK_OK && to != nullptr && handle != 0) {
    handles_->Add(kind, handle);
  }
}

TEST(RandomCallsTest, ACodeComesEachTimeAndNobodyAborts) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  pserver::MiniJob job(
      1, 1, [](pserver::ServerOptions* options) { options->stay = true; });
  const std::string config =
      absl::StrCat("{\"server_endpoints\": [\"", job.server(0).endpoint(),
                   "\"], \"rpc_timeout_s\": 0.5, \"connect_timeout_s\": 0.5}");
  Handles handles;
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    callers.push_back(std::make_unique<Caller>(seed + i, config, &handles));
  }
  for (const auto& caller : callers) {
    threads.emplace_back([&] {
      for (int i = 0; i < NumCalls() / kThreads; ++i) caller->CallAny();
    });
  }
  for (std::thread& thread : threads) thread.join();
  handles.FreeClients();
  std::map<oarlock_code, int> codes;
  for (const auto& caller : callers) {
    for (const auto& [code, count] : caller->codes()) codes[code] += count;
  }
  for (const auto& [code, count] : codes) {
    std::printf("code %d: %d times\n", code, count);
  }
  // It reached what it is about.
  for (const oarlock_code code :
       {OARLOCK_OK, OARLOCK_INVALID_ARGUMENT, OARLOCK_CLOSED,
        OARLOCK_FAILED_PRECONDITION, OARLOCK_NOT_DONE}) {
    EXPECT_GT(codes[code], 0) << code;
  }
  EXPECT_EQ(codes[OARLOCK_BROKEN], 0);
  EXPECT_EQ(codes[OARLOCK_INTERNAL], 0);
}

}  // namespace
}  // namespace oarlock::capi
