// Factorization machines. "fm" (Rendle, Factorization Machines, 2010):
// probability = sigmoid(bias + sum_i w_i x_i + sum_{i<j} (v_i . v_j) x_i x_j),
// where x is 1 for a key and the number itself for a dense feature. A key's row
// is [w, v_1 ... v_k], k = embedding_size; dense features have parameters of
// their own.
//
// "ffm" (Juan et al., Field-aware Factorization Machines for CTR Prediction,
// 2016): a key of slot i has a vector for each slot j, and the second order is
// the sum over i < j of v_ij . v_ji. A row is [w, v_1 ... v_slots], 1 +
// num_slots * embedding_size floats: a size of 4 is usual. Dense features have
// only a first order.
//
// Rows and the vectors of dense features start uniform in +-init_range, all
// other parameters at 0.

#ifndef OARLOCK_MODELS_FACTORIZATION_MACHINES_H_
#define OARLOCK_MODELS_FACTORIZATION_MACHINES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/model.h"

namespace oarlock::models {

absl::StatusOr<std::unique_ptr<Model>> NewFmModel(const ModelOptions& options);
absl::StatusOr<std::unique_ptr<Model>> NewFfmModel(const ModelOptions& options);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_FACTORIZATION_MACHINES_H_
