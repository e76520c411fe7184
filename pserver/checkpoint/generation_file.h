// The generations of a server, which are never used twice.
//
// A generation is the time at which a server's process began, in milliseconds.
// Where the clock was set back since the process before, or this host's is
// behind, it is beyond that process's by kGenerationStep. So versions of dense
// blocks, which begin with the generation (base/dense_version.h), are new, too:
// a process would have to update a block 2^42 times to reach the next one's.

#ifndef OARLOCK_PSERVER_CHECKPOINT_GENERATION_FILE_H_
#define OARLOCK_PSERVER_CHECKPOINT_GENERATION_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "storage/file_system.h"

namespace oarlock::pserver {

// A file in the job's folder of checkpoints.
class GenerationFile {
 public:
  static constexpr uint64_t kGenerationStep = uint64_t{1} << 20;

  // `files` outlives this.
  GenerationFile(storage::FileSystem* files, const std::string& checkpoint_dir,
                 ServerIndex server);

  // The generation of a process that begins `now`. DataLoss for a file that is
  // damaged; errors of the disk.
  absl::StatusOr<Generation> Next(absl::Time now) const;
  // Keeps it for the processes to come, durably.
  absl::Status Keep(Generation generation) const;

 private:
  storage::FileSystem* const files_;
  const std::string folder_;
  const std::string path_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_GENERATION_FILE_H_
