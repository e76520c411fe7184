// Push completions are compared with the pushes that real epochs make.

#include "worker/epoch/push_completion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "data/synthetic/criteo_generator.h"
#include "fleet/local_cluster.h"
#include "models/model.h"
#include "tests/data/test_files.h"
#include "tests/worker/counting_model.h"
#include "worker/config/data_options_of.h"
#include "worker/config/table_plan.h"
#include "worker/cut/cut_marker.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

constexpr uint32_t kPartitions = 64;
constexpr uint64_t kRows = 1230;
constexpr int kBatch = 50;
constexpr uint32_t kEpoch = 3;

// A push, with copies of what it points to.
struct SentPush {
  client::PushRequest request;
  std::vector<Key> keys;
  std::vector<float> gradients;
  std::vector<float> shows;
  std::vector<float> clicks;
  std::vector<float> dense;
  std::vector<uint64_t> dense_versions;
};

// Tables in this process; keeps what is pushed.
class KeepingClient : public LocalParameterClient {
 public:
  KeepingClient(const models::Model* model, size_t row_dim)
      : LocalParameterClient(kPartitions), model_(model), row_dim_(row_dim) {}

  bool in_process() const override { return false; }
  void Push(const client::PushRequest& push, client::TableVersions* versions,
            std::shared_ptr<const void> memory, Done done) override {
    SentPush sent;
    sent.request = push;
    if (!push.sparse.empty()) {
      const client::SparseGradients& sparse = push.sparse[0];
      sent.keys = {sparse.keys->keys().begin(), sparse.keys->keys().end()};
      const size_t n = sent.keys.size();
      sent.gradients.assign(sparse.gradients, sparse.gradients + n * row_dim_);
      if (sparse.shows != nullptr) {
        sent.shows.assign(sparse.shows, sparse.shows + n);
        sent.clicks.assign(sparse.clicks, sparse.clicks + n);
      }
    }
    if (!push.dense.empty()) {
      const client::DenseGradients& dense = push.dense[0];
      sent.dense.assign(dense.gradients,
                        dense.gradients + model_->spec().num_parameters);
      sent.dense_versions = {dense.known_versions.begin(),
                             dense.known_versions.end()};
    }
    {
      absl::MutexLock lock(&mutex_);
      sent_.push_back(std::move(sent));
    }
    LocalParameterClient::Push(push, versions, std::move(memory),
                               std::move(done));
  }
  std::vector<SentPush> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(sent_, {});
  }

 private:
  const models::Model* const model_;
  const size_t row_dim_;
  absl::Mutex mutex_;
  std::vector<SentPush> sent_;
};

std::vector<data::DataRange> ItemsOf(
    const std::vector<data::ExampleRange>& ranges) {
  std::vector<data::DataRange> items;
  for (const data::ExampleRange& range : ranges) {
    data::DataRange item;
    item.source = range.source;
    item.begin = range.begin;
    item.end = range.end;
    items.push_back(item);
  }
  return items;
}

std::multiset<std::pair<uint32_t, uint64_t>> ExamplesOf(
    const std::vector<data::ExampleRange>& ranges) {
  std::multiset<std::pair<uint32_t, uint64_t>> examples;
  for (const data::ExampleRange& range : ranges) {
    for (uint64_t i = range.begin; i < range.end; ++i) {
      examples.emplace(range.source, i);
    }
  }
  return examples;
}

// A worker's clients and the context of one of its epochs, learning nothing, so
// that gradients do not depend on what was pushed before.
class Job {
 public:
  Job(const std::string& folder, std::unique_ptr<models::Model> model,
      size_t row_dim)
      : client(model.get(), row_dim), model_(std::move(model)) {
    config.set_model(model_->spec().name);
    config.add_train_files(absl::StrCat(folder, "/part-*"));
    config.set_sparse_feature_dim(5000);
    config.set_batch_size(kBatch);
    config.set_learning_rate(0);
    config.set_optimizer("sgd");
    config.set_thread_num(2);
    config.set_dense_interval_steps(3);
    config.set_accessor("ctr");
    for (int i = 0; i < 2; ++i) {
      files_.push_back(absl::StrCat(folder, "/part-", i));
    }
  }

  // Every push of an epoch over all files.
  std::vector<SentPush> TrainEpoch() {
    auto trainer = Trainer::Create(config, std::make_unique<Shared>(&*model_),
                                   &client, &job);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE((*trainer)->CreateTables().ok());
    const absl::Status status = (*trainer)->TrainEpoch(kEpoch);
    EXPECT_TRUE(status.ok()) << status;
    return client.Take();
  }

  absl::Status Complete(const client::PushCompletion& completion) {
    const TablePlan plan = *PlanTables(model_->spec(), config, 1);
    DenseParameters dense(&client, plan.dense_table);
    const FakeClock clock;
    CutMarker cuts(&client, &job, CutMarker::Numbering::kByCut, clock);
    EpochContext context;
    context.clocks.monotonic = &clock;
    context.config = &config;
    context.model = model_.get();
    context.parameters = &client;
    context.job = &job;
    context.dense = &dense;
    context.cuts = &cuts;
    context.sparse_tables = plan.sparse_tables;
    context.dense_table = plan.dense_table;
    context.phase = {"train", kEpoch};
    context.data = DataOptionsOf(config);
    context.files = files_;
    const absl::Status status = RunPushCompletion(context, completion);
    dense_versions = dense.Current()->block_versions;
    return status;
  }

  v1::JobConfig config;
  LocalJobClient job;
  KeepingClient client;
  // Of the parameters that the last push completion pulled.
  std::vector<uint64_t> dense_versions;

 private:
  // The trainer owns its model, and this one is looked at after it.
  class Shared : public models::Model {
   public:
    explicit Shared(const models::Model* model) : model_(model) {}
    const models::ModelSpec& spec() const override { return model_->spec(); }
    std::unique_ptr<models::ModelExecutor> NewExecutor(
        size_t n) const override {
      return model_->NewExecutor(n);
    }

   private:
    const models::Model* const model_;
  };

  const std::unique_ptr<models::Model> model_;
  std::vector<std::string> files_;
};

class PushCompletionTest : public ::testing::Test {
 protected:
  // Two files with malformed lines here and there, one of them where a batch
  // ends.
  void SetUp() override {
    data::GeneratorOptions options;
    options.rows = kRows;
    options.files = 2;
    options.seed = 7;
    options.out_dir = folder_.path();
    const auto report = data::GenerateCriteo(options);
    ASSERT_TRUE(report.ok()) << report.status();
    for (const std::string name : {"part-0", "part-1"}) {
      std::string content;
      uint64_t line = 0;
      for (const char c : data::ReadAll(folder_.Path(name))) {
        if (c == '\n') ++line;
        content.push_back(c);
        if (c != '\n') continue;
        if (line % 117 == 0 || line % kBatch == 0) content += "no example\n";
      }
      folder_.Write(name, content);
    }
  }

  static std::unique_ptr<models::Model> DeepFm() {
    models::ModelOptions options;
    options.embedding_size = 4;
    options.hidden_sizes = std::vector<size_t>{16};
    auto model = models::NewModel("deepfm", options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  TestFolder folder_;
};

TEST_F(PushCompletionTest, CompletedPushHasTheKeysAndGradientsOfTheDeadOne) {
  Job job(folder_.path(), DeepFm(), 5);
  const std::vector<SentPush> pushes = job.TrainEpoch();
  ASSERT_GE(pushes.size(), kRows / kBatch);
  uint64_t with_dense = 0;
  for (uint64_t i = 0; i < pushes.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("push ", i));
    const SentPush& dead = pushes[i];
    client::PushCompletion completion;
    completion.push = PushStamp{WorkerIndex(9), Generation(1), Sequence(i + 1)};
    completion.examples = ItemsOf(dead.request.examples);
    completion.dense_examples = ItemsOf(dead.request.dense_examples);
    const absl::Status status = job.Complete(completion);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<SentPush> made = job.client.Take();
    ASSERT_EQ(made.size(), 1u);
    const SentPush& completed = made[0];
    ASSERT_TRUE(completed.request.completes.has_value());
    EXPECT_EQ(completed.request.completes->worker, WorkerIndex(9));
    EXPECT_EQ(completed.request.completes->generation, Generation(1));
    EXPECT_EQ(completed.request.completes->sequence, Sequence(i + 1));
    EXPECT_EQ(completed.request.epoch, kEpoch);
    EXPECT_EQ(completed.keys, dead.keys);
    EXPECT_EQ(completed.gradients, dead.gradients);
    EXPECT_EQ(completed.shows, dead.shows);
    EXPECT_EQ(completed.clicks, dead.clicks);
    EXPECT_EQ(ExamplesOf(completed.request.examples),
              ExamplesOf(dead.request.examples));
    EXPECT_EQ(ExamplesOf(completed.request.dense_examples),
              ExamplesOf(dead.request.dense_examples));
    ASSERT_EQ(completed.dense.size(), dead.dense.size());
    with_dense += !dead.dense.empty();
    for (size_t d = 0; d < dead.dense.size(); ++d) {
      ASSERT_NEAR(completed.dense[d], dead.dense[d],
                  1e-5f + 1e-4f * std::abs(dead.dense[d]));
    }
  }
  EXPECT_GE(with_dense, pushes.size() / 4);
  EXPECT_LT(with_dense, pushes.size());
}

TEST_F(PushCompletionTest, WithoutANameRowsAndDenseGradientsGoAlone) {
  Job job(folder_.path(), DeepFm(), 5);
  job.TrainEpoch();
  client::PushCompletion completion;
  completion.examples = ItemsOf({{0, 10, 180}, {1, 7, 9}});
  completion.dense_examples = ItemsOf({{1, 100, 333}});
  const absl::Status status = job.Complete(completion);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<SentPush> made = job.client.Take();
  ASSERT_EQ(made.size(), 5u);
  std::vector<data::ExampleRange> examples;
  for (size_t i = 0; i < 4; ++i) {
    const client::PushRequest& push = made[i].request;
    EXPECT_FALSE(push.completes.has_value());
    EXPECT_EQ(push.epoch, kEpoch);
    EXPECT_TRUE(push.dense.empty());
    EXPECT_TRUE(push.dense_examples.empty());
    EXPECT_FALSE(made[i].shows.empty());
    examples.insert(examples.end(), push.examples.begin(), push.examples.end());
  }
  EXPECT_EQ(ExamplesOf(examples), ExamplesOf({{0, 10, 180}, {1, 7, 9}}));
  const client::PushRequest& dense = made[4].request;
  EXPECT_FALSE(dense.completes.has_value());
  EXPECT_TRUE(dense.sparse.empty());
  EXPECT_TRUE(dense.examples.empty());
  EXPECT_EQ(ExamplesOf(dense.dense_examples), ExamplesOf({{1, 100, 333}}));
  // It is as stale as the parameters that it was computed on.
  EXPECT_FALSE(job.dense_versions.empty());
  EXPECT_EQ(made[4].dense_versions, job.dense_versions);
}

TEST_F(PushCompletionTest, EveryExampleCountsOnce) {
  Job job(folder_.path(),
          std::make_unique<CountingModel>(26, /*num_parameters=*/3),
          kCountingRowDim);
  SetCounting(&job.config);
  job.config.set_learning_rate(0);
  job.TrainEpoch();
  client::PushCompletion completion;
  // Four of the 170 lines are no examples, and none of the first dozen.
  completion.examples = ItemsOf({{0, 0, 170}});
  completion.dense_examples = ItemsOf({{0, 0, 12}, {0, 0, 170}});
  ASSERT_TRUE(job.Complete(completion).ok());
  const std::vector<SentPush> made = job.client.Take();
  double keys = 0;
  for (const SentPush& push : made) {
    for (size_t i = 0; i < push.gradients.size(); i += kCountingRowDim) {
      keys += push.gradients[i];
    }
  }
  EXPECT_EQ(keys, 26 * (170 - 4));
  EXPECT_EQ(made.back().dense, std::vector<float>(3, 12 + 170 - 4));
}

TEST_F(PushCompletionTest, JobWithoutDenseParametersNamesTheSameExamplesTwice) {
  Job job(folder_.path(),
          std::make_unique<CountingModel>(26, /*num_parameters=*/0),
          kCountingRowDim);
  const std::vector<SentPush> pushes = job.TrainEpoch();
  ASSERT_GE(pushes.size(), kRows / kBatch);
  for (const SentPush& push : pushes) {
    EXPECT_EQ(ExamplesOf(push.request.dense_examples),
              ExamplesOf(push.request.examples));
  }
  client::PushCompletion completion;
  completion.push = PushStamp{WorkerIndex(9), Generation(1), Sequence(1)};
  completion.examples = ItemsOf(pushes[0].request.examples);
  completion.dense_examples = completion.examples;
  ASSERT_TRUE(job.Complete(completion).ok());
  completion.push = std::nullopt;
  completion.dense_examples = {};
  ASSERT_TRUE(job.Complete(completion).ok());
  const std::vector<SentPush> made = job.client.Take();
  ASSERT_EQ(made.size(), 2u);
  for (const SentPush& push : made) {
    EXPECT_EQ(push.keys, pushes[0].keys);
    EXPECT_EQ(ExamplesOf(push.request.dense_examples),
              ExamplesOf(pushes[0].request.examples));
  }
}

TEST_F(PushCompletionTest, ThePushOfALargerBatchIsCompletedAsOnePush) {
  Job job(folder_.path(), DeepFm(), 5);
  const std::vector<SentPush> pushes = job.TrainEpoch();
  // A job that went on with another --batch_size.
  job.config.set_batch_size(kBatch / 4);
  client::PushCompletion completion;
  completion.push = PushStamp{WorkerIndex(9), Generation(1), Sequence(1)};
  completion.examples = ItemsOf(pushes[0].request.examples);
  ASSERT_TRUE(job.Complete(completion).ok());
  const std::vector<SentPush> made = job.client.Take();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].keys, pushes[0].keys);
  EXPECT_EQ(ExamplesOf(made[0].request.examples),
            ExamplesOf(pushes[0].request.examples));
}

TEST_F(PushCompletionTest, DataThatCannotBeReadAnyMoreFailsThePushCompletion) {
  Job job(folder_.path(), DeepFm(), 5);
  job.TrainEpoch();
  client::PushCompletion completion;
  completion.examples = ItemsOf({{0, 1'000'000, 1'000'001}});
  EXPECT_EQ(job.Complete(completion).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace oarlock::worker
