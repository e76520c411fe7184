// A process that reads rows of columnar files and hands them over in shared
// memory (python/oarlock/_reader.py, docs/design/0032-daily-job.md).

#ifndef OARLOCK_DATA_ROWS_READER_PROCESS_H_
#define OARLOCK_DATA_ROWS_READER_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "data/features/feature_block.h"
#include "data/features/feature_list.h"
#include "data/reader/byte_source.h"
#include "data/reader/guarded_process.h"
#include "proto/v1/reader.pb.h"

namespace oarlock::data {

struct ReaderOptions {
  // The interpreter, and what it runs: "python3", "-m", "oarlock._reader".
  std::vector<std::string> command = {"python3", "-m", "oarlock._reader"};
  uint32_t block_rows = 16384;
  // Blocks that are ready, or being read, at a time.
  uint32_t num_memories = 3;
  v1::BeginReading::Format format = v1::BeginReading::PARQUET;
  // "module:function", which makes of each record batch another one of as many
  // rows. Empty: none.
  std::string prepare;
  // Of a row group that is decoded as a whole.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // A process that is silent for so long is taken for dead.
  absl::Duration read_timeout = absl::Seconds(60);
  // Asked every tenth of a second while the process is silent; an error ends
  // the wait. Null: nobody is asked.
  std::function<absl::Status(absl::Duration silent)> while_silent = nullptr;
};

// Not thread-safe. After Unavailable the process is gone: it ended, was killed,
// or was silent for too long; another one may do what it was asked.
class ReaderProcess {
 public:
  // Starts it; it ends with this object and with this process. NotFound: the
  // program is not there. Errors of the process itself: FailedPrecondition
  // (pyarrow is not there, and what to install), InvalidArgument.
  static absl::StatusOr<std::unique_ptr<ReaderProcess>> Start(
      const FeatureList& features, const ReaderOptions& options);
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  pid_t pid() const { return pid_; }

  struct Listing {
    std::vector<v1::ListedFile> files;
    v1::FeatureList features;
  };
  // NotFound names a pattern that nothing matches; InvalidArgument a file whose
  // columns are not those of the features.
  absl::StatusOr<Listing> List(const std::vector<std::string>& patterns);

  // Begins to read rows of a file. REQUIRES: nothing is being read.
  absl::Status Read(const v1::ReadRows& rows);
  // The next block; nothing after the last one. It stays until Free.
  struct Block {
    FeatureBlockView view;
    uint32_t memory = 0;
    // The file's row that is its first one.
    uint64_t begin = 0;
    uint64_t decoded_rows = 0;
  };
  absl::StatusOr<std::optional<Block>> Next();
  absl::Status Free(const Block& block);
  // The rest is not needed. Blocks that are on their way come, then nothing.
  absl::Status Stop();

 private:
  // One that both processes map.
  struct Memory {
    FileDescriptor file;
    char* data = nullptr;
    size_t mapped = 0;
  };

  ReaderProcess(const FeatureList& features, const ReaderOptions& options);
  absl::Status Spawn();
  absl::Status Send(const v1::ReaderRequest& request);
  // The next response that is no failure; that is an error.
  absl::StatusOr<v1::ReaderResponse> Receive();
  // Waits until there is something to receive.
  absl::Status AwaitBytes();
  // Why there are no more responses.
  absl::Status Ended();
  absl::StatusOr<absl::Span<const char>> Map(uint32_t memory, uint64_t bytes);

  const FeatureList features_;
  const ReaderOptions options_;
  std::unique_ptr<GuardedGroup> group_;
  pid_t pid_ = -1;
  FileDescriptor socket_;
  std::vector<Memory> memories_;
  // Bytes that were received, from the next response on.
  std::string received_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_READER_PROCESS_H_
