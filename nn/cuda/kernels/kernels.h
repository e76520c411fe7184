// All kernels with their numbers. A device launches a kernel by its number and
// the address of its struct. So the same code drives a GPU, whose kernels
// another compiler has compiled, and an emulated device. The kernels of
// optimizers have a list of their own (rule_kernels.h), since they are compiled
// with other flags.

#ifndef OARLOCK_NN_CUDA_KERNELS_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_KERNELS_H_

#include "nn/cuda/kernels/attention_kernels.h"
#include "nn/cuda/kernels/bag_kernels.h"
#include "nn/cuda/kernels/device_code.h"
#include "nn/cuda/kernels/element_kernels.h"
#include "nn/cuda/kernels/image_kernels.h"
#include "nn/cuda/kernels/interaction_kernels.h"
#include "nn/cuda/kernels/norm_kernels.h"
#include "nn/cuda/kernels/product_kernels.h"
#include "nn/cuda/kernels/reduction_kernels.h"
#include "nn/cuda/kernels/rule_kernels.h"
#include "nn/cuda/kernels/vector_kernels.h"

// Calls each(name, type) for every kernel of the math backend.
// clang-format off
#define OARLOCK_CUDA_KERNELS(each)                                 \
  each(kFill, ForEach<FillBody>)                                   \
  each(kAddBias, ForEach<AddBiasBody>)                             \
  each(kRelu, ForEach<ReluBody>)                                   \
  each(kReluBackward, ForEach<ReluBackwardBody>)                   \
  each(kDropout, ForEach<DropoutBody>)                             \
  each(kCopyColumns, ForEach<CopyColumnsBody>)                     \
  each(kSumColumnsBackward, ForEach<SumColumnsBackwardBody>)       \
  each(kRound, ForEach<RoundBody>)                                 \
  each(kFmBackward, ForEach<FmBackwardBody>)                       \
  each(kSoftmaxBackward, ForEach<SoftmaxBackwardBody>)             \
  each(kSigmoidBackward, ForEach<SigmoidBackwardBody>)             \
  each(kSumColumns, SumColumnsKernel)                              \
  each(kSumPartials, ForEach<SumPartialsBody>)                     \
  each(kBiasGradient, ColumnPartials<BiasGradientTerm>)            \
  each(kFm, FmKernel)                                              \
  each(kSoftmaxLoss, LossPartials<SoftmaxTerm>)                    \
  each(kSigmoidLoss, LossPartials<SigmoidTerm>)                    \
  each(kSumLoss, SumLossKernel)                                    \
  each(kSumBags, ForEach<SumBagsBody>)                             \
  each(kGatherRows, ForEach<GatherRowsBody>)                       \
  each(kPairs, ForEach<PairsBody>)                                 \
  each(kCountDigits, CountDigitsKernel)                            \
  each(kScan, ScanKernel)                                          \
  each(kScatterPairs, ScatterPairsKernel)                          \
  each(kSumTiles, ForEach<SumTilesBody>)                           \
  each(kJoinTiles, ForEach<JoinTilesBody>)                         \
  each(kPatches, ForEach<PatchesBody>)                             \
  each(kPatchesBackward, ForEach<PatchesBackwardBody>)             \
  each(kMaxPool, ForEach<MaxPoolBody>)                             \
  each(kMaxPoolBackward, ForEach<MaxPoolBackwardBody>)             \
  each(kAveragePool, ForEach<AveragePoolBody>)                     \
  each(kAveragePoolBackward, ForEach<AveragePoolBackwardBody>)     \
  each(kValueSums, ColumnPartials<ValueTerm>)                      \
  each(kSquaredDifferences, ColumnPartials<SquaredDifferenceTerm>) \
  each(kShiftGradient, ColumnPartials<ShiftGradientTerm>)          \
  each(kScaleGradient, ColumnPartials<ScaleGradientTerm>)          \
  each(kMoveRunning, ForEach<MoveRunningBody>)                     \
  each(kNormalize, ForEach<NormalizeBody>)                         \
  each(kNormBackward, ForEach<NormBackwardBody>)                   \
  each(kScaleBytes, ForEach<ScaleBytesBody>)                       \
  each(kFieldAware, FieldAwareKernel)                              \
  each(kFieldAwareBackward, ForEach<FieldAwareBackwardBody>)       \
  each(kCross, ForEach<CrossBody>)                                 \
  each(kCrossByA, ForEach<CrossByABody>)                           \
  each(kCrossByZ, ForEach<CrossByZBody>)                           \
  each(kOuterProducts, ForEach<OuterProductsBody>)                 \
  each(kOuterProductsByA, ForEach<OuterProductsByABody>)           \
  each(kOuterProductsByB, ForEach<OuterProductsByBBody>)           \
  each(kPairwiseDots, PairwiseDotsKernel)                          \
  each(kPairwiseDotsBackward, ForEach<PairwiseDotsBackwardBody>)   \
  each(kAttention, ForEach<AttentionBody>)                         \
  each(kAttentionLogits, ForEach<AttentionLogitsBody>)             \
  each(kAttentionBackward, ForEach<AttentionBackwardBody>)         \
  each(kTranspose, ForEach<TransposeBody>)                         \
  each(kSumRows, ForEach<SumRowsBody>)                             \
  each(kSumRowsBackward, ForEach<SumRowsBackwardBody>)             \
  each(kScaleVectors, ForEach<ScaleVectorsBody>)                   \
  each(kScaleVectorsByX, ForEach<ScaleVectorsByXBody>)             \
  each(kScaleVectorsByV, ColumnPartials<ScaleVectorsTerm>)         \
  each(kNormMoments, ForEach<NormMomentsBody>)                     \
  each(kNormCentre, ForEach<NormCentreBody>)                       \
  each(kDecayAndAdd, ForEach<DecayAndAddBody>)                     \
  each(kDecayAndCount, ForEach<DecayAndCountBody>)                 \
  each(kStandardize, ForEach<StandardizeBody>)                     \
  each(kPlainProduct, ForEach<PlainProductBody>)
// clang-format on

namespace oarlock::nn::cuda {

#define OARLOCK_KERNEL_NUMBER(name, type) name,
enum class KernelId {
  OARLOCK_CUDA_KERNELS(OARLOCK_KERNEL_NUMBER)
      OARLOCK_CUDA_RULE_KERNELS(OARLOCK_KERNEL_NUMBER)
};
#undef OARLOCK_KERNEL_NUMBER

#define OARLOCK_KERNEL_NAME(name, type) #name + 1,
inline constexpr const char* kKernelNames[] = {OARLOCK_CUDA_KERNELS(
    OARLOCK_KERNEL_NAME) OARLOCK_CUDA_RULE_KERNELS(OARLOCK_KERNEL_NAME)};
#undef OARLOCK_KERNEL_NAME

template <typename Kernel>
struct NumberOf;
#define OARLOCK_NUMBER_OF_KERNEL(name, type)          \
  template <>                                         \
  struct NumberOf<type> {                             \
    static constexpr KernelId value = KernelId::name; \
  };
OARLOCK_CUDA_KERNELS(OARLOCK_NUMBER_OF_KERNEL)
OARLOCK_CUDA_RULE_KERNELS(OARLOCK_NUMBER_OF_KERNEL)
#undef OARLOCK_NUMBER_OF_KERNEL

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_KERNELS_H_
