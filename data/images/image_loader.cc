#include "data/images/image_loader.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::data {

absl::Status ReadBatch(const ImageDataset& images,
                       const ImageTransform& transform,
                       const SampledBatch& sampled, ImageBatch* batch) {
  const size_t image_size = transform.shape().size();
  batch->num_examples = sampled.samples.size();
  batch->num_counted = sampled.num_counted;
  batch->images.resize(batch->num_examples * image_size);
  batch->labels.resize(batch->num_examples);
  std::vector<uint8_t> scratch(image_size);
  for (size_t i = 0; i < batch->num_examples; ++i) {
    const Sample& sample = sampled.samples[i];
    OARLOCK_ASSIGN_OR_RETURN(
        const uint8_t* const pixels,
        images.Pixels(sample.example, transform.AreaSeed(sample),
                      scratch.data()));
    transform.Apply(sample, pixels, batch->images.data() + i * image_size);
    batch->labels[i] = static_cast<float>(images.label(sample.example));
  }
  return absl::OkStatus();
}

ImageLoader::ImageLoader(const ImageDataset* images,
                         const ImageTransform* transform, EpochBatches batches,
                         const ImageLoaderOptions& options)
    : images_(images),
      transform_(transform),
      batches_(std::move(batches)),
      first_(options.first_batch),
      next_(first_) {
  OARLOCK_CHECK(first_ <= batches_.size());
  OARLOCK_CHECK(options.num_workers >= 0 &&
                options.num_workers <= ImageLoaderOptions::kMaxWorkers);
  OARLOCK_CHECK(options.prefetch_batches >= 1);
  OARLOCK_CHECK(images->shape() == transform->shape());
  // One more for the batch that the consumer has.
  const size_t num_buffers = options.prefetch_batches + 1;
  for (int i = 0; i < options.num_workers; ++i) {
    workers_.push_back(std::make_unique<Worker>(num_buffers));
    for (size_t j = 0; j < num_buffers; ++j) {
      workers_.back()->free.Push(std::make_unique<Buffer>());
    }
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->thread = std::thread([this, i] { Run(i); });
  }
  if (workers_.empty()) current_ = std::make_unique<Buffer>();
}

ImageLoader::~ImageLoader() {
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->free.Close();
    worker->ready.Close();
  }
  for (const std::unique_ptr<Worker>& worker : workers_) worker->thread.join();
}

absl::StatusOr<const ImageBatch*> ImageLoader::Next() {
  OARLOCK_RETURN_IF_ERROR(status_);
  if (next_ == batches_.size()) return nullptr;
  if (workers_.empty()) {
    Read(next_, current_.get());
  } else {
    if (current_ != nullptr) WorkerOf(next_ - 1).free.Push(std::move(current_));
    std::optional<std::unique_ptr<Buffer>> buffer = WorkerOf(next_).ready.Pop();
    // A thread ends only after all of its batches, or after an error.
    OARLOCK_CHECK(buffer.has_value());
    current_ = *std::move(buffer);
  }
  ++next_;
  status_ = current_->status;
  OARLOCK_RETURN_IF_ERROR(status_);
  return &current_->batch;
}

void ImageLoader::Run(size_t worker) {
  Worker& own = *workers_[worker];
  const uint64_t step = workers_.size();
  const uint64_t own_first = first_ + (worker + step - first_ % step) % step;
  for (uint64_t i = own_first; i < batches_.size(); i += step) {
    std::optional<std::unique_ptr<Buffer>> buffer = own.free.Pop();
    // Pop still returns the elements of a closed queue; Push reports that the
    // queue is closed.
    if (!buffer.has_value()) return;
    Read(i, buffer->get());
    const bool failed = !(*buffer)->status.ok();
    if (!own.ready.Push(*std::move(buffer)) || failed) return;
  }
}

void ImageLoader::Read(uint64_t index, Buffer* buffer) const {
  buffer->status =
      ReadBatch(*images_, *transform_, batches_.Batch(index), &buffer->batch);
}

}  // namespace oarlock::data
