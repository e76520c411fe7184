#include "pserver/service/coordinator_service.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cluster/wire_version.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::pserver {
namespace {

using Request = v1::RegisterWorkerRequest;

absl::Status CheckWith(const std::function<void(Request*)>& change) {
  Request request;
  request.set_worker_index(1);
  request.set_protocol_version(cluster::kProtocolVersion);
  change(&request);
  return CheckRegistration(request, /*num_workers=*/2);
}

TEST(CheckRegistrationTest, WhatIsReservedMayBeLeftOutOrAskForWhatIsDone) {
  EXPECT_TRUE(CheckWith([](Request*) {}).ok());
  EXPECT_TRUE(CheckWith([](Request* request) {
                request->set_min_workers(2);
                request->set_max_workers(2);
                request->set_run(1);
                request->set_cut_opener(Request::COORDINATOR);
                request->set_on_death(Request::RECOVER);
              }).ok());
}

TEST(CheckRegistrationTest, WhatIsReservedIsRefusedInOneLine) {
  const auto expect = [](const std::string& what,
                         const std::function<void(Request*)>& change) {
    const absl::Status status = CheckWith(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(status.message(),
              "worker 1 asks for " + what +
                  ", which this coordinator does not do; leave it unset");
  };
  expect("cut_opener WORKERS",
         [](Request* request) { request->set_cut_opener(Request::WORKERS); });
  expect("on_death CUT",
         [](Request* request) { request->set_on_death(Request::CUT); });
}

TEST(CheckRegistrationTest, AJobThatDoesNotStayHasOneRunOfItsSize) {
  const auto expect = [](const std::string& what,
                         const std::function<void(Request*)>& change) {
    const absl::Status status = CheckWith(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(), what);
  };
  expect(
      "worker 1 is of 1 workers, and the servers were started for 2; start all "
      "processes with the same number of workers",
      [](Request* request) { request->set_min_workers(1); });
  expect(
      "worker 1 is of 3 workers, and the servers were started for 2; start all "
      "processes with the same number of workers",
      [](Request* request) { request->set_max_workers(3); });
  expect(
      "worker 1 is of run 2, and this job has run 1 alone; start the servers "
      "with --stay",
      [](Request* request) { request->set_run(2); });
}

TEST(CheckRegistrationTest, AJobThatStaysLeavesRunsToTheCoordinator) {
  const auto check = [](uint32_t least, uint32_t most, uint64_t run) {
    Request request;
    request.set_protocol_version(cluster::kProtocolVersion);
    request.set_min_workers(least);
    request.set_max_workers(most);
    request.set_run(run);
    return CheckRegistration(request, /*num_workers=*/0).code();
  };
  EXPECT_EQ(check(0, 0, 0), absl::StatusCode::kOk);
  EXPECT_EQ(check(3, 3, 7), absl::StatusCode::kOk);
  EXPECT_EQ(check(1, 3, 0), absl::StatusCode::kUnimplemented);
}

TEST(CheckRegistrationTest, AnotherVersionIsRefused) {
  for (uint32_t version : {0, 1, 3}) {
    EXPECT_EQ(CheckWith([&](Request* request) {
                request->set_protocol_version(version);
              }).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(CoordinatorServiceTest, BlobsAreReserved) {
  MiniJob job(1, 1);
  v1::PutBlobResponse response;
  EXPECT_EQ(job.client(0)
                .Admin(&v1::CoordinatorService::Stub::PutBlob,
                       v1::PutBlobRequest(), &response)
                .code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CoordinatorServiceTest, ARegistrationIsCheckedBeforeTheCoordinatorHasIt) {
  MiniJob job(1, 1);
  Request request;
  v1::RegisterWorkerResponse response;
  EXPECT_EQ(job.client(0)
                .Admin(&v1::CoordinatorService::Stub::RegisterWorker, request,
                       &response)
                .code(),
            absl::StatusCode::kFailedPrecondition);
  request.set_protocol_version(cluster::kProtocolVersion);
  ASSERT_TRUE(job.client(0)
                  .Admin(&v1::CoordinatorService::Stub::RegisterWorker, request,
                         &response)
                  .ok());
  EXPECT_EQ(response.run(), 1u);
  EXPECT_EQ(response.num_workers(), 1u);
  EXPECT_EQ(response.term(), 1u);
}

}  // namespace
}  // namespace oarlock::pserver
