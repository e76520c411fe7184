#include "bench/gpu/kernel_bytes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace oarlock::gpu_bench {
namespace {

using namespace nn::cuda;  // NOLINT: thirty of its kernels have an overload
                           // here

constexpr double kFloat = sizeof(float);
constexpr double kIndex = sizeof(uint32_t);

// Of a number that is written, or added to.
double Written(nn::Write write) {
  return write == nn::Write::kAdd ? 2 * kFloat : kFloat;
}

template <typename T>
std::vector<T> ReadArray(const ReadMemory& read, const T* from, size_t count) {
  std::vector<T> values(count);
  if (count > 0) read(from, count * sizeof(T), values.data());
  return values;
}

size_t Distinct(std::vector<uint32_t> values) {
  std::sort(values.begin(), values.end());
  return std::unique(values.begin(), values.end()) - values.begin();
}

template <typename Kernel>
std::optional<double> Bytes(const Kernel&, const ReadMemory&) {
  return std::nullopt;
}

// ---- Elements ----

std::optional<double> Bytes(const FillBody& b, const ReadMemory&) {
  return kFloat * b.count;
}
std::optional<double> Bytes(const AddBiasBody& b, const ReadMemory&) {
  return kFloat * (2 * b.count + b.cols);
}
std::optional<double> Bytes(const ReluBody& b, const ReadMemory&) {
  return 2 * kFloat * b.count;
}
std::optional<double> Bytes(const ReluBackwardBody& b, const ReadMemory&) {
  return (2 * kFloat + Written(b.write)) * b.count;
}
std::optional<double> Bytes(const DropoutBody& b, const ReadMemory&) {
  return (kFloat + Written(b.write)) * b.count;
}
std::optional<double> Bytes(const CopyColumnsBody& b, const ReadMemory&) {
  return (kFloat + Written(b.write)) * b.count;
}
std::optional<double> Bytes(const SumColumnsBackwardBody& b,
                            const ReadMemory&) {
  return kFloat * (b.count / b.cols) + Written(b.write) * b.count;
}
std::optional<double> Bytes(const RoundBody& b, const ReadMemory&) {
  return 2.0 * b.count + kFloat * (b.count / b.y_stride) * b.cols;
}
std::optional<double> Bytes(const FmBackwardBody& b, const ReadMemory&) {
  return kFloat * (b.count + b.count / b.num_vectors +
                   b.count / (b.num_vectors * b.width)) +
         Written(b.write) * b.count;
}

// ---- Losses ----

std::optional<double> Bytes(const SoftmaxBackwardBody& b, const ReadMemory&) {
  return kFloat * (b.count + b.count / b.classes) + Written(b.write) * b.count;
}
std::optional<double> Bytes(const SigmoidBackwardBody& b, const ReadMemory&) {
  return (2 * kFloat + Written(b.write)) * b.count;
}
template <typename Term>
double LossSums(const LossPartials<Term>& k) {
  return 2.0 * sizeof(double) * k.blocks();
}
std::optional<double> Bytes(const LossPartials<SoftmaxTerm>& k,
                            const ReadMemory&) {
  return kFloat * k.rows * (2 * k.term.classes + 1) + LossSums(k);
}
std::optional<double> Bytes(const LossPartials<SigmoidTerm>& k,
                            const ReadMemory&) {
  return 3 * kFloat * k.rows + LossSums(k);
}
std::optional<double> Bytes(const SumLossKernel& k, const ReadMemory&) {
  return 2.0 * sizeof(double) * (k.count + 1);
}

// ---- Sums ----

std::optional<double> Bytes(const SumColumnsKernel& k, const ReadMemory&) {
  return kFloat * k.rows * (k.cols + 1);
}
std::optional<double> Bytes(const SumPartialsBody& b, const ReadMemory&) {
  return kFloat * b.chunks * b.count + Written(b.write) * b.count;
}
template <typename Term>
double Partials(const ColumnPartials<Term>& k) {
  return kFloat * k.Chunks(k.rows) * k.cols;
}
std::optional<double> Bytes(const ColumnPartials<BiasGradientTerm>& k,
                            const ReadMemory&) {
  // Where some of dy are masked, whole sectors of memory are written.
  const int times = k.term.activation == nn::Activation::kRelu ? 3 : 1;
  return times * kFloat * k.rows * k.cols + Partials(k);
}
std::optional<double> Bytes(const ColumnPartials<ScaleVectorsTerm>& k,
                            const ReadMemory&) {
  return kFloat * k.rows * (k.cols + k.term.num_vectors) + Partials(k);
}
std::optional<double> Bytes(const FmKernel& k, const ReadMemory&) {
  return kFloat * k.num_examples * (k.num_vectors * k.width + k.width + 1);
}

// ---- Bags ----

std::optional<double> Bytes(const SumBagsBody& b, const ReadMemory& read) {
  const size_t bags = b.count / b.places.width;
  size_t keys = bags;
  double offsets = 0;
  if (b.offsets != nullptr) {
    keys = ReadArray(read, b.offsets + bags, 1)[0];
    offsets = kIndex * (bags + 1);
  }
  const size_t rows = Distinct(ReadArray(read, b.row_of_key, keys));
  return offsets + kIndex * keys + kFloat * (rows * b.places.width + b.count);
}
std::optional<double> Bytes(const GatherRowsBody& b, const ReadMemory&) {
  return 2 * kFloat * b.count + 2 * kIndex * (b.count / b.row_dim);
}
std::optional<double> Bytes(const PairsBody& b, const ReadMemory& read) {
  if (b.offsets == nullptr) return 3 * kIndex * b.count;
  const size_t keys = ReadArray(read, b.offsets + b.count, 1)[0];
  return kIndex * (3 * keys + b.count + 1);
}
std::optional<double> Bytes(const CountDigitsKernel& k, const ReadMemory&) {
  return kIndex * (k.count + kDigits * k.blocks());
}
std::optional<double> Bytes(const ScanKernel& k, const ReadMemory&) {
  return 2 * kIndex * k.count;
}
std::optional<double> Bytes(const ScatterPairsKernel& k, const ReadMemory&) {
  return kIndex * (4 * k.count + kDigits * k.blocks());
}
std::optional<double> Bytes(const SumTilesBody& b, const ReadMemory& read) {
  const size_t pairs = b.pairs.num_pairs;
  const size_t rows = Distinct(ReadArray(read, b.pairs.rows, pairs));
  // A row's gradient is added to.
  return 2 * kIndex * pairs +
         kFloat * b.gradient.places.width * (pairs + 2 * rows);
}
std::optional<double> Bytes(const JoinTilesBody& b, const ReadMemory& read) {
  const size_t pairs = b.pairs.num_pairs;
  const std::vector<uint32_t> rows = ReadArray(read, b.pairs.rows, pairs);
  size_t heads = 0, runs = 0;  // that reach over the begin of a tile
  for (size_t at = kTilePairs; at < pairs; at += kTilePairs) {
    if (rows[at] != rows[at - 1]) continue;
    ++heads;
    runs += at == kTilePairs || rows[at - kTilePairs - 1] != rows[at];
  }
  // Of each tile the row at either end; of a run its tail, and its row's
  // gradient, which is added to.
  return 2 * kIndex * BlocksFor(pairs, kTilePairs) +
         kFloat * b.width * (heads + 3 * runs);
}

// ---- Interactions ----

std::optional<double> Bytes(const FieldAwareKernel& k, const ReadMemory&) {
  // Not the vectors of a field for itself.
  return kFloat * k.num_examples * (k.fields * (k.fields - 1) * k.width + 1);
}
std::optional<double> Bytes(const FieldAwareBackwardBody& b,
                            const ReadMemory&) {
  return kFloat * (b.count - b.count / b.fields +
                   b.count / (b.fields * b.fields * b.width)) +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const CrossBody& b, const ReadMemory&) {
  return kFloat * (3 * b.count + b.count / b.cols * b.z_cols);
}
std::optional<double> Bytes(const CrossByABody& b, const ReadMemory&) {
  return kFloat * (b.count + b.count / b.cols * b.z_cols) +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const CrossByZBody& b, const ReadMemory&) {
  return 2 * kFloat * (b.count / b.z_cols) * b.cols +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const OuterProductsBody& b, const ReadMemory&) {
  return kFloat * (b.count + b.count / b.b_cols + b.count / b.a_cols);
}
std::optional<double> Bytes(const OuterProductsByABody& b, const ReadMemory&) {
  return kFloat * b.b_cols * (b.count + b.count / b.a_cols) +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const OuterProductsByBBody& b, const ReadMemory&) {
  return kFloat * b.a_cols * (b.count + b.count / b.b_cols) +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const PairwiseDotsKernel& k, const ReadMemory&) {
  const size_t n = k.num_vectors;
  return kFloat * k.num_examples * (n * k.width + n * (n - 1) / 2);
}
std::optional<double> Bytes(const PairwiseDotsBackwardBody& b,
                            const ReadMemory&) {
  const size_t n = b.num_vectors;
  const size_t examples = b.count / (n * b.width);
  return kFloat * (b.count + examples * (n * (n - 1) / 2)) +
         Written(b.write) * b.count;
}

// ---- Vectors, products ----

std::optional<double> Bytes(const TransposeBody& b, const ReadMemory&) {
  return (kFloat + Written(b.write)) * b.count;
}
std::optional<double> Bytes(const SumRowsBody& b, const ReadMemory&) {
  return kFloat * b.count * (b.rows + 1);
}
std::optional<double> Bytes(const SumRowsBackwardBody& b, const ReadMemory&) {
  return kFloat * (b.count / b.rows) + Written(b.write) * b.count;
}
std::optional<double> Bytes(const ScaleVectorsBody& b, const ReadMemory&) {
  return kFloat * (b.count + b.count / b.width + b.num_vectors * b.width);
}
std::optional<double> Bytes(const ScaleVectorsByXBody& b, const ReadMemory&) {
  return kFloat * b.width * (b.count + b.num_vectors) +
         Written(b.write) * b.count;
}
std::optional<double> Bytes(const PlainProductBody& b, const ReadMemory&) {
  return BytesOfProduct(b.product);
}

// ---- Rules ----

// Weights that a launch updates.
size_t NumWeights(const RuleArgs& args, const ReadMemory& read) {
  size_t sum = 0;
  for (const RuleBlock& block : ReadArray(read, args.blocks, args.num_blocks)) {
    sum += block.size;
  }
  return sum;
}
template <typename Rule>
std::optional<double> Bytes(const RuleUpdateKernel<Rule>& k,
                            const ReadMemory& read) {
  // The gradient; the weight and the state, read and written.
  return kFloat * (1 + 2 * (1 + Rule::kOwn)) * NumWeights(k.args, read) +
         sizeof(RuleTile) * k.args.num_tiles;
}
template <typename Rule>
std::optional<double> Bytes(const RuleTermsKernel<Rule>& k,
                            const ReadMemory& read) {
  return 2 * kFloat * NumWeights(k.args, read) +
         (sizeof(RuleTile) + sizeof(optim::RuleMeans)) * k.args.num_tiles;
}
template <typename Rule>
std::optional<double> Bytes(const RuleBeginKernel<Rule>& k, const ReadMemory&) {
  const size_t sums = optim::kTakesMeans<Rule> ? k.args.num_tiles : 0;
  return sizeof(optim::RuleMeans) * sums +
         (sizeof(RuleBlock) + sizeof(typename Rule::Begun) +
          2 * kFloat * Rule::kShared) *
             k.args.num_blocks;
}

// After all bodies.
template <typename Body>
std::optional<double> Bytes(const ForEach<Body>& kernel,
                            const ReadMemory& read) {
  return Bytes(kernel.body, read);
}

}  // namespace

std::optional<double> BytesOfKernel(nn::cuda::KernelId id, const void* kernel,
                                    const ReadMemory& read) {
#define OARLOCK_BYTES_CASE(name, type) \
  case nn::cuda::KernelId::name:       \
    return Bytes(*static_cast<const type*>(kernel), read);
  switch (id) {
    OARLOCK_CUDA_KERNELS(OARLOCK_BYTES_CASE)
    OARLOCK_CUDA_RULE_KERNELS(OARLOCK_BYTES_CASE)
  }
#undef OARLOCK_BYTES_CASE
  return std::nullopt;
}

double BytesOfProduct(const nn::cuda::Product& p) {
  const double operand = p.numbers == nn::cuda::Numbers::kBfloat16 ? 2 : kFloat;
  return operand * (p.m * p.k + p.k * p.n) + Written(p.write) * p.m * p.n +
         (p.bias == nullptr ? 0 : kFloat * p.m);
}

}  // namespace oarlock::gpu_bench
