// Evaluations, stopping, and online files: what the coordinator keeps of them.

#include "coordinator/ranges/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

using ::testing::HasSubstr;

v1::Evaluation EvaluationOf(const std::string& phase_name, double auc) {
  v1::Evaluation evaluation;
  evaluation.set_work(phase_name);
  evaluation.set_auc(auc);
  return evaluation;
}

v1::TrainingFile FileOf(uint32_t epoch, const std::string& name,
                        bool trained = false) {
  v1::TrainingFile file;
  file.set_epoch(epoch);
  file.set_file(name);
  file.set_trained(trained);
  return file;
}

TEST(TrainingStateTest,
     AnEvaluationThatIsReportedAgainTakesThePlaceOfTheFirst) {
  TrainingState training;
  training.Report(EvaluationOf("test/0", .5));
  training.Report(EvaluationOf("test/1", .6));
  training.Report(EvaluationOf("test/0", .7));
  v1::JobStatusResponse status;
  training.Describe(&status);
  ASSERT_EQ(status.evaluations_size(), 2);
  EXPECT_EQ(status.evaluations(0).auc(), .7);
}

TEST(TrainingStateTest, AnEvaluationOfAnotherRunStaysAndTheNewOneFollows) {
  const auto ended_at = [](double unix_seconds, double auc) {
    v1::Evaluation evaluation = EvaluationOf("test/0", auc);
    evaluation.set_unix_seconds(unix_seconds);
    return evaluation;
  };
  TrainingState training;
  training.Report(ended_at(1, .5));
  EXPECT_EQ(training.CheckEvaluation(ended_at(2, .7)).code(),
            absl::StatusCode::kAlreadyExists);
  training.BeginRun();
  ASSERT_TRUE(training.CheckEvaluation(ended_at(2, .7)).ok());
  training.Report(ended_at(2, .7));
  // Now with its checkpoint.
  ASSERT_TRUE(training.CheckEvaluation(ended_at(2, .7)).ok());
  training.Report(ended_at(2, .7));
  v1::JobStatusResponse status;
  training.Describe(&status);
  ASSERT_EQ(status.evaluations_size(), 2);
  EXPECT_EQ(status.evaluations(0).auc(), .5);
  EXPECT_EQ(status.evaluations(1).auc(), .7);

  v1::SavedTrainingState state;
  training.Save(&state);
  TrainingState successor;
  successor.Load(state);
  EXPECT_EQ(successor.CheckEvaluation(ended_at(3, .8)).code(),
            absl::StatusCode::kAlreadyExists);
  v1::CheckpointManifest manifest;
  training.DescribeCut(/*trained_epochs=*/0, &manifest);
  TrainingState resumed;
  resumed.Restore(manifest);
  EXPECT_TRUE(resumed.CheckEvaluation(ended_at(3, .8)).ok());
}

TEST(TrainingStateTest, OnlyTheNewestEvaluationsAreKept) {
  TrainingState training;
  for (size_t i = 0; i < TrainingState::kMaxEvaluations + 2; ++i) {
    training.Report(EvaluationOf(absl::StrCat("test/", i), .5));
  }
  v1::JobStatusResponse status;
  training.Describe(&status);
  EXPECT_EQ(status.evaluations_size(), TrainingState::kMaxEvaluations);
  EXPECT_EQ(status.evaluations(0).work(), "test/2");
}

TEST(TrainingStateTest, WhetherAnEpochBeginsIsDecidedOnce) {
  TrainingState training;
  EXPECT_TRUE(training.Begin(0));
  EXPECT_TRUE(training.Begin(1));
  training.Stop("enough");
  // Somebody has begun it.
  EXPECT_TRUE(training.Begin(1));
  EXPECT_FALSE(training.Begin(2));
  EXPECT_FALSE(training.Begin(2));
}

TEST(TrainingStateTest, FilesFollowEachOtherAndHaveOneNameEach) {
  TrainingState training;
  EXPECT_EQ(training.CheckFile(FileOf(1, "a")).code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(training.CheckFile(FileOf(0, "a")).ok());
  training.RecordFile(FileOf(0, "a"));
  // The same again.
  EXPECT_TRUE(training.CheckFile(FileOf(0, "a")).ok());
  EXPECT_EQ(training.CheckFile(FileOf(0, "b")).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(training.CheckFile(FileOf(1, "b")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(training.num_trained_files(), 0u);
  training.RecordFile(FileOf(0, "a", true));
  EXPECT_EQ(training.num_trained_files(), 1u);
  EXPECT_EQ(training.CheckFile(FileOf(1, "a")).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(training.CheckFile(FileOf(1, "b")).ok());
  training.Stop("enough");
  EXPECT_EQ(training.CheckFile(FileOf(1, "b")).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TrainingStateTest, AFileThatEndedAfterTheCutWasOpenedIsNotTrainedInIt) {
  TrainingState training;
  training.RecordFile(FileOf(0, "a", true));
  training.RecordFile(FileOf(1, "b", true));
  training.RecordFile(FileOf(2, "c"));
  v1::CheckpointManifest manifest;
  training.DescribeCut(/*trained_epochs=*/1, &manifest);
  TrainingState restored;
  restored.Restore(manifest);
  EXPECT_EQ(restored.num_trained_files(), 1u);
  ASSERT_EQ(restored.files().size(), 2u);
  EXPECT_EQ(restored.files()[1].file(), "b");
  EXPECT_FALSE(restored.files()[1].trained());
}

TEST(TrainingStateTest, AFileOfWhichAllIsInTheCutIsTrainedInIt) {
  TrainingState training;
  training.RecordFile(FileOf(0, "a", true));
  // Nobody has recorded its end yet.
  training.RecordFile(FileOf(1, "b"));
  v1::CheckpointManifest manifest;
  training.DescribeCut(/*trained_epochs=*/2, &manifest);
  TrainingState restored;
  restored.Restore(manifest);
  EXPECT_EQ(restored.num_trained_files(), 2u);
  EXPECT_TRUE(restored.CheckFile(FileOf(2, "c")).ok());
}

TEST(TrainingStateTest, AFolderHasItsFilesUntilNoCutCanLackItsEnd) {
  const auto folder = [](uint32_t epoch, bool trained) {
    v1::TrainingFile file = FileOf(epoch, absl::StrCat("day=", epoch), trained);
    file.add_parts("a");
    file.add_parts("b");
    return file;
  };
  TrainingState training;
  for (uint32_t epoch = 0; epoch < 10; ++epoch) {
    ASSERT_TRUE(training.CheckFile(folder(epoch, false)).ok());
    training.RecordFile(folder(epoch, false));
    v1::CheckpointManifest manifest;
    training.DescribeCut(/*trained_epochs=*/epoch, &manifest);
    ASSERT_EQ(manifest.files_size(), static_cast<int>(epoch) + 1);
    EXPECT_EQ(manifest.files(epoch).parts_size(), 2);
    for (uint32_t i = 0; i < epoch; ++i) {
      EXPECT_EQ(manifest.files(i).parts_size(), 0) << i;
    }
    if (epoch > 0) {
      manifest.Clear();
      training.DescribeCut(/*trained_epochs=*/epoch - 1, &manifest);
      ASSERT_EQ(manifest.files_size(), static_cast<int>(epoch));
      EXPECT_EQ(manifest.files(epoch - 1).parts_size(), 2);
    }
    training.RecordFile(folder(epoch, true));
    EXPECT_EQ(training.files()[epoch].parts_size(), 2);
  }
  EXPECT_EQ(training.files()[0].parts_size(), 0);
  v1::JobStatusResponse status;
  training.Describe(&status);
  EXPECT_EQ(status.newest_file().file(), "day=9");
  EXPECT_EQ(status.newest_file().parts_size(), 0);
}

TEST(TrainingStateTest, FilesOfAFolderHaveNamesAndAreNotTooMany) {
  TrainingState training;
  for (const std::string name : {"", "a/b", "../a"}) {
    v1::TrainingFile file = FileOf(0, "day=0");
    file.add_parts(name);
    EXPECT_EQ(training.CheckFile(file).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  v1::TrainingFile file = FileOf(0, "day=0");
  for (int i = 0; i < TrainingState::kMaxParts; ++i) file.add_parts("a");
  EXPECT_TRUE(training.CheckFile(file).ok());
  file.add_parts("a");
  EXPECT_EQ(training.CheckFile(file).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TrainingStateTest, StateIsTakenOver) {
  TrainingState training;
  training.Begin(3);
  training.RecordFile(FileOf(0, "a", true));
  training.Report(EvaluationOf("test/0", .5));
  training.Stop("enough");
  v1::SavedTrainingState state;
  training.Save(&state);
  TrainingState successor;
  successor.Load(state);
  v1::SavedTrainingState again;
  successor.Save(&again);
  EXPECT_EQ(state.SerializeAsString(), again.SerializeAsString());
  EXPECT_EQ(successor.CheckFile(FileOf(1, "a")).code(),
            absl::StatusCode::kAlreadyExists);
}

class TrainingOfAJobTest : public CoordinatorTest {
 protected:
  TrainingOfAJobTest() : CoordinatorTest(/*num_workers=*/2) {}

  absl::Status RecordFile(uint32_t worker, uint64_t generation,
                          const v1::TrainingFile& file) {
    v1::RecordFileRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    *request.mutable_file() = file;
    return coordinator_->RecordFile(request);
  }
  void Stop(const std::string& reason) {
    v1::StopTrainingRequest request;
    request.set_reason(reason);
    ASSERT_TRUE(coordinator_->StopTraining(request).ok());
  }
};

TEST_F(TrainingOfAJobTest, AStoppedEpochIsOverWhenNobodyHasItsRanges) {
  const uint64_t first = Register(0);
  const uint64_t second = Register(1);
  Define(4);
  const auto a = Lease(0, first);
  const auto b = Lease(1, second);
  EXPECT_FALSE(Beat(0, first)->training_stopped());
  Stop("enough");
  Stop("something else");
  EXPECT_TRUE(Beat(0, first)->training_stopped());
  EXPECT_EQ(coordinator_->JobStatus({}).stop_reason(), "enough");
  auto more = Lease(0, first, {a->leases(0)});
  EXPECT_EQ(more->ranges_size(), 0);
  EXPECT_FALSE(more->exhausted());
  more = Lease(1, second, {b->leases(0)});
  EXPECT_EQ(more->ranges_size(), 0);
  EXPECT_TRUE(more->exhausted());
  // Other phases go on.
  phase_name_ = "test/0";
  Define(1);
  EXPECT_EQ(Lease(0, first)->ranges_size(), 1);
}

TEST_F(TrainingOfAJobTest, AFileOfAnEpochThatWasStoppedIsNotTrained) {
  const uint64_t worker = Register(0);
  ASSERT_TRUE(RecordFile(0, worker, FileOf(0, "a")).ok());
  Define(2);
  const auto lease = Lease(0, worker);
  EXPECT_EQ(RecordFile(0, worker, FileOf(0, "a", true)).code(),
            absl::StatusCode::kFailedPrecondition);
  Stop("enough");
  EXPECT_TRUE(Lease(0, worker, {lease->leases(0)})->exhausted());
  EXPECT_EQ(RecordFile(0, worker, FileOf(0, "a", true)).code(),
            absl::StatusCode::kFailedPrecondition);
  const v1::ListFilesResponse files = coordinator_->ListFiles({});
  ASSERT_EQ(files.files_size(), 1);
  EXPECT_FALSE(files.files(0).trained());
  EXPECT_TRUE(files.training_stopped());
}

TEST_F(TrainingOfAJobTest, AFileThatIsTrainedIsNotInTheCutThatWasOpenedBefore) {
  const uint64_t worker = Register(0);
  ASSERT_TRUE(RecordFile(0, worker, FileOf(0, "a")).ok());
  Define(1);
  const auto lease = Lease(0, worker);
  ASSERT_TRUE(coordinator_->OpenCut().ok());
  EXPECT_TRUE(Lease(0, worker, {lease->leases(0)})->exhausted());
  ASSERT_TRUE(RecordFile(0, worker, FileOf(0, "a", true)).ok());
  v1::CheckpointManifest manifest;
  coordinator_->DescribeCut(&manifest);
  ASSERT_EQ(manifest.files_size(), 1);
  EXPECT_FALSE(manifest.files(0).trained());
  coordinator_->CloseCut();
  ASSERT_TRUE(coordinator_->OpenCut().ok());
  v1::CheckpointManifest next;
  coordinator_->DescribeCut(&next);
  EXPECT_TRUE(next.files(0).trained());
}

TEST_F(TrainingOfAJobTest, AJobGoesOnFromACutBetweenTheLastPushAndTheFilesEnd) {
  const uint64_t worker = Register(0);
  ASSERT_TRUE(RecordFile(0, worker, FileOf(0, "a")).ok());
  v1::DefinePhaseRequest define;
  define.set_phase_name("train/0");
  define.set_num_examples(100);
  ASSERT_TRUE(coordinator_->DefinePhase(define).ok());
  const absl::StatusOr<uint64_t> cut = coordinator_->OpenCut();
  ASSERT_TRUE(cut.ok()) << cut.status();
  v1::MarkCutRequest mark;
  mark.set_worker_generation(worker);
  mark.set_cut(*cut);
  v1::TrainedExamples* const examples = mark.add_trained();
  examples->set_phase_name("train/0");
  examples->add_ranges()->set_end(100);
  ASSERT_TRUE(coordinator_->MarkCut(mark).ok());
  v1::CheckpointManifest manifest;
  coordinator_->DescribeCut(&manifest);
  ASSERT_EQ(manifest.files_size(), 1);
  EXPECT_TRUE(manifest.files(0).trained());

  coordinator_.emplace(options_, clock_);
  coordinator_->Restore(manifest);
  const absl::Status next = RecordFile(0, Register(0), FileOf(1, "b"));
  EXPECT_TRUE(next.ok()) << next;
}

TEST_F(TrainingOfAJobTest, AFencedWorkerSaysNothing) {
  const uint64_t worker = Register(0);
  Register(0);
  EXPECT_EQ(RecordFile(0, worker, FileOf(0, "a")).code(),
            absl::StatusCode::kAborted);
  v1::ReportEvaluationRequest request;
  request.set_worker_generation(worker);
  *request.mutable_evaluation() = EvaluationOf("test/0", .5);
  EXPECT_EQ(coordinator_->ReportEvaluation(request).code(),
            absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace oarlock::coordinator
