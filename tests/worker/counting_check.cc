#include "tests/worker/counting_check.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/order/example_reader.h"
#include "data/parse/bad_lines.h"
#include "data/reader/file_list.h"
#include "tests/client/blocking_calls.h"
#include "tests/worker/counting_model.h"
#include "worker/config/data_options_of.h"
#include "worker/config/table_plan.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

// Gives out every file.
class AllFiles : public data::RangeSource {
 public:
  explicit AllFiles(size_t num_files)
      : items_(data::WholeFileItems(num_files)) {}
  absl::StatusOr<std::optional<data::DataRange>> Next() override {
    if (next_ == items_.size()) return std::nullopt;
    return items_[next_++];
  }
  void Done(const data::DataRange&) override {}

 private:
  const std::vector<data::DataRange> items_;
  size_t next_ = 0;
};

// How often each key stands in the data.
struct DataCounts {
  std::unordered_map<Key, uint64_t> keys;
  uint64_t num_examples = 0;
};

absl::StatusOr<DataCounts> CountData(const v1::JobConfig& config) {
  std::vector<std::string> files;
  for (const std::string& pattern : config.train_files()) {
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> some,
                             data::ExpandFileList(pattern));
    files.insert(files.end(), some.begin(), some.end());
  }
  AllFiles ranges(files.size());
  data::BadLines bad_lines;
  data::BatchReader reader(DataOptionsOf(config), files, &ranges, &bad_lines);
  DataCounts counts;
  data::Batch batch;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const bool more, reader.Next(1000, &batch));
    if (!more) return counts;
    counts.num_examples += batch.num_examples;
    for (const Key key : batch.keys) ++counts.keys[key];
  }
}

class Tally {
 public:
  void Compare(float got, double wanted) {
    const float difference = got - static_cast<float>(wanted);
    ++total_;
    lost_ += difference < 0;
    twice_ += difference > 0;
    sum_ += difference;
  }
  bool exact() const { return lost_ + twice_ == 0; }
  std::string Describe() const {
    return absl::StrCat(lost_, " of ", total_, " numbers are too small and ",
                        twice_, " too large, by ", sum_, " in all");
  }

 private:
  uint64_t total_ = 0;
  uint64_t lost_ = 0;
  uint64_t twice_ = 0;
  double sum_ = 0;
};

}  // namespace

absl::StatusOr<uint64_t> CheckCounts(const v1::JobConfig& config,
                                     const models::ModelSpec& spec,
                                     client::ParameterClient& client,
                                     double dense_share) {
  OARLOCK_ASSIGN_OR_RETURN(const DataCounts counts, CountData(config));
  OARLOCK_ASSIGN_OR_RETURN(const TablePlan plan,
                           PlanTables(spec, config, /*num_workers=*/1));
  std::vector<Key> keys;
  for (const auto& [key, count] : counts.keys) keys.push_back(key);
  client::RowBatch rows;
  OARLOCK_RETURN_IF_ERROR(client::PullRows(client, plan.sparse_tables[0], keys,
                                           kCountingRowDim, &rows));
  Tally of_rows;
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const Key key = rows.keys.keys()[i / kCountingRowDim];
    of_rows.Compare(rows.values[i],
                    static_cast<double>(counts.keys.at(key) * config.epochs()));
  }
  Tally of_dense;
  if (plan.dense_table != TableId(0)) {
    client::DenseReplica dense;
    OARLOCK_RETURN_IF_ERROR(client::PullAll(client, plan.dense_table, &dense));
    for (const float value : dense.values) {
      of_dense.Compare(value,
                       dense_share * static_cast<double>(counts.num_examples *
                                                         config.epochs()));
    }
  }
  if (of_rows.exact() && of_dense.exact()) return counts.num_examples;
  return absl::DataLossError(absl::StrCat("of rows, ", of_rows.Describe(),
                                          "; of dense parameters, ",
                                          of_dense.Describe()));
}

}  // namespace oarlock::worker
