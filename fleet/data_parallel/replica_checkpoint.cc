#include "fleet/data_parallel/replica_checkpoint.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "proto/state/replica_checkpoint.pb.h"
#include "storage/file_system.h"

namespace oarlock {
namespace {

constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;

std::string PathIn(const std::string& folder) {
  return absl::StrCat(folder, "/replica.ckpt");
}

std::string DescribeNetwork(const nn::Network& network) {
  std::string text;
  for (const auto* parts : {&network.parameters(), &network.statistics()}) {
    for (const nn::ParameterSpec& part : *parts) {
      absl::StrAppend(&text, part.name, "[", absl::StrJoin(part.shape, ","),
                      "];");
    }
  }
  return text;
}

std::string BytesOf(absl::Span<const float> floats) {
  return std::string(reinterpret_cast<const char*>(floats.data()),
                     floats.size() * sizeof(float));
}

std::string WithDigest(std::string bytes) {
  const uint64_t digest = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  return bytes;
}

absl::StatusOr<v1::ReplicaCheckpoint> Parse(const std::string& path,
                                            absl::string_view file) {
  const auto damaged = [&path](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(path, " ", what,
                     "; bring it back from a copy, or begin anew with "
                     "another --checkpoint_dir"));
  };
  uint64_t digest = 0;
  if (file.size() < sizeof digest) return damaged("ends too early");
  const absl::string_view bytes = file.substr(0, file.size() - sizeof digest);
  std::memcpy(&digest, file.data() + bytes.size(), sizeof digest);
  if (digest != XXH3_64bits(bytes.data(), bytes.size())) {
    return damaged("has another checksum than it says");
  }
  v1::ReplicaCheckpoint checkpoint;
  if (!checkpoint.ParseFromArray(bytes.data(),
                                 static_cast<int>(bytes.size()))) {
    return damaged("is no checkpoint of a replica");
  }
  if (checkpoint.format_version() != kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has version ", checkpoint.format_version(),
                     " of the format; this program reads version ",
                     kFormatVersion, "; use the program that wrote it"));
  }
  return checkpoint;
}

// As many as the network's description says.
absl::StatusOr<std::vector<float>> FloatsOf(const std::string& path,
                                            const std::string& bytes,
                                            size_t num_floats) {
  if (bytes.size() != num_floats * sizeof(float)) {
    return absl::DataLossError(absl::StrCat(path, " has ", bytes.size(),
                                            " bytes where ",
                                            num_floats * sizeof(float),
                                            " are wanted; bring it back from a "
                                            "copy"));
  }
  std::vector<float> floats(num_floats);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(floats.data()));
  return floats;
}

absl::Status WriteReplica(const std::string& folder, uint32_t epochs,
                          DistributedModel& model,
                          const DistributedOptimizer& optimizer) {
  v1::ReplicaCheckpoint checkpoint;
  checkpoint.set_format_version(kFormatVersion);
  checkpoint.set_epochs(epochs);
  checkpoint.set_network(DescribeNetwork(model.network()));
  checkpoint.set_parameters(BytesOf(model.parameters()));
  checkpoint.set_statistics(BytesOf(model.statistics()));
  checkpoint.set_optimizer(optimizer.SaveState());
  std::string bytes;
  if (!checkpoint.SerializeToString(&bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a checkpoint of ", checkpoint.ByteSizeLong(),
        " bytes; legal is less than 2 GiB; leave --checkpoint_dir out"));
  }
  storage::FileSystem* const files = storage::FileSystem::Real();
  OARLOCK_RETURN_IF_ERROR(files->MakeFolders(folder));
  return storage::ReplaceFile(files, PathIn(folder),
                              WithDigest(std::move(bytes)));
}

absl::StatusOr<uint32_t> GoOnWithServers(const WorkerGroup& group,
                                         DistributedModel& model) {
  if (model.network().num_statistics() > 0) {
    return absl::UnimplementedError(
        "--checkpoint_dir with parameter servers: their checkpoints lack the "
        "running statistics of batch norm, which each worker has; legal is a "
        "network without batch norm, or a collective job");
  }
  if (!group.makes_checkpoints()) {
    return absl::FailedPreconditionError(
        "the servers of this job make no checkpoints; start them with "
        "--checkpoint_dir, a folder that all of them see");
  }
  if (group.rank() == 0 && group.trained_epochs() > 0) {
    Log().info("goes on from the servers' checkpoint after {} epochs",
               group.trained_epochs());
  }
  return group.trained_epochs();
}

}  // namespace

absl::Status SaveReplica(const std::string& folder, uint32_t epochs,
                         WorkerGroup& group, DistributedModel& model,
                         const DistributedOptimizer& optimizer) {
  if (!group.can_broadcast()) return group.Checkpoint();
  absl::Status status;
  if (group.rank() == 0) {
    status = WriteReplica(folder, epochs, model, optimizer);
  }
  // The others hear whether it is there.
  std::string outcome;
  if (!status.ok()) outcome = status.ToString();
  OARLOCK_RETURN_IF_ERROR(group.Broadcast(&outcome));
  if (outcome.empty()) return absl::OkStatus();
  return status.ok() ? absl::AbortedError(absl::StrCat("rank 0: ", outcome))
                     : status;
}

absl::StatusOr<uint32_t> RestoreReplica(const std::string& folder,
                                        WorkerGroup& group,
                                        DistributedModel& model,
                                        DistributedOptimizer& optimizer) {
  if (!group.can_broadcast()) return GoOnWithServers(group, model);
  const std::string path = PathIn(folder);
  // Empty: there is none. What rank 0 cannot read becomes the others' error
  // when they read it.
  std::string file;
  absl::Status status;
  if (group.rank() == 0) {
    storage::FileSystem* const files = storage::FileSystem::Real();
    const absl::StatusOr<bool> exists = files->Exists(path);
    status = exists.status();
    if (!exists.ok()) {
      file.assign(1, '?');
    } else if (*exists) {
      absl::StatusOr<std::string> read = files->ReadFile(path, kMaxFileBytes);
      status = read.status();
      file = read.ok() ? *std::move(read) : "?";
    }
  }
  OARLOCK_RETURN_IF_ERROR(group.Broadcast(&file));
  OARLOCK_RETURN_IF_ERROR(status);
  if (file.empty()) return 0;
  OARLOCK_ASSIGN_OR_RETURN(const v1::ReplicaCheckpoint checkpoint,
                           Parse(path, file));
  if (checkpoint.network() != DescribeNetwork(model.network())) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is of another network; give another --checkpoint_dir"));
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<float> parameters,
                           FloatsOf(path, checkpoint.parameters(),
                                    model.network().num_parameters()));
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<float> statistics,
                           FloatsOf(path, checkpoint.statistics(),
                                    model.network().num_statistics()));
  OARLOCK_RETURN_IF_ERROR(optimizer.RestoreState(checkpoint.optimizer()));
  model.SetParameters(parameters);
  model.SetStatistics(statistics);
  if (group.rank() == 0) {
    Log().info("goes on from {} after {} epochs", path, checkpoint.epochs());
  }
  return checkpoint.epochs();
}

}  // namespace oarlock
