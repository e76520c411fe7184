#include "bench/wire/traffic.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/synchronization/notification.h"
#include "nn/backends/backends.h"

namespace oarlock_bench {

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::exit(1);
}

oarlock::v1::TableConfig RowsConfig() {
  oarlock::v1::TableConfig config;
  config.set_id(kRows.value());
  config.set_name("rows");
  config.set_mode(oarlock::v1::ASYNC);
  config.set_reduction(oarlock::v1::SUM);
  config.mutable_optimizer()->set_learning_rate(kLearningRate);
  config.mutable_optimizer()->mutable_adagrad();
  config.mutable_sparse()->set_dim(kDim);
  config.mutable_sparse()->set_accessor(oarlock::v1::PLAIN);
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(0.01f);
  return config;
}

Traffic::Traffic(oarlock::client::ParameterClient* client, size_t num_keys)
    : client_(client),
      backend_(*oarlock::nn::NewMathBackend("onednn")),
      gradients_(SomeGradients(num_keys)) {}

void Traffic::StartPull(const std::shared_ptr<InFlightBatch>& in_flight,
                        std::function<void()> done) {
  client_->PullSparse(kRows, in_flight->keys, in_flight->rows.data(), nullptr,
                      in_flight, [done = std::move(done)](absl::Status status) {
                        Require(status);
                        done();
                      });
}

void Traffic::EnqueuePull(const std::shared_ptr<InFlightBatch>& in_flight,
                          std::function<void()> done) {
  client_->EnqueuePullSparse(kRows, in_flight->keys, in_flight->rows.data(),
                             nullptr, in_flight,
                             [done = std::move(done)](absl::Status status) {
                               Require(status);
                               done();
                             });
}

void Traffic::Pull(const std::shared_ptr<InFlightBatch>& in_flight) {
  absl::Notification done;
  StartPull(in_flight, [&done] { done.Notify(); });
  done.WaitForNotification();
}

void Traffic::StartPush(const std::shared_ptr<InFlightBatch>& in_flight,
                        const float* gradients, std::function<void()> done) {
  oarlock::client::PushRequest push;
  push.sparse.push_back({kRows, &in_flight->keys, gradients});
  client_->Push(push, nullptr, in_flight,
                [done = std::move(done)](absl::Status status) {
                  Require(status);
                  done();
                });
}

void Traffic::Push(const std::shared_ptr<InFlightBatch>& in_flight,
                   const float* gradients) {
  absl::Notification done;
  StartPush(in_flight, gradients, [&done] { done.Notify(); });
  done.WaitForNotification();
}

void Traffic::Expand(InFlightBatch* in_flight) {
  backend_->SumBags(Bags(*in_flight), in_flight->rows.data(),
                    in_flight->expanded.data());
}

void Traffic::Merge(InFlightBatch* in_flight) {
  backend_->Fill(in_flight->keys.keys().size() * kDim, 0,
                 in_flight->merged.data());
  backend_->SumBagsBackward(Bags(*in_flight), gradients_.data(),
                            in_flight->merged.data());
}

oarlock::nn::RowBags Traffic::Bags(const InFlightBatch& in_flight) const {
  oarlock::nn::RowBags bags;
  bags.num_examples = in_flight.keys.row_of_key().size();
  bags.num_slots = 1;
  bags.row_dim = bags.width = kDim;
  bags.row_of_key = in_flight.keys.row_of_key().data();
  return bags;
}

}  // namespace oarlock_bench
