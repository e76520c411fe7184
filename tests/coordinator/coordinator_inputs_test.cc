// Numbers of features, and lists of files.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {
namespace {

v1::Feature Sparse(const std::string& name, v1::IdType type = v1::TEXT,
                   uint32_t dim = 0, const std::string& shares = "") {
  v1::Feature feature;
  feature.set_name(name);
  feature.mutable_sparse()->set_type(type);
  feature.mutable_sparse()->set_dim(dim);
  feature.mutable_sparse()->set_shares(shares);
  return feature;
}

v1::Feature Label(const std::string& name) {
  v1::Feature feature;
  feature.set_name(name);
  feature.mutable_label();
  return feature;
}

v1::FeatureList ListOf(const std::vector<v1::Feature>& features) {
  v1::FeatureList list;
  for (const v1::Feature& feature : features) *list.add_features() = feature;
  return list;
}

// "a 1, b 2".
std::string Numbers(const v1::FeatureList& list) {
  std::string text;
  for (const v1::Feature& feature : list.features()) {
    if (!feature.has_sparse()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", feature.name(), " ",
                    feature.sparse().number());
  }
  return text;
}

class CoordinatorInputsTest : public CoordinatorTest {
 protected:
  CoordinatorInputsTest() { generation_ = Register(0); }

  absl::StatusOr<v1::FeatureList> Define(
      const std::vector<v1::Feature>& features) {
    v1::DefineFeaturesRequest request;
    request.set_worker_generation(generation_);
    *request.mutable_features() = ListOf(features);
    const auto response = coordinator_->DefineFeatures(request);
    if (!response.ok()) return response.status();
    return response->features();
  }
  absl::Status DefinePart(uint32_t part, bool last,
                          const std::vector<std::string>& paths,
                          const std::string& name = "train") {
    v1::DefineInputRequest request;
    request.set_worker_generation(generation_);
    request.set_name(name);
    request.set_part(part);
    request.set_last(last);
    for (const std::string& path : paths) {
      v1::ListedFile& file = *request.add_files();
      file.set_path(path);
      file.add_group_rows(5);
    }
    return coordinator_->DefineInput(request);
  }
  absl::StatusOr<v1::GetInputResponse> Get(uint32_t part) {
    v1::GetInputRequest request;
    request.set_worker_generation(generation_);
    request.set_name("train");
    request.set_part(part);
    return coordinator_->GetInput(request);
  }
  // As a checkpoint of this job has it.
  v1::CheckpointManifest Manifest(const v1::FeatureList& features,
                                  uint32_t largest) {
    v1::CheckpointManifest manifest;
    *manifest.mutable_description()->mutable_features() = features;
    manifest.mutable_description()->set_largest_feature_number(largest);
    return manifest;
  }
  void Again() { coordinator_.emplace(options_, clock_); }

  uint64_t generation_ = 0;
};

TEST_F(CoordinatorInputsTest, FeaturesAreNumberedInTheOrderOfTheirNames) {
  const auto list = Define({Sparse("a"), Sparse("b"),
                            Sparse("c", v1::TEXT, 0, "a"), Label("click")});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Numbers(*list), "a 1, b 2, c 1");
}

TEST_F(CoordinatorInputsTest, TheSameListAgainHasTheSameNumbers) {
  const std::vector<v1::Feature> features = {Sparse("a"), Sparse("b")};
  ASSERT_TRUE(Define(features).ok());
  const auto again = Define(features);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Numbers(*again), "a 1, b 2");
}

TEST_F(CoordinatorInputsTest, AnotherListIsRefusedWithTheFeature) {
  ASSERT_TRUE(Define({Sparse("a"), Sparse("b")}).ok());
  const auto says = [&](const std::vector<v1::Feature>& features) {
    return std::string(Define(features).status().message());
  };
  EXPECT_EQ(says({Sparse("a"), Sparse("c")}),
            "the job goes on without feature 'c', and --features has "
            "{\"name\":\"c\",\"sparse\":{\"type\":\"TEXT\"}}; give the list of "
            "before, or begin a job with --load");
  EXPECT_EQ(says({Sparse("a", v1::INTEGER), Sparse("b")}),
            "the job goes on with feature "
            "{\"name\":\"a\",\"sparse\":{\"type\":\"TEXT\"}}, and --features "
            "has {\"name\":\"a\",\"sparse\":{\"type\":\"INTEGER\"}}; give the "
            "list of before, or begin a job with --load");
  EXPECT_EQ(says({Sparse("a")}),
            "the job goes on with feature "
            "{\"name\":\"b\",\"sparse\":{\"type\":\"TEXT\"}}, and --features "
            "does not have it; give the list of before, or begin a job with "
            "--load");
}

TEST_F(CoordinatorInputsTest, AListThatIsNotSortedIsRefused) {
  EXPECT_EQ(Define({Sparse("b"), Sparse("a")}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorInputsTest, WithLoadedParametersNumbersAreNeverGivenTwice) {
  v1::Feature a = Sparse("a");
  a.mutable_sparse()->set_number(3);
  v1::Feature b = Sparse("b");
  b.mutable_sparse()->set_number(4);
  v1::Feature c = Sparse("c");
  c.mutable_sparse()->set_number(5);
  Again();
  coordinator_->BeginWith(Manifest(ListOf({a, b, c}), 9));
  generation_ = Register(0);
  // b is gone, c has another type, d is new.
  const auto list =
      Define({Sparse("a"), Sparse("c", v1::INTEGER), Sparse("d")});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Numbers(*list), "a 3, c 10, d 11");
}

TEST_F(CoordinatorInputsTest, AJobThatGoesOnHasTheNumbersOfItsCheckpoint) {
  v1::Feature a = Sparse("a");
  a.mutable_sparse()->set_number(7);
  Again();
  coordinator_->Restore(Manifest(ListOf({a}), 9));
  generation_ = Register(0);
  const auto list = Define({Sparse("a")});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Numbers(*list), "a 7");
  EXPECT_EQ(Define({Sparse("a"), Sparse("b")}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorInputsTest, NoNumberIsLeft) {
  Again();
  coordinator_->BeginWith(Manifest(v1::FeatureList(), 65533));
  generation_ = Register(0);
  EXPECT_EQ(Define({Sparse("a"), Sparse("b")}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto last = Define({Sparse("a")});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(Numbers(*last), "a 65534");
}

TEST_F(CoordinatorInputsTest, AnInputIsThereWithItsLastPart) {
  ASSERT_TRUE(Define({Sparse("a")}).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(0).status()));
  ASSERT_TRUE(DefinePart(0, false, {"x", "y"}).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(0).status()));
  EXPECT_EQ(DefinePart(2, true, {"z"}).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(DefinePart(1, true, {"z"}).ok());
  const auto first = Get(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->files_size(), 2);
  EXPECT_FALSE(first->last());
  EXPECT_FALSE(first->has_features());
  const auto last = Get(1);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->files(0).path(), "z");
  EXPECT_TRUE(last->last());
  EXPECT_EQ(Numbers(last->features()), "a 1");
  EXPECT_TRUE(absl::IsNotFound(Get(2).status()));
}

TEST_F(CoordinatorInputsTest, APartAgainIsTheSame) {
  ASSERT_TRUE(DefinePart(0, false, {"x"}).ok());
  ASSERT_TRUE(DefinePart(0, false, {"x"}).ok());
  ASSERT_TRUE(DefinePart(1, true, {"y"}).ok());
  ASSERT_TRUE(DefinePart(1, true, {"y"}).ok());
  EXPECT_EQ(DefinePart(0, true, {"z"}).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(CoordinatorInputsTest, WhoFollowsADeadWorkerBeginsAnew) {
  ASSERT_TRUE(DefinePart(0, false, {"x"}).ok());
  ASSERT_TRUE(DefinePart(1, false, {"y"}).ok());
  generation_ = Register(0);
  ASSERT_TRUE(DefinePart(0, false, {"u"}).ok());
  ASSERT_TRUE(DefinePart(1, true, {"v"}).ok());
  EXPECT_EQ(Get(0)->files(0).path(), "u");
  EXPECT_EQ(Get(1)->files(0).path(), "v");
}

TEST_F(CoordinatorInputsTest, ListsHaveALimit) {
  const std::string path(1 << 20, 'x');
  uint32_t part = 0;
  while (DefinePart(part, false, {path}).ok()) ++part;
  EXPECT_EQ(part, 63u);
  EXPECT_EQ(DefinePart(part, false, {path}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(CoordinatorInputsTest, AFencedWorkerSaysNothing) {
  const uint64_t old = generation_;
  Register(0);
  generation_ = old;
  EXPECT_EQ(Define({Sparse("a")}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(DefinePart(0, true, {}).code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorInputsTest, ASuccessorKnowsBoth) {
  ASSERT_TRUE(Define({Sparse("a"), Sparse("b")}).ok());
  ASSERT_TRUE(DefinePart(0, false, {"x"}).ok());
  ASSERT_TRUE(DefinePart(1, true, {"y"}).ok());
  const v1::CoordinatorState state = coordinator_->Save();
  Again();
  ASSERT_TRUE(coordinator_->Load(state).ok());
  EXPECT_EQ(coordinator_->Save().SerializeAsString(),
            state.SerializeAsString());
  EXPECT_EQ(Get(1)->files(0).path(), "y");
  EXPECT_EQ(Numbers(*Define({Sparse("a"), Sparse("b")})), "a 1, b 2");
}

TEST_F(CoordinatorInputsTest, ACutHasTheFeatures) {
  v1::RegisterWorkerRequest request;
  request.set_worker_index(1);
  request.mutable_description();
  ASSERT_TRUE(coordinator_->RegisterWorker(request).ok());
  ASSERT_TRUE(Define({Sparse("a")}).ok());
  v1::CheckpointManifest manifest;
  coordinator_->DescribeCut(&manifest);
  EXPECT_EQ(Numbers(manifest.description().features()), "a 1");
  EXPECT_EQ(manifest.description().largest_feature_number(), 1u);
}

}  // namespace
}  // namespace oarlock::coordinator
