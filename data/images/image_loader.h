// Batches of images, read ahead by threads.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_LOADER_H_
#define OARLOCK_DATA_IMAGES_IMAGE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "data/images/image_dataset.h"
#include "data/images/image_transform.h"
#include "data/order/distributed_batch_sampler.h"

namespace oarlock::data {

// Reused from batch to batch.
struct ImageBatch {
  size_t num_examples = 0;
  // As SampledBatch::num_counted: the examples after the first `num_counted`
  // are padding.
  size_t num_counted = 0;
  // [num_examples, height, width, channels], as StepInput::images takes them.
  std::vector<uint8_t> images;
  std::vector<float> labels;  // [num_examples]: the class's number
};

// Reads the samples of `sampled` one by one.
absl::Status ReadBatch(const ImageDataset& images,
                       const ImageTransform& transform,
                       const SampledBatch& sampled, ImageBatch* batch);

struct ImageLoaderOptions {
  static constexpr int kMaxWorkers = 256;

  // Number of threads that read ahead, 0 to kMaxWorkers; 0: Next itself reads.
  int num_workers = 2;
  // Number of batches that a thread may be ahead, at least 1.
  size_t prefetch_batches = 2;
  // Batches before this number are skipped; at most the number of batches.
  uint64_t first_batch = 0;
};

// One epoch of a rank. The order of the batches does not depend on the number
// of threads. Thread b modulo num_workers reads batch b into one of its own
// buffers; a buffer circulates between its thread and the consumer. Memory:
// num_workers * (prefetch_batches + 1) batches.
//
// Only one thread calls Next. The images and the transform outlive the loader.
class ImageLoader {
 public:
  // Options outside their range crash.
  ImageLoader(const ImageDataset* images, const ImageTransform* transform,
              EpochBatches batches, const ImageLoaderOptions& options);
  // Ends the threads; what they have read ahead is dropped.
  ~ImageLoader();
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  // The next batch, valid until the next call; null at the end. A batch that
  // could not be read gives its error, and so does every later call.
  absl::StatusOr<const ImageBatch*> Next();

 private:
  struct Buffer {
    ImageBatch batch;
    absl::Status status;
  };
  struct Worker {
    explicit Worker(size_t num_buffers)
        : free(num_buffers), ready(num_buffers) {}
    BoundedQueue<std::unique_ptr<Buffer>> free;
    BoundedQueue<std::unique_ptr<Buffer>> ready;
    std::thread thread;
  };

  void Run(size_t worker);
  void Read(uint64_t index, Buffer* buffer) const;
  Worker& WorkerOf(uint64_t index) {
    return *workers_[index % workers_.size()];
  }

  const ImageDataset* const images_;
  const ImageTransform* const transform_;
  const EpochBatches batches_;
  // Empty without threads.
  std::vector<std::unique_ptr<Worker>> workers_;
  const uint64_t first_;
  // The consumer's.
  uint64_t next_;
  std::unique_ptr<Buffer> current_;
  absl::Status status_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_LOADER_H_
