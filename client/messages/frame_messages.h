// Frames the messages of the parameter client around the caller's arrays, and
// copies the blocks of responses into replicas.

#ifndef OARLOCK_CLIENT_FRAME_MESSAGES_H_
#define OARLOCK_CLIENT_FRAME_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "client/messages/split_messages.h"
#include "client/parameter_client.h"
#include "proto/v1/parameter.pb.h"
#include "proto/v1/table.pb.h"
#include "wire/wire_codec.h"

namespace oarlock::client {

// How values travel, both of sparse rows and of dense blocks. Callers and
// tables have floats in any case.
struct ValueFormats {
  // Of pulled values, and of those that a push returns.
  v1::ValueFormat pull = v1::FLOAT32;
  // Of pushed gradients.
  v1::ValueFormat push = v1::FLOAT32;
};

// A slice of memory that `owner` keeps alive, as long as gRPC refers to it.
grpc::Slice Share(const void* data, size_t size,
                  const std::shared_ptr<const void>& owner);

// Gradients of a run. Floats stay where they are, in memory of `owner`.
grpc::ByteBuffer FrameSparsePush(const v1::RequestHeader& header,
                                 const SparseGradients& sparse, size_t dim,
                                 const GroupRun& run,
                                 const ValueFormats& formats,
                                 const std::shared_ptr<const void>& owner);
grpc::ByteBuffer FrameDensePush(const v1::RequestHeader& header,
                                const DenseGradients& dense,
                                const v1::DenseTableConfig& config,
                                const BlockRun& run,
                                const ValueFormats& formats,
                                const std::shared_ptr<const void>& owner);

// Requests those blocks of the run that changed since `replica` got them from
// this incarnation of the server. If it got them from another incarnation, all
// of them are sent.
grpc::ByteBuffer FrameDensePull(const v1::RequestHeader& header, TableId table,
                                const BlockRun& run,
                                const DenseReplica& replica,
                                const ValueFormats& formats);

// Gives the replica the table's size.
void Resize(const v1::DenseTableConfig& dense, DenseReplica* replica);

// Copies the blocks of a response. Internal when a block is not in the run, or
// when floats are missing.
absl::Status CopyBlocks(const v1::DenseTableConfig& dense, const BlockRun& run,
                        const wire::DenseResponseView& view,
                        DenseReplica* replica);

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_FRAME_MESSAGES_H_
