#include "pserver/table/hot_keys.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/random.h"

namespace oarlock::pserver {
namespace {

// The share of a key that was counted `count.count` times among `total`
// samples.
ShareEstimate ShareOf(const SpaceSaving::Count& count, uint64_t total,
                      bool sampled) {
  if (total == 0) return {.share = 0, .error = 1};
  // The true count in the sample lies between count - error and count; its
  // middle has half the error. A key without a counter is taken for 0.
  const bool known = count.count > count.error;
  const auto error = static_cast<double>(count.error);
  const double middle =
      known ? static_cast<double>(count.count) - error / 2 : 0;
  double half_width = known ? error / 2 : error;
  // A count of the sample is near enough to Poisson: its square root has the
  // standard deviation 1/2 whatever the mean, which gives 2 sqrt(n) at 95 %.
  // The ones in the formula keep that true where counts are small.
  if (sampled) half_width += 2 * std::sqrt(middle + half_width + 1) + 1;
  const auto samples = static_cast<double>(total);
  return {.share = middle / samples,
          .error = std::min(1.0, half_width / samples)};
}

HotKeysOptions WithSeed(HotKeysOptions options, uint64_t seed) {
  options.seed = seed;
  return options;
}

}  // namespace

KeySampler::KeySampler(const HotKeysOptions& options)
    : interval_(options.sample_interval),
      seed_(options.seed),
      counts_(options.capacity) {
  OARLOCK_CHECK(std::has_single_bit(options.sample_interval));
}

void KeySampler::Add(absl::Span<const Key> keys) {
  if (keys.empty()) return;
  // Differs from message to message, so it numbers the random places too.
  const uint64_t before =
      num_keys_.fetch_add(keys.size(), std::memory_order_relaxed);
  size_t next = RandomBits(seed_, before) & (interval_ - 1);
  if (next >= keys.size() || !mutex_.TryLock()) return;
  for (; next < keys.size(); next += interval_) counts_.Add(keys[next]);
  mutex_.Unlock();
}

uint64_t KeySampler::num_samples() const {
  absl::MutexLock lock(&mutex_);
  return counts_.total();
}

std::vector<Key> KeySampler::Top(size_t n) const {
  std::vector<Key> keys;
  absl::MutexLock lock(&mutex_);
  for (const SpaceSaving::Count& count : counts_.Top(n)) {
    keys.push_back(count.key);
  }
  return keys;
}

std::vector<ShareEstimate> KeySampler::Estimate(
    absl::Span<const Key> keys) const {
  std::vector<ShareEstimate> shares;
  absl::MutexLock lock(&mutex_);
  for (const Key key : keys) {
    shares.push_back(
        ShareOf(counts_.Find(key), counts_.total(), interval_ > 1));
  }
  return shares;
}

HotKeys::HotKeys(const HotKeysOptions& options)
    : pulls_(options),
      pushes_(WithSeed(options, DeriveSeed(options.seed, /*purpose=*/1))) {}

std::vector<HotKeys::HotKey> HotKeys::Top(size_t n) const {
  // A key that leads the sum leads one of the two, or is close behind in both.
  const size_t candidates = 4 * n;
  std::vector<Key> keys = pulls_.Top(candidates);
  absl::flat_hash_set<Key> seen(keys.begin(), keys.end());
  for (const Key key : pushes_.Top(candidates)) {
    if (seen.insert(key).second) keys.push_back(key);
  }
  const std::vector<ShareEstimate> pulls = pulls_.Estimate(keys);
  const std::vector<ShareEstimate> pushes = pushes_.Estimate(keys);
  const auto num_pulls = static_cast<double>(pulls_.num_keys());
  const auto num_pushes = static_cast<double>(pushes_.num_keys());
  std::vector<HotKey> top;
  for (size_t i = 0; i < keys.size(); ++i) {
    top.push_back({keys[i], pulls[i], pushes[i]});
  }
  const auto weight = [&](const HotKey& hot) {
    return hot.pulls.share * num_pulls + hot.pushes.share * num_pushes;
  };
  std::stable_sort(
      top.begin(), top.end(),
      [&](const HotKey& a, const HotKey& b) { return weight(a) > weight(b); });
  if (top.size() > n) top.resize(n);
  return top;
}

}  // namespace oarlock::pserver
