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
  expect("min_workers 1 in a job of 2 workers",
         [](Request* request) { request->set_min_workers(1); });
  expect("max_workers 3 in a job of 2 workers",
         [](Request* request) { request->set_max_workers(3); });
  expect("run 2", [](Request* request) { request->set_run(2); });
  expect("cut_opener WORKERS",
         [](Request* request) { request->set_cut_opener(Request::WORKERS); });
  expect("on_death CUT",
         [](Request* request) { request->set_on_death(Request::CUT); });
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
