#include "worker/config/flag_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/config/optimizer_config.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;
using Set = std::function<void(v1::JobConfig&)>;

// What is said of a configuration; empty when it is legal.
std::string MessageOf(const Set& set) {
  v1::JobConfig config;
  set(config);
  const absl::Status status = CheckFlagUse(config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FlagUseTest, DefaultsAreLegalWithEveryModeModelAndSchedule) {
  for (const char* mode : {"async", "half_async", "ssp", "sync", "geo"}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_mode(mode); }), "");
  }
  for (const char* model : {"lr", "fm", "deepfm", "autoint"}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_model(model); }), "");
  }
  EXPECT_EQ(
      MessageOf([](auto& c) { c.set_learning_rate_schedule("piecewise"); }),
      "");
}

TEST(FlagUseTest, AFlagWithoutEffectIsRefusedWithWhatWouldGiveItOne) {
  EXPECT_EQ(MessageOf([](auto& c) { c.set_staleness_bound(2); }),
            "--staleness_bound is 2, but --mode is async; legal is with "
            "--mode ssp; leave it at 4, or change --mode");
  EXPECT_EQ(MessageOf([](auto& c) { c.set_schedule_steps(2); }),
            "--schedule_steps is 2, but --learning_rate_schedule is "
            "constant; legal is with --learning_rate_schedule exponential, "
            "polynomial, cosine, step; leave it at 0, or change "
            "--learning_rate_schedule");
}

struct Case {
  Set flag, without, with;
};

// Each is refused where `without` makes it useless, and legal with `with`.
void ExpectUses(const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("case ", i));
    const auto both = [&](const Set& other) {
      return MessageOf([&](v1::JobConfig& config) {
        cases[i].flag(config);
        other(config);
      });
    };
    const std::string message = both(cases[i].without);
    EXPECT_NE(message.find(", but --"), std::string::npos) << message;
    EXPECT_NE(message.find("; leave it "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(both(cases[i].with), "");
  }
}

TEST(FlagUseTest, EachIsRefusedInOneCaseAndLegalInTheOther) {
  const auto mode = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_mode(name); });
  };
  const auto model = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_model(name); });
  };
  const auto schedule = [](const char* name) {
    return Set(
        [name](v1::JobConfig& c) { c.set_learning_rate_schedule(name); });
  };
  const std::vector<Case> cases = {
      {[](auto& c) { c.set_staleness_bound(3); }, mode("sync"), mode("ssp")},
      {[](auto& c) { c.set_dense_quorum(0); }, mode("sync"), mode("async")},
      {[](auto& c) { c.set_dense_quorum(1); }, mode("geo"), mode("half_async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("sync"), mode("async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("geo"),
       mode("half_async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("ssp"), mode("async")},
      {[](auto& c) { c.set_row_cache_steps(9); },
       [](auto& c) { c.set_row_cache_rows(0); },
       [](auto& c) { c.set_row_cache_rows(9); }},
      {[](auto& c) { c.set_hidden_sizes("8"); }, model("lr"), model("autoint")},
      {[](auto& c) { c.set_hidden_sizes("8"); }, model("ffm"), model("dlrm")},
      {[](auto& c) { c.set_schedule_steps(8); }, schedule("piecewise"),
       schedule("cosine")},
      {[](auto& c) { c.set_schedule_decay_rate(.9); }, schedule("cosine"),
       schedule("step")},
      {[](auto& c) { c.set_schedule_end_factor(.5); }, schedule("step"),
       schedule("polynomial")},
      {[](auto& c) { c.set_schedule_power(2); }, schedule("cosine"),
       schedule("polynomial")},
      {[](auto& c) { c.set_schedule_pieces("1:1"); }, schedule("constant"),
       schedule("piecewise")},
  };
  ExpectUses(cases);
}

TEST(FlagUseTest, FlagsOfModesAreRefusedInOthers) {
  const auto mode = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_mode(name); });
  };
  ExpectUses({
      {[](auto& c) { c.set_dense_interval_steps(2); }, mode("sync"),
       mode("ssp")},
      {[](auto& c) { c.set_max_unacknowledged_pushes(2); }, mode("sync"),
       mode("half_async")},
      {[](auto& c) { c.set_max_unacknowledged_pushes(2); }, mode("geo"),
       mode("async")},
      {[](auto& c) { c.set_geo_steps(2); }, mode("async"), mode("geo")},
      {[](auto& c) { c.set_geo_rows_max(2); }, mode("sync"), mode("geo")},
  });
  // Rounds read ahead as well.
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_mode("sync");
              c.set_lookahead_batches(3);
            }),
            "");
}

TEST(FlagUseTest, FlagsOfModelsAreRefusedWithOthers) {
  const auto model = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_model(name); });
  };
  ExpectUses({
      {[](auto& c) { c.set_dropout(.5); }, model("lr"), model("deepfm")},
      {[](auto& c) { c.set_dropout(.5); }, model("fm"), model("dcn")},
      {[](auto& c) { c.set_hidden_norm("batch"); }, model("lr"),
       model("ctr_dnn")},
      {[](auto& c) { c.set_cross_layers(2); }, model("deepfm"), model("dcn")},
      {[](auto& c) { c.set_cross_layers(2); }, model("lr"), model("dcn_v2")},
      {[](auto& c) { c.set_cin_sizes("8"); }, model("deepfm"),
       model("xdeepfm")},
      {[](auto& c) { c.set_attention_layers(1); }, model("deepfm"),
       model("autoint")},
      {[](auto& c) { c.set_attention_heads(1); }, model("dlrm"),
       model("autoint")},
      {[](auto& c) { c.set_attention_size(4); }, model("wide_deep"),
       model("autoint")},
  });
  // Of all but lr: scripts for several models set them.
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_model("lr");
              c.set_embedding_size(4);
              c.set_init_range(.1);
            }),
            "");
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_model("lr");
              c.set_cross_layers(2);
            }),
            "--cross_layers is 2, but --model is lr; legal is with --model "
            "dcn, dcn_v2; leave it at 3, or change --model");
}

TEST(FlagUseTest, AutoIntHasHiddenLayersOnlyWhereTheyAreAskedFor) {
  const auto autoint = [](v1::JobConfig& c) { c.set_model("autoint"); };
  const auto plus = [](v1::JobConfig& c) {
    c.set_model("autoint");
    c.set_hidden_sizes("8");
  };
  ExpectUses({
      {[](auto& c) { c.set_dropout(.5); }, autoint, plus},
      {[](auto& c) { c.set_hidden_norm("batch"); }, autoint, plus},
  });
}

TEST(FlagUseTest, ADenseNormNeedsDenseFeatures) {
  const Set norm = [](v1::JobConfig& c) { c.set_dense_norm("batch"); };
  ExpectUses({
      {norm, [](auto& c) { c.set_dense_transform("bucket"); },
       [](auto& c) { c.set_dense_transform("quick_start"); }},
      {norm, [](auto& c) { c.set_data_format("libsvm"); },
       [](auto& c) { c.set_data_format("multi_slot"); }},
  });
}

TEST(FlagUseTest, FlagsOfTheDataAndOfRowsAreRefusedWithoutThem) {
  const auto admission = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_admission(name); });
  };
  const Set nothing = [](v1::JobConfig&) {};
  const Set memory = [](v1::JobConfig& c) { c.set_dataset("memory"); };
  const Set ctr = [](v1::JobConfig& c) { c.set_accessor("ctr"); };
  ExpectUses({
      {[](auto& c) { c.set_shuffle_window_examples(9); }, nothing,
       [](auto& c) { c.set_shuffle("local"); }},
      // Programs may say then how it is shuffled.
      {[](auto& c) { c.set_shuffle_window_examples(9); }, nothing, memory},
      {[](auto& c) { c.set_preload(false); }, nothing, memory},
      {[](auto& c) { c.set_dataset_memory_mb(9); }, nothing, memory},
      {[](auto& c) { c.set_admission_count(3); }, admission("probability"),
       admission("count")},
      {[](auto& c) { c.set_admission_probability(.1); }, admission("always"),
       admission("probability")},
      {[](auto& c) { c.set_admission_score(3); }, admission("count"),
       admission("show_click")},
      {[](auto& c) { c.set_click_coefficient(2); }, nothing, ctr},
      {[](auto& c) { c.set_non_click_coefficient(2); }, nothing, ctr},
      {[](auto& c) { c.set_statistics_decay_period_ticks(2); }, ctr,
       [](auto& c) { c.set_statistics_decay_rate(.5); }},
      {[](auto& c) { c.set_evict_period_ticks(2); }, nothing,
       [](auto& c) { c.set_evict_idle_ticks(9); }},
      {[](auto& c) { c.set_evict_period_ticks(2); }, nothing,
       [](auto& c) { c.set_rows_max(999); }},
      {[](auto& c) { c.set_evict_period_ticks(2); }, nothing,
       [](auto& c) { c.set_evict_score_min(.1); }},
  });
  EXPECT_EQ(MessageOf([](auto& c) { c.set_evict_period_ticks(2); }),
            "--evict_period_ticks is 2, but --evict_idle_ticks is 0, "
            "--rows_max is 0, --evict_score_min is 0; leave it at 60, or give "
            "--evict_idle_ticks, --rows_max, or --evict_score_min with "
            "--accessor ctr");
  EXPECT_EQ(MessageOf([](auto& c) { c.set_row_cache_steps(4); }),
            "--row_cache_steps is 4, but --row_cache_rows is 0; leave it at "
            "8, or give --row_cache_rows");
}

TEST(FlagUseTest, ADenseTransformIsOfCriteosLines) {
  const Set transform = [](v1::JobConfig& c) {
    c.set_dense_transform("quick_start");
  };
  const Set criteo = [](v1::JobConfig& c) { c.set_data_format("criteo"); };
  ExpectUses({
      {transform, [](auto& c) { c.set_data_format("multi_slot"); }, criteo},
      {transform, [](auto& c) { c.set_data_format("libsvm"); }, criteo},
      {transform, [](auto& c) { c.set_pipe_command("cat"); },
       [](auto& c) {
         c.set_pipe_command("cat");
         c.set_data_format("criteo");
       }},
  });
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_dense_transform("bucket");
              c.set_pipe_command("cat");
            }),
            "--dense_transform is bucket, but --data_format is multi_slot, "
            "the default with a --pipe_command; legal is with --data_format "
            "criteo; leave it at log1p, or change --data_format");
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_dense_transform("bucket");
              c.set_pipe_command("cat");
              c.set_data_format("libsvm");
            }),
            "--dense_transform is bucket, but --data_format is libsvm; legal "
            "is with --data_format criteo; leave it at log1p, or change "
            "--data_format");
}

TEST(FlagUseTest, FlagsOfCheckpointsAreRefusedWithoutThem) {
  const Set nothing = [](v1::JobConfig&) {};
  const Set folder = [](v1::JobConfig& c) { c.set_checkpoint_dir("ckpt"); };
  const Set log = [](v1::JobConfig& c) {
    c.set_checkpoint_dir("ckpt");
    c.set_durability("log");
  };
  ExpectUses({
      {[](auto& c) { c.set_checkpoint_interval_s(0); }, nothing, folder},
      {[](auto& c) { c.set_checkpoint_keep(3); }, nothing, folder},
      {[](auto& c) { c.set_on_checkpoint("true"); }, nothing, folder},
      {[](auto& c) { c.set_on_checkpoint_timeout_s(9); }, folder,
       [](v1::JobConfig& c) {
         c.set_checkpoint_dir("ckpt");
         c.set_on_checkpoint("true");
       }},
      {[](auto& c) { c.set_log_bytes_max(1 << 20); }, folder, log},
      {[](auto& c) { c.set_log_sync_interval_s(0); }, folder, log},
  });
}

// oarlock server is told where rows may lie, and workers how many.
TEST(FlagUseTest, AServerMayHaveAFolderForATierWithoutABudget) {
  EXPECT_EQ(MessageOf([](auto& c) { c.set_tier_dir("tier"); }), "");
}

TEST(FlagUseTest, FlagsOfOutputsAndOnlineTrainingAreRefusedWithoutThem) {
  const Set nothing = [](v1::JobConfig&) {};
  const Set metric = [](v1::JobConfig& c) { c.set_early_stop_metric("auc"); };
  const Set watch = [](v1::JobConfig& c) { c.set_watch_dir("in"); };
  ExpectUses({
      {[](auto& c) { c.set_early_stop_patience(2); }, nothing, metric},
      {[](auto& c) { c.set_early_stop_min_delta(.1); }, nothing, metric},
      {[](auto& c) { c.set_watch_marker(".done"); }, nothing, watch},
      {[](auto& c) { c.set_watch_folder_marker("done"); }, nothing, watch},
      {[](auto& c) { c.set_watch_idle_s(1); }, nothing, watch},
      {[](auto& c) { c.set_watch_poll_s(1); }, nothing, watch},
      {[](auto& c) { c.set_tensorboard_period_s(9); }, nothing,
       [](auto& c) { c.set_tensorboard_dir("events"); }},
  });
  EXPECT_EQ(MessageOf([](auto& c) { c.set_watch_marker(".done"); }),
            "--watch_marker is .done, but --watch_dir is empty; leave it "
            "empty, or give --watch_dir in place of --train_files");
}

TEST(FlagUseTest, SetToItsDefaultAFlagMayStandWhereItIsNotRead) {
  EXPECT_EQ(MessageOf([](v1::JobConfig& c) {
              c.set_model("lr");
              c.set_dropout(0);
              c.set_hidden_norm("none");
              c.set_hidden_sizes("");
              c.set_cin_sizes("16,16");
              c.set_mode("sync");
              c.set_dense_interval_steps(0);
              c.set_max_unacknowledged_pushes(4);
              c.set_staleness_bound(4);
              c.set_dense_quorum(-1);
              c.set_geo_steps(10);
              c.set_row_cache_rows(0);
              c.set_row_cache_steps(8);
              c.set_schedule_steps(0);
              c.set_schedule_decay_rate(.5);
              c.set_schedule_pieces("");
              c.set_dense_norm("none");
              c.set_dense_transform("bucket");
              c.set_shuffle_window_examples(16384);
              c.set_preload(true);
              c.set_dataset_memory_mb(4096);
              c.set_early_stop_patience(3);
              c.set_watch_marker("");
              c.set_watch_folder_marker("_SUCCESS");
              c.set_optimizer("sgd");
              c.set_momentum(.9);
              c.set_nesterov(false);
              c.set_ftrl_beta(1);
              c.set_admission_count(2);
              c.set_click_coefficient(1);
              c.set_evict_period_ticks(60);
              c.set_checkpoint_interval_s(300);
              c.set_checkpoint_keep(2);
              c.set_on_checkpoint("");
              c.set_on_checkpoint_timeout_s(3600);
              c.set_log_bytes_max(1 << 30);
              c.set_log_sync_interval_s(.1);
              c.set_tensorboard_period_s(1);
            }),
            "");
}

// The update rules' rows of the table against what the rules read.
TEST(FlagUseTest, AFlagOfAnUpdateRuleIsLegalWhereItChangesTheRule) {
  const std::vector<Set> flags = {
      [](auto& c) { c.set_momentum(.5); },
      [](auto& c) { c.set_nesterov(true); },
      [](auto& c) { c.set_adagrad_initial_accumulator(.5); },
      [](auto& c) { c.set_ftrl_beta(.5); },
      [](auto& c) { c.set_weight_decay(.5); },
      [](auto& c) { c.set_lars_weight_decay(.5); },
      [](auto& c) { c.set_lars_coefficient(.5); },
      [](auto& c) { c.set_paddle_initial_g2sum(.5); },
  };
  const auto& rules = v1::JobConfig::descriptor()
                          ->FindFieldByName("optimizer")
                          ->options()
                          .GetExtension(v1::flag)
                          .one_of();
  ASSERT_GT(rules.size(), 10);
  for (const std::string& rule : rules) {
    // No rule of parameter servers.
    if (rule == "lars") continue;
    for (size_t i = 0; i < flags.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(rule, ", flag ", i));
      v1::JobConfig plain;
      plain.set_optimizer(rule);
      v1::JobConfig changed = plain;
      flags[i](changed);
      bool changes = false;
      for (const TableKind kind : {TableKind::kSparse, TableKind::kDense}) {
        const auto before = OptimizerOf(plain, 1, kind);
        const auto after = OptimizerOf(changed, 1, kind);
        ASSERT_TRUE(before.ok()) << before.status();
        ASSERT_TRUE(after.ok()) << after.status();
        changes |= before->SerializeAsString() != after->SerializeAsString();
      }
      EXPECT_EQ(CheckFlagUse(changed).ok(), changes)
          << CheckFlagUse(changed).message();
    }
  }
}

// Advice that can be followed: a job with --optimizer lars is refused as such.
TEST(FlagUseTest, FlagsOfLarsAreNotLegalWithAnyRuleOfServers) {
  EXPECT_EQ(MessageOf([](auto& c) { c.set_lars_coefficient(.01); }),
            "--lars_coefficient is 0.01, but --optimizer is adagrad, and "
            "lars, which reads it, is in collective training only; leave it "
            "at 0.001");
  EXPECT_EQ(MessageOf([](auto& c) {
              c.set_optimizer("momentum");
              c.set_lars_weight_decay(0);
            }),
            "--lars_weight_decay is 0, but --optimizer is momentum, and lars, "
            "which reads it, is in collective training only; leave it at "
            "0.0005");
  EXPECT_EQ(MessageOf([](auto& c) { c.set_momentum(.5); }),
            "--momentum is 0.5, but --optimizer is adagrad; legal is with "
            "--optimizer momentum; leave it at 0.9, or change --optimizer");
  v1::JobConfig config;
  config.set_optimizer("lars");
  config.set_lars_coefficient(.01);
  EXPECT_TRUE(CheckFlagUse(config).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      OptimizerOf(config, 1, TableKind::kSparse).status()));
}

TEST(FlagUseTest, AQuorumIsAShareOrAutomatic) {
  for (const double legal : {-1., 0., .75, 1.}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_dense_quorum(legal); }), "");
  }
  EXPECT_EQ(MessageOf([](auto& c) { c.set_dense_quorum(-.5); }),
            "--dense_quorum is -0.5; legal is 0 to 1, a share of the workers, "
            "or -1; leave it at -1, and it is chosen by the number of threads");
}

}  // namespace
}  // namespace oarlock::worker
