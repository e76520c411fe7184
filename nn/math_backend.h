// The interface of the mathematics of layers. It is implemented by the
// reference loops (reference_backend.h, the oracle of all others), by oneDNN on
// a CPU (onednn_backend.h) and on a GPU (cuda/cuda_backend.h).
//
// All arrays are row-major 32-bit floats in memory of the backend: memory from
// Allocate, or any host memory where uses_host_memory(). A call is a layer's
// whole operation on a batch, so the cost of a virtual call does not matter.
// "[a, b]" is the shape of an array, outermost dimension first. Without a
// stride its rows are contiguous. Inputs and outputs do not overlap unless the
// operation says so. A size of 0 is legal everywhere. Operations run in the
// order of the calls, but perhaps after the calls return. Results for the host
// are there after Finish.
//
// Thread safety: only one thread at a time may use a backend; every executor
// has its own.

#ifndef OARLOCK_NN_MATH_BACKEND_H_
#define OARLOCK_NN_MATH_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "nn/image_operations.h"
#include "nn/interaction_operations.h"
#include "nn/operation.h"

namespace oarlock::nn {

namespace cuda {
class Device;
}  // namespace cuda

// An operand of a product. Element (i, j) is data[i * stride + j], or
// data[j * stride + i] when `transposed`.
struct Matrix {
  const float* data = nullptr;
  size_t stride = 0;
  bool transposed = false;
};

// Bags of rows; the result of a bag is the sum or the mean of its rows. Bag
// number e * num_slots + s belongs to slot s of example e and becomes `width`
// floats at out[e * ExampleStride() + s * width].
struct RowBags {
  size_t num_examples = 0;
  size_t num_slots = 0;
  // Columns [column_begin, column_begin + width) of rows of row_dim floats.
  size_t row_dim = 0;
  size_t column_begin = 0;
  size_t width = 0;
  // Bag b holds rows row_of_key[offsets[b]] up to, not including,
  // row_of_key[offsets[b + 1]]. Null offsets: bag b holds only row
  // row_of_key[b].
  const uint32_t* row_of_key = nullptr;
  const uint32_t* offsets = nullptr;
  // The length of row_of_key, whose numbers are below num_rows. For gradients
  // only.
  size_t num_keys = 0;
  size_t num_rows = 0;
  // The result of a bag is the mean of its rows instead of their sum.
  bool mean = false;
  // Floats from one example of `out` to the next; 0: the examples are
  // contiguous.
  size_t out_stride = 0;

  size_t ExampleStride() const {
    return out_stride != 0 ? out_stride : num_slots * width;
  }
};

// The rows of a batch when some are cached from earlier batches. Row r is
// missed row number miss_of_row[r], or the row in entry entry_of_row[r].
struct CachedRows {
  static constexpr uint32_t kNone = ~uint32_t{0};

  size_t num_rows = 0;
  size_t row_dim = 0;
  // [num_rows] each. A row that is not missed (kNone in miss_of_row) has an
  // entry. A missed row with an entry is cached there from now on. No two rows
  // have the same entry.
  const uint32_t* miss_of_row = nullptr;
  const uint32_t* entry_of_row = nullptr;
};

// Vectors of factorization machines: [num_examples, num_vectors, width].
struct FmShape {
  size_t num_examples = 0;
  size_t num_vectors = 0;
  size_t width = 0;
};

// A linear layer on a batch: y = activation(x weight + bias).
struct LinearArgs {
  size_t rows = 0;
  size_t inputs = 0;
  size_t outputs = 0;
  Activation activation = Activation::kNone;
  const float* x = nullptr;       // [rows, inputs]
  const float* weight = nullptr;  // [inputs, outputs]
  // [outputs], or null; with null there is no activation either.
  const float* bias = nullptr;
  // LinearScratch floats. LinearBackward needs the contents that Linear has
  // left there.
  float* scratch = nullptr;
};

// The input and the outputs of a linear layer's gradients.
struct LinearGradients {
  float* dy = nullptr;  // [rows, outputs], gradient by y; may be overwritten
  Write parameter_write = Write::kOverwrite;
  float* dweight = nullptr;
  float* dbias = nullptr;  // null if there is no bias
  // [rows, dx_width]: gradient by the first dx_width columns of x; null: not
  // needed.
  float* dx = nullptr;
  size_t dx_width = 0;
  Write dx_write = Write::kOverwrite;
};

// ImageOperations has the operations on images, InteractionOperations the
// interactions of features.
class MathBackend : public ImageOperations, public InteractionOperations {
 public:
  virtual const char* name() const = 0;

  // ---- Memory ----

  // Memory of the backend, 64-byte aligned, not initialised; null for 0 bytes.
  virtual void* Allocate(size_t num_bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual void CopyIn(const void* host, size_t num_bytes, void* to) = 0;
  // `host` holds the copy after Finish; nothing may overwrite `from` before.
  virtual void CopyOutLater(const void* from, size_t num_bytes, void* host) = 0;
  // Waits for the results of earlier calls that go to the host: copies and
  // losses.
  virtual void Finish() = 0;
  void CopyOut(const void* from, size_t num_bytes, void* host) {
    CopyOutLater(from, num_bytes, host);
    Finish();
  }
  // Whether operations read and write host memory directly, so that no copies
  // in or out are necessary.
  virtual bool uses_host_memory() const = 0;
  // The device with the memory, for callers with kernels of their own, such as
  // optimizers. Null where there is no device. Calls to the device and to the
  // backend run in one common order.
  virtual cuda::Device* compute_device() { return nullptr; }

  virtual void Fill(size_t size, float value, float* y) = 0;

  // ---- Products, bias, activation ----

  // c[i, j] = sum over l < k of a(i, l) * b(l, j), for i < m and j < n. The
  // rows of c are c_stride apart; columns beyond n are not changed.
  virtual void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                      Write write, float* c, size_t c_stride) = 0;

  // y = activation(y + bias), y [rows, cols], bias [cols].
  virtual void AddBias(size_t rows, size_t cols, const float* bias,
                       Activation activation, float* y) = 0;
  // `y` is the output of AddBias (not read for kNone), `dy` the gradient by it.
  // Changes dy to the gradient by the input, and writes the gradient by the
  // bias to `dbias` [cols].
  virtual void AddBiasBackward(size_t rows, size_t cols, const float* y,
                               Activation activation, float* dy, Write write,
                               float* dbias) = 0;

  // y = max(x, 0).
  virtual void Relu(size_t size, const float* x, float* y) = 0;
  // dx = dy where y > 0, else 0.
  virtual void ReluBackward(size_t size, const float* y, const float* dy,
                            Write write, float* dx) = 0;

  // y[i] = x[i] / (1 - rate) where RandomUniform(seed, i) of base/random.h is
  // at least `rate`, else 0. rate is in [0, 1). With dy as x, it computes the
  // gradient.
  virtual void Dropout(size_t size, float rate, uint64_t seed, const float* x,
                       Write write, float* y) = 0;

  // ---- Linear layers: the operations above, which a backend may fuse ----

  // Floats of scratch for a layer of this size on up to max_rows rows.
  virtual size_t LinearScratch(size_t max_rows, size_t inputs,
                               size_t outputs) const {
    return 0;
  }
  // y [rows, outputs] is overwritten.
  virtual void Linear(const LinearArgs& args, float* y);
  // REQUIRES: Linear was called before with the same arguments, and their
  // arrays have not changed.
  virtual void LinearBackward(const LinearArgs& args, const float* y,
                              const LinearGradients& gradients);

  // ---- Moving and summing ----

  // y[r, c] = x[r, c] for c < cols; rows x_stride and y_stride apart.
  virtual void CopyColumns(size_t rows, size_t cols, const float* x,
                           size_t x_stride, Write write, float* y,
                           size_t y_stride) = 0;
  // y[r] = sum of row r of x [rows, cols].
  virtual void SumColumns(size_t rows, size_t cols, const float* x,
                          float* y) = 0;
  // dx[r, c] = dy[r].
  virtual void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                                  Write write, float* dx) = 0;

  // ---- Embeddings ----

  // out[bag] = the sum or mean of the bag's rows, 0 for an empty bag.
  virtual void SumBags(const RowBags& bags, const float* rows, float* out) = 0;
  // Adds the gradient by each bag to the gradient of each of its rows, in the
  // order of the keys. For a mean, the gradient is divided by the number of the
  // bag's rows.
  virtual void SumBagsBackward(const RowBags& bags, const float* dout,
                               float* drows) = 0;

  // Copies the batch's rows from `missed` and `entries` to `rows` [num_rows,
  // row_dim]. Rows have row_dim floats in all three arrays.
  virtual void GatherRows(const CachedRows& cached, const float* missed,
                          float* entries, float* rows) = 0;

  // Second-order part of a factorization machine (Rendle, 2010, Lemma 3.1):
  // y[e] = 1/2 sum over c of ((sum_s v[e,s,c])^2 - sum_s v[e,s,c]^2).
  // Keeps sum_s v[e,s,c] in `sums` [num_examples, width].
  virtual void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                             float* y) = 0;
  // dv[e,s,c] = dy[e] * (sums[e,c] - v[e,s,c]).
  virtual void FmSecondOrderBackward(const FmShape& shape, const float* v,
                                     const float* sums, const float* dy,
                                     Write write, float* dv) = 0;

  // ---- Losses: natural log, summed over the rows and, by the next Finish,
  // added to `loss_sum`, which is the host's ----

  // labels [rows]: the number of the right class, below `classes` (crashes
  // otherwise: the reader of the data has already checked labels).
  // probabilities [rows, classes] = softmax of the logits. The loss is the sum
  // of log(sum_c exp(logit_c)) - logit_label, computed so that no exponential
  // overflows.
  virtual void SoftmaxCrossEntropy(size_t rows, size_t classes,
                                   const float* logits, const float* labels,
                                   float* probabilities, double* loss_sum) = 0;
  // dlogits = scale * (probabilities - one_hot(label)).
  virtual void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                           const float* probabilities,
                                           const float* labels, float scale,
                                           Write write, float* dlogits) = 0;
  // labels [size] in [0, 1]; probabilities = 1 / (1 + exp(-logit)). The loss is
  // the sum of max(x, 0) - x * label + log(1 + exp(-|x|)).
  virtual void SigmoidCrossEntropy(size_t size, const float* logits,
                                   const float* labels, float* probabilities,
                                   double* loss_sum) = 0;
  // dlogits = scale * (probabilities - labels).
  virtual void SigmoidCrossEntropyBackward(size_t size,
                                           const float* probabilities,
                                           const float* labels, float scale,
                                           Write write, float* dlogits) = 0;
};

// Memory of a backend, which the destructor frees. The backend outlives it.
class BackendArray {
 public:
  BackendArray() = default;
  BackendArray(MathBackend* math, size_t num_bytes)
      : math_(math), data_(math->Allocate(num_bytes)), num_bytes_(num_bytes) {}
  BackendArray(BackendArray&& other) noexcept { *this = std::move(other); }
  BackendArray& operator=(BackendArray&& other) noexcept {
    std::swap(math_, other.math_);
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  ~BackendArray() {
    if (data_ != nullptr) math_->Free(data_);
  }

  float* floats() const { return static_cast<float*>(data_); }
  void* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }
  // Makes room for at least num_bytes; growing loses the contents.
  void Reserve(MathBackend* math, size_t num_bytes) {
    if (num_bytes > num_bytes_) *this = BackendArray(math, num_bytes);
  }

 private:
  MathBackend* math_ = nullptr;
  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_MATH_BACKEND_H_
