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

void Traffic::StartPull(const std::shared_ptr<Slot>& slot,
                        std::function<void()> done) {
  client_->PullSparse(kRows, slot->keys, slot->rows.data(), nullptr, slot,
                      [done = std::move(done)](absl::Status status) {
                        Require(status);
                        done();
                      });
}

void Traffic::EnqueuePull(const std::shared_ptr<Slot>& slot,
                          std::function<void()> done) {
  client_->EnqueuePullSparse(kRows, slot->keys, slot->rows.data(), nullptr,
                             slot,
                             [done = std::move(done)](absl::Status status) {
                               Require(status);
                               done();
                             });
}

void Traffic::Pull(const std::shared_ptr<Slot>& slot) {
  absl::Notification done;
  StartPull(slot, [&done] { done.Notify(); });
  done.WaitForNotification();
}

void Traffic::StartPush(const std::shared_ptr<Slot>& slot,
                        const float* gradients, std::function<void()> done) {
  oarlock::client::PushRequest push;
  push.sparse.push_back({kRows, &slot->keys, gradients});
  client_->Push(push, nullptr, slot,
                [done = std::move(done)](absl::Status status) {
                  Require(status);
                  done();
                });
}

void Traffic::Push(const std::shared_ptr<Slot>& slot, const float* gradients) {
  absl::Notification done;
  StartPush(slot, gradients, [&done] { done.Notify(); });
  done.WaitForNotification();
}

void Traffic::Expand(Slot* slot) {
  backend_->SumBags(Bags(*slot), slot->rows.data(), slot->expanded.data());
}

void Traffic::Merge(Slot* slot) {
  backend_->Fill(slot->keys.keys().size() * kDim, 0, slot->merged.data());
  backend_->SumBagsBackward(Bags(*slot), gradients_.data(),
                            slot->merged.data());
}

oarlock::nn::RowBags Traffic::Bags(const Slot& slot) const {
  oarlock::nn::RowBags bags;
  bags.num_examples = slot.keys.row_of_key().size();
  bags.num_slots = 1;
  bags.row_dim = bags.width = kDim;
  bags.row_of_key = slot.keys.row_of_key().data();
  return bags;
}

}  // namespace oarlock_bench
