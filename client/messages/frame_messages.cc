#include "client/messages/frame_messages.h"

#include <grpc/slice.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "wire/value_format.h"

namespace oarlock::client {
namespace {

// `values` in the format in which they travel: floats where they are, 16-bit
// values in memory of the slice's own.
grpc::Slice ValuesSlice(v1::ValueFormat format, absl::Span<const float> values,
                        const std::shared_ptr<const void>& owner) {
  if (values.empty()) return grpc::Slice();
  if (format == v1::FLOAT32) {
    return Share(values.data(), values.size() * sizeof(float), owner);
  }
  // Never inlined in the slice object, which would put it at an odd address.
  grpc_slice narrow = grpc_slice_malloc_large(values.size() * sizeof(uint16_t));
  auto* const to = reinterpret_cast<uint16_t*>(GRPC_SLICE_START_PTR(narrow));
  wire::NarrowValues(format, values, absl::MakeSpan(to, values.size()));
  return grpc::Slice(narrow, grpc::Slice::STEAL_REF);
}

absl::Span<const uint64_t> VersionsOf(const BlockRun& run,
                                      absl::Span<const uint64_t> versions) {
  return versions.subspan(run.block_begin, run.block_end - run.block_begin);
}

}  // namespace

grpc::Slice Share(const void* data, size_t size,
                  const std::shared_ptr<const void>& owner) {
  if (size == 0) return grpc::Slice();
  return grpc::Slice(
      const_cast<void*>(data), size,
      [](void* user_data) {
        delete static_cast<std::shared_ptr<const void>*>(user_data);
      },
      new std::shared_ptr<const void>(owner));
}

grpc::ByteBuffer FrameSparsePush(const v1::RequestHeader& header,
                                 const SparseGradients& sparse, size_t dim,
                                 const GroupRun& run,
                                 const ValueFormats& formats,
                                 const std::shared_ptr<const void>& owner) {
  const auto statistics = [&](const float* values) {
    if (values == nullptr) return grpc::Slice();
    return Share(values + run.key_begin, run.num_keys * sizeof(float), owner);
  };
  return wire::EncodePushSparseRequest(
      header, sparse.table,
      absl::MakeConstSpan(sparse.keys->groups())
          .subspan(run.group_begin, run.group_end - run.group_begin),
      Share(sparse.keys->keys().data() + run.key_begin,
            run.num_keys * sizeof(Key), owner),
      ValuesSlice(formats.push,
                  absl::MakeConstSpan(sparse.gradients + run.key_begin * dim,
                                      run.num_keys * dim),
                  owner),
      statistics(sparse.shows), statistics(sparse.clicks), /*counts=*/{},
      formats.push);
}

grpc::ByteBuffer FrameDensePush(const v1::RequestHeader& header,
                                const DenseGradients& dense,
                                const v1::DenseTableConfig& config,
                                const BlockRun& run,
                                const ValueFormats& formats,
                                const std::shared_ptr<const void>& owner) {
  const size_t begin = BlockOffset(config, run.block_begin);
  const size_t end = BlockOffset(config, run.block_end);
  const grpc::Slice values =
      begin == end ? grpc::Slice()
                   : ValuesSlice(formats.push,
                                 absl::MakeConstSpan(dense.gradients + begin,
                                                     end - begin),
                                 owner);
  const bool says_versions =
      config.staleness_power() > 0 && !dense.known_versions.empty();
  return wire::EncodePushDenseRequest(
      header, dense.table, run.blocks(), absl::MakeConstSpan(&values, 1),
      dense.num_steps, /*with_values=*/dense.updated != nullptr,
      says_versions ? VersionsOf(run, dense.known_versions)
                    : absl::Span<const uint64_t>(),
      formats.push, formats.pull);
}

grpc::ByteBuffer FrameDensePull(const v1::RequestHeader& header, TableId table,
                                const BlockRun& run,
                                const DenseReplica& replica,
                                const ValueFormats& formats) {
  return wire::EncodePullDenseRequest(header, table, run.blocks(),
                                      VersionsOf(run, replica.block_versions),
                                      formats.pull);
}

void Resize(const v1::DenseTableConfig& dense, DenseReplica* replica) {
  replica->values.resize(dense.size());
  replica->block_versions.resize(NumBlocks(dense));
}

absl::Status CopyBlocks(const v1::DenseTableConfig& dense, const BlockRun& run,
                        const wire::DenseResponseView& view,
                        DenseReplica* replica) {
  size_t from = 0;
  for (size_t i = 0; i < view.blocks.size(); ++i) {
    const uint32_t block = view.blocks[i].value();
    if (block < run.block_begin || block >= run.block_end) {
      return absl::InternalError(
          absl::StrCat("a call for blocks ", run.block_begin, " to ",
                       run.block_end - 1, " was answered with block ", block));
    }
    const size_t begin = BlockOffset(dense, block);
    const size_t size = BlockOffset(dense, block + 1) - begin;
    if (size > view.values.size() - from) {
      return absl::InternalError(
          "a call for dense blocks was answered with too few floats");
    }
    view.values.CopyTo(from, size, replica->values.data() + begin);
    replica->block_versions[block] = view.versions[i];
    from += size;
  }
  return absl::OkStatus();
}

}  // namespace oarlock::client
