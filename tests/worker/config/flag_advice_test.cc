// What a refused flag's message advises makes the job legal: in the whole check
// of a configuration, so that no second refusal contradicts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;
using Set = std::function<void(v1::JobConfig&)>;

// A refusal, and what each of its pieces of advice makes of the job.
struct Advice {
  Set job;
  std::vector<std::string> says;
  std::vector<Set> followed;
};

void ExpectThatItHelps(const std::vector<Advice>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    v1::JobConfig job;
    cases[i].job(job);
    const absl::Status refused = Trainer::CheckConfig(job);
    SCOPED_TRACE(absl::StrCat("case ", i, ": ", refused.message()));
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    for (const std::string& text : cases[i].says) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr(text));
    }
    for (size_t k = 0; k < cases[i].followed.size(); ++k) {
      v1::JobConfig changed = job;
      cases[i].followed[k](changed);
      const absl::Status status = Trainer::CheckConfig(changed);
      EXPECT_TRUE(status.ok()) << "advice " << k << ": " << status;
    }
  }
}

TEST(FlagAdviceTest, AdviceAboutModesCanBeFollowed) {
  const Set async = [](auto& c) { c.set_mode("async"); };
  const Set half_async = [](auto& c) { c.set_mode("half_async"); };
  const Set ssp = [](auto& c) { c.set_mode("ssp"); };
  const Set sync = [](auto& c) { c.set_mode("sync"); };
  for (const char* mode : {"sync", "geo"}) {
    ExpectThatItHelps({
        {[&](auto& c) {
           c.set_mode(mode);
           c.set_dense_interval_steps(2);
         },
         {"--dense_interval_steps is 2, but --mode is ",
          "legal is with --mode async, half_async, ssp; leave it at 0, or "},
         {[](auto& c) { c.set_dense_interval_steps(0); }, async, half_async,
          ssp}},
        {[&](auto& c) {
           c.set_mode(mode);
           c.set_row_cache_steps(4);
         },
         {"legal is with --mode async, half_async and --row_cache_rows; leave "
          "it at 8, or change --mode"},
         {[](auto& c) { c.set_row_cache_steps(8); },
          [](auto& c) {
            c.set_mode("half_async");
            c.set_row_cache_rows(100);
          }}},
    });
  }
  // What geo refuses is nobody's advice.
  ExpectThatItHelps({
      {[](auto& c) {
         c.set_mode("geo");
         c.set_evict_period_ticks(5);
       },
       {"legal is with --mode async, half_async, ssp, sync and "
        "--evict_idle_ticks or --rows_max; leave it at 60, or change --mode"},
       {[](auto& c) { c.set_evict_period_ticks(60); },
        [](auto& c) {
          c.set_mode("sync");
          c.set_rows_max(1000);
        }}},
      {[](auto& c) {
         c.set_mode("geo");
         c.set_rows_max(1000);
       },
       {"--rows_max is 1000, but --mode is geo; legal is with --mode async, "
        "half_async, ssp, sync; leave it at 0, or change --mode"},
       {[](auto& c) { c.set_rows_max(0); }, async, half_async, ssp, sync}},
      {[](auto& c) {
         c.set_mode("geo");
         c.set_admission_count(3);
       },
       {"and --admission count; leave it at 2, or change --mode"},
       {[](auto& c) { c.set_admission_count(2); },
        [](auto& c) {
          c.set_mode("ssp");
          c.set_admission("count");
        }}},
  });
}

TEST(FlagAdviceTest, AdviceAboutRowsCanBeFollowed) {
  ExpectThatItHelps({
      {[](auto& c) { c.set_row_cache_steps(4); },
       {"or give --row_cache_rows"},
       {[](auto& c) { c.set_row_cache_rows(100); }}},
      {[](auto& c) { c.set_evict_period_ticks(5); },
       {"leave it at 60, or give --evict_idle_ticks, --rows_max, or "
        "--evict_score_min with --accessor ctr"},
       {[](auto& c) { c.set_evict_period_ticks(60); },
        [](auto& c) { c.set_evict_idle_ticks(9); },
        [](auto& c) { c.set_rows_max(1000); },
        [](auto& c) {
          c.set_evict_score_min(.1);
          c.set_accessor("ctr");
        }}},
      {[](auto& c) { c.set_admission_score(3); },
       {"legal is with --admission show_click and --accessor ctr"},
       {[](auto& c) {
         c.set_admission("show_click");
         c.set_accessor("ctr");
       }}},
      {[](auto& c) { c.set_statistics_decay_period_ticks(3); },
       {"give --statistics_decay_rate with --accessor ctr"},
       {[](auto& c) {
         c.set_statistics_decay_rate(.5);
         c.set_accessor("ctr");
       }}},
  });
}

TEST(FlagAdviceTest, AdviceAboutModelsDataAndRatesCanBeFollowed) {
  ExpectThatItHelps({
      {[](auto& c) {
         c.set_model("lr");
         c.set_dropout(.5);
       },
       {"autoint (autoint has hidden layers with --hidden_sizes); leave it at "
        "0, or change --model"},
       {[](auto& c) { c.set_dropout(0); },
        [](auto& c) { c.set_model("deepfm"); },
        [](auto& c) {
          c.set_model("autoint");
          c.set_hidden_sizes("8");
        }}},
      {[](auto& c) { c.set_schedule_decay_rate(.9); },
       {"--learning_rate_schedule exponential, step and --schedule_steps"},
       {[](auto& c) {
         c.set_learning_rate_schedule("step");
         c.set_schedule_steps(100);
       }}},
      {[](auto& c) { c.set_early_stop_patience(2); },
       {"--early_stop_metric auc, logloss and --test_files"},
       {[](auto& c) {
         c.set_early_stop_metric("auc");
         c.add_test_files("test");
       }}},
      {[](auto& c) {
         c.add_train_files("part-0");
         c.set_watch_marker(".done");
       },
       {"leave it empty, or give --watch_dir in place of --train_files"},
       {[](auto& c) { c.set_watch_marker(""); },
        [](auto& c) {
          c.clear_train_files();
          c.set_watch_dir("in");
        }}},
      {[](auto& c) {
         c.set_data_format("libsvm");
         c.set_dense_norm("batch");
       },
       {"--dense_norm is batch, but --data_format is libsvm, which has no "
        "dense features; legal is with --data_format criteo, multi_slot"},
       {[](auto& c) { c.set_dense_norm("none"); },
        [](auto& c) { c.set_data_format("criteo"); },
        [](auto& c) { c.set_data_format("multi_slot"); }}},
      {[](auto& c) {
         c.set_data_format("multi_slot");
         c.set_dense_dim(0);
         c.set_dense_norm("batch");
       },
       {"--dense_dim is 0; leave it at none, or give --dense_dim 1 or more"},
       {[](auto& c) { c.set_dense_dim(1); }}},
      {[](auto& c) {
         c.set_dense_transform("bucket");
         c.set_dense_norm("data");
       },
       {"--dense_transform is bucket, which makes keys of the dense features; "
        "leave it at none, or give --dense_transform log1p"},
       {[](auto& c) { c.set_dense_transform("log1p"); }}},
  });
}

// lars reads --momentum, so it is lars that is refused.
TEST(FlagAdviceTest, AdviceAboutLarsCanBeFollowed) {
  ExpectThatItHelps({
      {[](auto& c) {
         c.set_optimizer("lars");
         c.set_momentum(.5);
       },
       {"--optimizer is lars", "choose momentum"},
       {[](auto& c) { c.set_optimizer("momentum"); }}},
      {[](auto& c) { c.set_lars_coefficient(.01); },
       {"leave it at 0.001"},
       {[](auto& c) { c.set_lars_coefficient(.001); }}},
  });
}

}  // namespace
}  // namespace oarlock::worker
