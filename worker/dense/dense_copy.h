// The dense parameters that one thread at a time computes with, between two
// exchanges with the servers.
//
// An exchange costs as much as computing some hundreds of examples, so a dense
// copy makes one every few steps: it pushes the sum of their gradients and gets
// the parameters as they are afterwards. In between its own gradients are
// applied to it, by the table's rule: computing the next step on parameters
// that do not know the last one would repeat what that did (docs/design/0005).

#ifndef OARLOCK_WORKER_DENSE_DENSE_COPY_H_
#define OARLOCK_WORKER_DENSE_DENSE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "client/parameter_client.h"
#include "optim/rules.h"

namespace oarlock::worker {

// Steps between two exchanges where the configuration does not say:
//
//   max(1, min(2048, 8192 / num_copies^2) / batch_size)
//
// but at most the 100th part of the steps that a copy makes in the job, if this
// is known (else 0). An exchange is worth its cost every 2,048 examples; with
// more copies in the job each holds back less, and fewer steps are made that do
// not know of each other. A job of few steps cannot do without any of them.
// Measured in docs/design/0005. REQUIRES: the first two at least 1.
uint32_t DefaultDenseInterval(int64_t num_copies, int64_t batch_size,
                              int64_t steps_of_copy);

// Not thread-safe.
class DenseCopy {
 public:
  // Begins with `parameters`. An exchange is due every `interval_steps` >= 1.
  DenseCopy(const optim::UpdateRule& rule,
            const client::DenseReplica& parameters, uint32_t interval_steps);

  // A step: computes on `values` and writes its gradients to `gradients`, or
  // adds them to what is there; then StepDone with the examples of the step.
  const float* values() const { return replica_->values.data(); }
  float* gradients();
  bool add_gradients() const { return num_steps_ > 0 && ExchangeComesNext(); }
  void StepDone(absl::Span<const data::ExampleRange> examples);
  // Instead of StepDone: the gradients are worth nothing, and with them the sum
  // that they may have been added to. The copy has none, as after an exchange.
  void StepFailed();

  // The cut that pushes made with this copy belong after: the rows of a step
  // and, in an exchange, the dense gradients of all steps since the last one.
  // So it may grow only while there are none.
  uint64_t cut() const { return cut_; }
  // REQUIRES: !HasGradients().
  void set_cut(uint64_t cut);

  // Whether steps were made since the last exchange, and as many as wanted.
  bool HasGradients() const { return num_steps_ > 0; }
  bool ExchangeIsDue() const { return num_steps_ >= interval_steps_; }

  // What a push needs; `memory` keeps it alive. The parameters are this copy's
  // when the push is done.
  struct Exchange {
    client::DenseGradients gradients;
    // Of all its steps; those of neighbouring ranges are one range. None where
    // there are no parameters.
    std::vector<data::ExampleRange> examples;
    std::shared_ptr<const void> memory;
  };
  // The gradients of the steps so far, which begin anew after it. No step until
  // the push is done.
  Exchange TakeExchange(TableId table);

  // Pushes of others that the table had applied between the last two exchanges:
  // the most over blocks. REQUIRES: the push of the last one is done.
  uint64_t staleness() const;

 private:
  void AddExamples(absl::Span<const data::ExampleRange> examples);
  bool ExchangeComesNext() const { return num_steps_ + 1 >= interval_steps_; }

  const optim::UpdateRule rule_;
  const uint32_t interval_steps_;
  const std::shared_ptr<client::DenseReplica> replica_;
  // Of the copy's own gradients.
  std::vector<float> state_;
  // Sum over the steps since the last exchange. Shared with the push under way
  // and its send buffers; not written while they refer to it.
  std::shared_ptr<std::vector<float>> sum_;
  // Gradients of one step, where they are needed by themselves.
  std::vector<float> step_;
  uint32_t num_steps_ = 0;
  // Of these steps.
  std::vector<data::ExampleRange> examples_;
  uint64_t cut_ = 0;
  // Of the parameters' blocks, before the last exchange.
  std::vector<uint64_t> versions_before_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_DENSE_DENSE_COPY_H_
