// A plain model of a table with all its rules: a map, one key at a time,
// statistics that decay at every period's end, exact counts for admission,
// eviction by sorting. It knows no tiers.

#ifndef OARLOCK_TESTS_SPARSE_TABLE_RULES_MODEL_H_
#define OARLOCK_TESTS_SPARSE_TABLE_RULES_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "optim/initializer.h"
#include "optim/rules.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {

inline constexpr int kBits = 2;
inline constexpr uint32_t kPeriodTicks = 50;
// A power of two: whether it is applied at once or step by step, the bits are
// the same.
inline constexpr float kDecay = 0.5f;

struct Case {
  std::string name;
  v1::Accessor accessor = v1::PLAIN;
  uint32_t dim = 3;
  uint32_t extended_dim = 0;
  float extended_threshold = 0;
  v1::AdmissionConfig admission = {};
  bool divide_by_show = false;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline v1::TableConfig ConfigOf(const Case& c) {
  v1::TableConfig config = SparseConfig(c.dim, AdagradOptimizer(), c.accessor);
  v1::SparseTableConfig* sparse = config.mutable_sparse();
  sparse->set_extended_dim(c.extended_dim);
  sparse->set_extended_threshold(c.extended_threshold);
  if (c.extended_dim > 0) {
    *sparse->mutable_extended_optimizer() = AdamOptimizer();
    sparse->mutable_extended_initializer()->set_normal_stddev(0.1f);
  }
  if (c.accessor == v1::CTR) {
    sparse->mutable_ctr()->set_non_click_coefficient(0.25f);
    sparse->mutable_ctr()->set_decay_rate(kDecay);
    sparse->mutable_ctr()->set_decay_period_ticks(kPeriodTicks);
    sparse->mutable_ctr()->set_divide_by_show(c.divide_by_show);
  }
  *sparse->mutable_admission() = c.admission;
  return config;
}

class Model {
 public:
  struct Row {
    std::vector<float> embedding, state;
    std::vector<float> extended, extended_state;
    bool has_extended = false;
    float show = 0, click = 0;
    uint64_t version = 0;
    uint32_t last_touch = 0;
  };

  explicit Model(const v1::TableConfig& config)
      : sparse_(config.sparse()),
        embedding_dim_(sparse_.dim() - sparse_.extended_dim()),
        seed_(DeriveSeed(DeriveSeed(config.seed(), config.id()), 0xad315510)),
        rule_(*optim::UpdateRule::Create(config.optimizer())),
        initial_(*optim::InitialValues::Create(
            sparse_.initializer(), config.seed(), TableId(config.id()))),
        extended_rule_(*optim::UpdateRule::Create(
            sparse_.extended_dim() > 0 ? sparse_.extended_optimizer()
                                       : config.optimizer())),
        extended_initial_(*optim::InitialValues::Create(
            sparse_.extended_initializer(),
            DeriveSeed(config.seed(), 0xe87e4ded), TableId(config.id()))) {}

  std::vector<float> Pull(Key key) const {
    const auto found = rows_.find(key);
    if (found != rows_.end()) return Whole(found->second);
    return Whole(NewRow(key));
  }
  // Show and click of a key as a pull returns them.
  std::pair<float, float> Statistics(Key key) {
    const auto found = rows_.find(key);
    if (found == rows_.end()) return {0, 0};
    const uint32_t now = times_[PartitionOfMix(Mix(key), kBits)];
    const float factor = Factor(found->second.last_touch, now);
    return {found->second.show * factor, found->second.click * factor};
  }

  void Push(const SparsePush& push) {
    uint64_t draws = seed_;
    for (const PushStamp& stamp : push.stamps) {
      draws = DeriveSeed(DeriveSeed(draws, stamp.worker.value()),
                         stamp.sequence.value());
    }
    size_t i = 0;
    for (const KeyGroup& group : push.groups) {
      const uint64_t version = ++versions_[group.partition];
      uint32_t& time = times_[group.partition];
      time = std::max(time, push.logical_time);
      for (uint32_t k = 0; k < group.num_keys; ++k, ++i) {
        const Key key = push.keys[i];
        const float show = push.shows == nullptr ? 0 : push.shows[i];
        const float click = push.clicks == nullptr ? 0 : push.clicks[i];
        if (rows_.count(key) == 0) {
          if (!Admits(draws, key, Score(show, click))) {
            ++num_rejected_;
            continue;
          }
          rows_[key] = NewRow(key);
          ++num_admitted_;
        }
        Update(&rows_[key], push.gradients + i * sparse_.dim(), key, show,
               click, version, time);
      }
    }
  }

  // Returns how many rows go.
  uint64_t Evict(const v1::EvictionConfig& limits, uint32_t now) {
    uint64_t num_evicted = 0;
    for (uint32_t p = 0; p < (1u << kBits); ++p) {
      const PartitionIndex partition(p);
      uint32_t& time = times_[partition];
      time = std::max(time, now);
      std::vector<std::tuple<float, uint32_t, Key>> stay;
      for (auto row = rows_.begin(); row != rows_.end();) {
        const Row& r = row->second;
        if (PartitionOfMix(Mix(row->first), kBits) != partition) {
          ++row;
          continue;
        }
        const float factor = Factor(r.last_touch, time);
        const float score = sparse_.accessor() == v1::CTR
                                ? Score(r.show * factor, r.click * factor)
                                : 0;
        const bool goes =
            (limits.idle_ticks() != 0 &&
             time - r.last_touch >= limits.idle_ticks()) ||
            (limits.has_score_min() && score < limits.score_min());
        if (goes) {
          row = rows_.erase(row);
          ++num_evicted;
        } else {
          stay.emplace_back(score, r.last_touch, row->first);
          ++row;
        }
      }
      const size_t rows_max = limits.rows_max() >> kBits;
      if (limits.rows_max() == 0 || stay.size() <= rows_max) continue;
      const auto low =
          static_cast<size_t>(static_cast<double>(limits.low_mark()) *
                              static_cast<double>(rows_max));
      std::sort(stay.begin(), stay.end());
      for (size_t i = 0; i < stay.size() - low; ++i) {
        rows_.erase(std::get<Key>(stay[i]));
        ++num_evicted;
      }
    }
    num_evicted_ += num_evicted;
    return num_evicted;
  }

  const std::map<Key, Row>& rows() const { return rows_; }
  std::vector<float> Whole(const Row& row) const {
    std::vector<float> whole = row.embedding;
    whole.insert(whole.end(), row.extended.begin(), row.extended.end());
    return whole;
  }
  uint64_t num_admitted() const { return num_admitted_; }
  uint64_t num_rejected() const { return num_rejected_; }
  uint64_t num_evicted() const { return num_evicted_; }

 private:
  float Score(float show, float click) const {
    return sparse_.ctr().non_click_coefficient() * (show - click) + click;
  }
  // Period by period.
  float Factor(uint32_t from, uint32_t to) const {
    float factor = 1;
    if (sparse_.accessor() != v1::CTR) return factor;
    for (uint32_t tick = from + 1; tick <= to; ++tick) {
      if (tick % kPeriodTicks == 0) factor *= kDecay;
    }
    return factor;
  }

  bool Admits(uint64_t draws, Key key, float score) {
    const v1::AdmissionConfig& admission = sparse_.admission();
    if (admission.has_count()) {
      return ++counts_[key] >= admission.count().pushes();
    }
    if (admission.has_probability()) {
      return RandomUniform(draws, static_cast<uint64_t>(key)) <
             admission.probability().probability();
    }
    if (admission.has_show_click()) {
      counts_[key] += static_cast<uint32_t>(std::lround(
          std::min(1024.0f, score * (1024 / admission.show_click().score()))));
      return counts_[key] >= 1024;
    }
    return true;
  }

  Row NewRow(Key key) const {
    Row row;
    row.embedding.resize(embedding_dim_);
    initial_.FillRow(key, row.embedding.data(), embedding_dim_);
    row.state.resize(rule_.StateSize(embedding_dim_));
    rule_.InitState(row.state.data(), embedding_dim_);
    row.extended.resize(sparse_.extended_dim());
    row.extended_state.resize(
        sparse_.extended_dim() == 0
            ? 0
            : extended_rule_.StateSize(sparse_.extended_dim()));
    if (sparse_.extended_dim() > 0 && sparse_.extended_threshold() == 0) {
      CreateExtended(key, &row);
    }
    return row;
  }
  void CreateExtended(Key key, Row* row) const {
    row->has_extended = true;
    extended_initial_.FillRow(key, row->extended.data(), row->extended.size());
    extended_rule_.InitState(row->extended_state.data(), row->extended.size());
  }
  void Update(Row* row, const float* gradient, Key key, float show, float click,
              uint64_t version, uint32_t time) {
    std::vector<float> quotients(gradient, gradient + sparse_.dim());
    if (sparse_.ctr().divide_by_show() && show > 0) {
      for (float& quotient : quotients) quotient /= show;
      gradient = quotients.data();
    }
    rule_.Apply(version, row->embedding.data(), row->state.data(), gradient,
                embedding_dim_);
    if (row->has_extended) {
      extended_rule_.Apply(version, row->extended.data(),
                           row->extended_state.data(),
                           gradient + embedding_dim_, row->extended.size());
    }
    if (sparse_.accessor() == v1::CTR) {
      const float factor = Factor(row->last_touch, time);
      row->show = row->show * factor + show;
      row->click = row->click * factor + click;
      if (sparse_.extended_dim() > 0 && !row->has_extended &&
          Score(row->show, row->click) >= sparse_.extended_threshold()) {
        CreateExtended(key, row);
      }
    }
    row->version = version;
    row->last_touch = time;
  }

  const v1::SparseTableConfig sparse_;
  const size_t embedding_dim_;
  const uint64_t seed_;
  const optim::UpdateRule rule_;
  const optim::InitialValues initial_;
  const optim::UpdateRule extended_rule_;
  const optim::InitialValues extended_initial_;
  std::map<Key, Row> rows_;
  std::map<PartitionIndex, uint64_t> versions_;
  std::map<PartitionIndex, uint32_t> times_;
  // Of keys without rows, and of those that had one.
  std::map<Key, uint32_t> counts_;
  uint64_t num_admitted_ = 0, num_rejected_ = 0, num_evicted_ = 0;
};

inline void ExpectSameRows(const SparseTable& table, const Model& model) {
  size_t num_rows = 0;
  const absl::Status visited =
      table.ForEachRow([&](PartitionIndex, const SparseTable::RowView& view) {
        ++num_rows;
        const auto found = model.rows().find(view.key);
        ASSERT_NE(found, model.rows().end())
            << "key " << static_cast<uint64_t>(view.key);
        const Model::Row& row = found->second;
        ASSERT_EQ(
            std::vector<float>(view.embedding.begin(), view.embedding.end()),
            model.Whole(row));
        std::vector<float> state = row.state;
        state.insert(state.end(), row.extended_state.begin(),
                     row.extended_state.end());
        ASSERT_EQ(std::vector<float>(view.state.begin(), view.state.end()),
                  state);
        ASSERT_EQ(view.extended, row.has_extended);
        ASSERT_EQ(view.version, row.version);
        ASSERT_EQ(view.last_touch, row.last_touch);
        ASSERT_EQ(view.show, row.show);
        ASSERT_EQ(view.click, row.click);
      });
  EXPECT_TRUE(visited.ok()) << visited;
  EXPECT_EQ(num_rows, model.rows().size());
  const SparseTableStats stats = table.Stats();
  EXPECT_EQ(stats.rows, model.rows().size());
  EXPECT_EQ(stats.admitted_rows, model.num_admitted());
  EXPECT_EQ(stats.rejected_keys, model.num_rejected());
  EXPECT_EQ(stats.evicted_rows, model.num_evicted());
}

inline v1::AdmissionConfig Count(uint32_t pushes) {
  v1::AdmissionConfig config;
  config.mutable_count()->set_pushes(pushes);
  return config;
}
inline v1::AdmissionConfig Probability(float probability) {
  v1::AdmissionConfig config;
  config.mutable_probability()->set_probability(probability);
  return config;
}
inline v1::AdmissionConfig ShowClick(float score) {
  v1::AdmissionConfig config;
  config.mutable_show_click()->set_score(score);
  return config;
}

// Every accessor with every admission.
inline std::vector<Case> AllCases() {
  return {Case{.name = "Plain"},
          Case{.name = "PlainCount", .admission = Count(3)},
          Case{.name = "PlainProbability", .admission = Probability(0.3f)},
          Case{.name = "PlainTwoParts", .dim = 9, .extended_dim = 8},
          Case{.name = "Ctr", .accessor = v1::CTR, .dim = 16},
          Case{.name = "CtrTwoPartsFromTheStart",
               .accessor = v1::CTR,
               .dim = 5,
               .extended_dim = 4,
               .admission = Count(2)},
          Case{.name = "CtrExtended",
               .accessor = v1::CTR,
               .dim = 9,
               .extended_dim = 8,
               .extended_threshold = 2},
          Case{.name = "CtrExtendedCount",
               .accessor = v1::CTR,
               .dim = 16,
               .extended_dim = 10,
               .extended_threshold = 1.5f,
               .admission = Count(4)},
          Case{.name = "CtrExtendedProbability",
               .accessor = v1::CTR,
               .dim = 2,
               .extended_dim = 1,
               .extended_threshold = 3,
               .admission = Probability(0.5f)},
          Case{.name = "CtrExtendedShowClick",
               .accessor = v1::CTR,
               .dim = 9,
               .extended_dim = 8,
               .extended_threshold = 4,
               .admission = ShowClick(2)}};
}

// Random pulls, pushes and evictions, the same ones to a table and a model.
class RandomTraffic {
 public:
  RandomTraffic(const v1::TableConfig& config, uint64_t seed)
      : config_(config), seed_(seed), random_(seed) {}

  // Pulls agree and as many rows are evicted.
  void Step(SparseTable& table, Model& model) {
    ++step_;
    SCOPED_TRACE(testing::Message() << "seed " << seed_ << ", step " << step_);
    now_ += static_cast<uint32_t>(random_.Below(8));
    std::set<Key> chosen;
    const size_t num_keys = random_.Below(120);
    while (chosen.size() < num_keys) {
      chosen.insert(
          Key{random_.Below(3) ? random_.Below(150) : random_.Below(3000)});
    }
    const GroupedKeys keys =
        Grouped(std::vector<Key>(chosen.begin(), chosen.end()), kBits);
    switch (random_.Below(5)) {
      case 0:
        return Pull(keys, table, model);
      case 1:
        if (random_.Below(3) == 0) Evict(table, model);
        return;
      default:
        return Push(keys, table, model);
    }
  }

  uint64_t num_evicted() const { return num_evicted_; }
  // The names of all pushes.
  const std::vector<PushStamp>& stamps() const { return stamps_; }

 private:
  bool has_statistics() const { return config_.sparse().accessor() == v1::CTR; }

  void Pull(const GroupedKeys& keys, const SparseTable& table, Model& model) {
    const size_t n = keys.keys.size();
    const size_t dim = config_.sparse().dim();
    std::vector<float> values(n * dim), shows(n), clicks(n);
    const absl::Status pulled =
        has_statistics()
            ? table.PullWithStatistics(keys.groups, keys.keys.data(),
                                       values.data(), shows.data(),
                                       clicks.data(), nullptr)
            : table.Pull(keys.groups, keys.keys.data(), values.data(), nullptr);
    ASSERT_TRUE(pulled.ok()) << pulled;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(std::vector<float>(values.begin() + i * dim,
                                   values.begin() + (i + 1) * dim),
                model.Pull(keys.keys[i]));
      if (!has_statistics()) continue;
      const auto [show, click] = model.Statistics(keys.keys[i]);
      ASSERT_EQ(shows[i], show);
      ASSERT_EQ(clicks[i], click);
    }
  }

  void Evict(SparseTable& table, Model& model) {
    v1::EvictionConfig limits;
    if (random_.Below(2)) limits.set_idle_ticks(40 + random_.Below(100));
    if (has_statistics() && random_.Below(2)) {
      limits.set_score_min(0.25f * static_cast<float>(random_.Below(8)));
    }
    limits.set_low_mark(0.75f);
    if (random_.Below(2)) limits.set_rows_max(50 + random_.Below(300));
    const absl::StatusOr<EvictionLimits> checked = table.LimitsOf(limits);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EvictionResult result;
    for (uint32_t p = 0; p < table.num_partitions(); ++p) {
      const absl::StatusOr<EvictionResult> of_partition =
          table.Evict(PartitionIndex(p), *checked, now_);
      ASSERT_TRUE(of_partition.ok()) << of_partition.status();
      result += *of_partition;
    }
    ASSERT_EQ(result.evicted_rows(), model.Evict(limits, now_));
    num_evicted_ += result.evicted_rows();
    ExpectSameRows(table, model);
  }

  void Push(const GroupedKeys& keys, SparseTable& table, Model& model) {
    const size_t n = keys.keys.size();
    std::vector<float> gradients(n * config_.sparse().dim());
    std::vector<float> shows(n), clicks(n);
    for (float& g : gradients) g = static_cast<float>(random_.Uniform() - 0.5);
    for (size_t i = 0; i < n; ++i) {
      shows[i] = static_cast<float>(random_.Below(5));
      clicks[i] = shows[i] > 0 ? static_cast<float>(random_.Below(2)) : 0;
    }
    const PushStamp stamp = Stamp(step_ % 3, 1 + seed_ + step_, step_);
    stamps_.push_back(stamp);
    SparsePush push;
    push.groups = keys.groups;
    push.keys = keys.keys.data();
    push.gradients = gradients.data();
    if (random_.Below(4) != 0) push.shows = shows.data();
    if (random_.Below(4) != 0) push.clicks = clicks.data();
    // Another server's heartbeat may be a little late.
    push.logical_time = now_ - std::min<uint32_t>(now_, random_.Below(3));
    push.stamps = {&stamp, 1};
    ASSERT_TRUE(table.Push(push).ok());
    model.Push(push);
  }

  const v1::TableConfig config_;
  const uint64_t seed_;
  RandomSequence random_;
  uint64_t step_ = 0;
  uint32_t now_ = 0;
  uint64_t num_evicted_ = 0;
  std::vector<PushStamp> stamps_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_TESTS_SPARSE_TABLE_RULES_MODEL_H_
