// The stock alternatives to the sparse table: std::unordered_map with the row
// in its node, and absl::flat_hash_map from key to row number beside rows on
// huge pages. Keys are random bits already, so std::hash (the identity) is as
// good as any hash and cheaper. Filled with all keys, reserved before. Nobody
// locks: two threads read at once, or update rows at once as if no other did.

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/common/raw_rows.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"

namespace oarlock_bench {
namespace {

// Fewer than the others have: these take several times as long.
constexpr size_t kBatches = 50;
constexpr int kMaxThreads = 2;

using Batches = std::vector<std::vector<uint64_t>>;

struct Traffic {
  Batches all;
  Batches distinct;
};

const Traffic& TrafficOf(Distribution distribution, int thread) {
  static std::array<std::array<Traffic, kMaxThreads>, 2> traffic;
  Traffic& own = traffic[distribution == Distribution::kZipf][thread];
  if (own.all.empty()) {
    for (const auto& batch :
         MakeBatches(distribution, kBatches, kTableRows, thread)) {
      own.all.push_back(KeysOf(batch));
      own.distinct.push_back(KeysOf(Distinct(batch)));
    }
  }
  return own;
}

class UnorderedMap {
 public:
  UnorderedMap() {
    rows_.reserve(kTableRows);
    for (uint64_t row = 0; row < kTableRows; ++row) rows_[KeyOfRow(row)] = {};
  }
  void Pull(const std::vector<uint64_t>& keys, float* out) const {
    for (size_t i = 0; i < keys.size(); ++i) {
      std::memcpy(out + i * kDim, rows_.find(keys[i])->second.w,
                  kDim * sizeof(float));
    }
  }
  void Push(const std::vector<uint64_t>& keys, const float* gradients) {
    for (size_t i = 0; i < keys.size(); ++i) {
      Row& row = rows_.find(keys[i])->second;
      AdagradStep(row.w, row.state, gradients + i * kDim);
    }
  }

 private:
  struct alignas(64) Row {
    float w[kDim];
    float state[kDim];
  };
  std::unordered_map<uint64_t, Row> rows_;
};

class FlatMap {
 public:
  FlatMap() : rows_(kTableRows) {
    index_.reserve(kTableRows);
    for (uint32_t row = 0; row < kTableRows; ++row) {
      index_[KeyOfRow(row)] = row;
    }
  }

  // Calls use(i, row of key i). kPrefetch: what a patient user would add,
  // asking for the map's entries and then for the rows 16 keys ahead.
  template <bool kPrefetch, typename Use>
  void ForEach(const std::vector<uint64_t>& keys, bool with_state,
               Use use) const {
    if constexpr (!kPrefetch) {
      for (size_t i = 0; i < keys.size(); ++i) {
        use(i, rows_.At(index_.find(keys[i])->second));
      }
      return;
    }
    constexpr size_t kEntryAhead = 16, kRowAhead = 16;
    float* ring[kRowAhead] = {};
    const size_t n = keys.size();
    for (size_t i = 0; i < n + kRowAhead; ++i) {
      float*& row = ring[i % kRowAhead];
      if (i >= kRowAhead) use(i - kRowAhead, row);
      if (i >= n) continue;
      if (i + kEntryAhead < n) index_.prefetch(keys[i + kEntryAhead]);
      row = rows_.At(index_.find(keys[i])->second);
      __builtin_prefetch(row);
      if (with_state) __builtin_prefetch(row + kDim);
    }
  }

  template <bool kPrefetch>
  void Pull(const std::vector<uint64_t>& keys, float* out) const {
    ForEach<kPrefetch>(keys, false, [out](size_t i, const float* row) {
      std::memcpy(out + i * kDim, row, kDim * sizeof(float));
    });
  }
  template <bool kPrefetch>
  void Push(const std::vector<uint64_t>& keys, const float* gradients) const {
    ForEach<kPrefetch>(keys, true, [gradients](size_t i, float* row) {
      AdagradStep(row, row + kDim, gradients + i * kDim);
    });
  }

 private:
  absl::flat_hash_map<uint64_t, uint32_t> index_;
  RawRows rows_;
};

UnorderedMap& TheUnorderedMap() {
  static UnorderedMap* const map = new UnorderedMap();
  return *map;
}

FlatMap& TheFlatMap() {
  static FlatMap* const map = new FlatMap();
  return *map;
}

// One repetition of `use(batch, thread)` over all batches of all threads.
template <typename Use>
Figures Measure(Distribution distribution, Batches Traffic::*which,
                int num_threads, Use use) {
  double keys = 0;
  for (int t = 0; t < num_threads; ++t) {
    for (const auto& batch : TrafficOf(distribution, t).*which) {
      keys += static_cast<double>(batch.size());
    }
  }
  const double seconds = RunThreads(num_threads, [&](int t) {
    for (const auto& batch : TrafficOf(distribution, t).*which) use(batch, t);
  });
  return {{"rows_per_second", keys / seconds}};
}

float* OutOf(int thread) {
  static std::array<std::vector<float>, kMaxThreads> out = {
      std::vector<float>(kBatchKeys * kDim),
      std::vector<float>(kBatchKeys * kDim)};
  return out[thread].data();
}

void AddMaps(Distribution distribution, int threads, Repetitions* repetitions) {
  static const std::vector<float> gradients = SomeGradients();
  const std::string suffix =
      std::string(distribution == Distribution::kZipf ? " zipf "
                                                      : " uniform ") +
      std::to_string(threads);
  repetitions->Add("unordered_map pull" + suffix, [=] {
    const UnorderedMap& map = TheUnorderedMap();
    return Measure(distribution, &Traffic::all, threads,
                   [&](const auto& keys, int t) { map.Pull(keys, OutOf(t)); });
  });
  repetitions->Add("unordered_map adagrad" + suffix, [=] {
    UnorderedMap& map = TheUnorderedMap();
    return Measure(
        distribution, &Traffic::distinct, threads,
        [&](const auto& keys, int t) { map.Push(keys, gradients.data()); });
  });
  repetitions->Add("flat_hash_map pull" + suffix, [=] {
    const FlatMap& map = TheFlatMap();
    return Measure(
        distribution, &Traffic::all, threads,
        [&](const auto& keys, int t) { map.Pull<false>(keys, OutOf(t)); });
  });
  repetitions->Add("flat_hash_map adagrad" + suffix, [=] {
    const FlatMap& map = TheFlatMap();
    return Measure(distribution, &Traffic::distinct, threads,
                   [&](const auto& keys, int t) {
                     map.Push<false>(keys, gradients.data());
                   });
  });
  repetitions->Add("flat_hash_map prefetched pull" + suffix, [=] {
    const FlatMap& map = TheFlatMap();
    return Measure(
        distribution, &Traffic::all, threads,
        [&](const auto& keys, int t) { map.Pull<true>(keys, OutOf(t)); });
  });
  repetitions->Add("flat_hash_map prefetched adagrad" + suffix, [=] {
    const FlatMap& map = TheFlatMap();
    return Measure(distribution, &Traffic::distinct, threads,
                   [&](const auto& keys, int t) {
                     map.Push<true>(keys, gradients.data());
                   });
  });
}

// All keys into an empty map, each with its row: zeros (the operating system
// gives them), then one adagrad step. Row memory is reserved, not touched.
Figures Insert(int num_threads, bool reserve) {
  static const std::vector<float> gradients = SomeGradients();
  static std::array<std::vector<uint64_t>, kMaxThreads> keys;
  const uint64_t share = kTableRows / num_threads;
  for (int t = 0; t < num_threads; ++t) {
    keys[t].clear();
    for (uint64_t i = 0; i < share; ++i) {
      keys[t].push_back(KeyOfRow(t * share + i));
    }
  }
  struct Map {
    absl::flat_hash_map<uint64_t, uint32_t> index;
    float* rows = nullptr;
  };
  std::vector<Map> maps(num_threads);
  const size_t row_bytes = share * RawRows::kFloats * sizeof(float);
  for (Map& map : maps) {
    map.rows = static_cast<float*>(AllocateHuge(row_bytes));
  }
  const double seconds = RunThreads(num_threads, [&](int t) {
    Map& map = maps[t];
    if (reserve) map.index.reserve(share);
    for (size_t i = 0; i < share; ++i) {
      const auto [place, added] =
          map.index.try_emplace(keys[t][i], static_cast<uint32_t>(i));
      float* const row = map.rows + size_t{place->second} * RawRows::kFloats;
      AdagradStep(row, row + kDim, &gradients[i % kBatchKeys * kDim]);
    }
  });
  for (const Map& map : maps) FreeHuge(map.rows, row_bytes);
  return {{"rows_per_second_per_thread", static_cast<double>(share) / seconds}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  Repetitions repetitions;
  for (int threads = 1; threads <= kMaxThreads; ++threads) {
    AddMaps(Distribution::kUniform, threads, &repetitions);
    AddMaps(Distribution::kZipf, threads, &repetitions);
    const std::string suffix = std::to_string(threads);
    repetitions.Add("flat_hash_map insert " + suffix,
                    [=] { return Insert(threads, false); });
    repetitions.Add("flat_hash_map reserved insert " + suffix,
                    [=] { return Insert(threads, true); });
  }
  return repetitions.Run(argc, argv);
}
