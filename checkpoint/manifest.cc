#include "checkpoint/manifest.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::checkpoint {
namespace {

// Limits of a job, and of what a manifest may make a reader do.
constexpr int kMaxServers = 65536;
constexpr int kMaxTables = 65536;
constexpr uint32_t kMaxPartitions = 65536;
constexpr int kMaxFilesOfServer = 1 << 20;
// Partitions and blocks of all tables.
constexpr uint64_t kMaxUnits = uint64_t{1} << 26;
// Messages within messages.
constexpr int kMaxDepth = 16;
// No server has it.
constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

absl::Status Damaged(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(path, " ", what, "; use another checkpoint"));
}

// Keeps the first error.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text_.empty()) {
      text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                           message);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// What contradicts itself; empty: nothing does.
std::string ProblemOf(const v1::FileSum& file) {
  const std::string& name = file.name();
  if (name.empty() || name == "." || name == ".." ||
      name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return absl::StrCat("names a file \"", name,
                        "\"; it must be a name without a folder");
  }
  return "";
}

std::string ProblemOf(const v1::ServerPart& part, int index,
                      const std::set<uint32_t>& tables) {
  if (part.server_index() != static_cast<uint32_t>(index) ||
      part.directory() != ServerFolderName(part.server_index())) {
    return absl::StrCat("names server ", part.server_index(), " in \"",
                        part.directory(), "\" at place ", index, "; expected ",
                        ServerFolderName(index));
  }
  if (part.files_size() > kMaxFilesOfServer) {
    return absl::StrCat("names ", part.files_size(), " files of server ", index,
                        "; legal is up to ", kMaxFilesOfServer);
  }
  std::set<absl::string_view> names;
  for (const v1::FileSum& file : part.files()) {
    if (std::string problem = ProblemOf(file); !problem.empty()) return problem;
    if (!names.insert(file.name()).second) {
      return absl::StrCat("names the file ", file.name(), " of server ", index,
                          " twice");
    }
  }
  std::set<uint32_t> seen;
  for (const v1::TablePart& table : part.tables()) {
    if (!tables.contains(table.table()) || !seen.insert(table.table()).second) {
      return absl::StrCat("has a part of table ", table.table(), " on server ",
                          index, " that is unknown or there twice");
    }
  }
  return "";
}

std::string ProblemOf(const v1::TableConfig& table) {
  switch (table.kind_case()) {
    case v1::TableConfig::kSparse:
      return "";
    case v1::TableConfig::kDense: {
      const uint64_t size = table.dense().size();
      const uint64_t block = table.dense().block_size();
      if (block > 0 && size / block < kMaxUnits) return "";
      return absl::StrCat("has a table ", table.id(), " of ", size,
                          " floats in blocks of ", block);
    }
    case v1::TableConfig::KIND_NOT_SET:
      break;
  }
  return absl::StrCat("has a table ", table.id(),
                      " that is neither sparse nor dense");
}

std::string ProblemOf(const v1::CheckpointManifest& manifest) {
  if (manifest.cut() == 0) return "has no cut number; it must be at least 1";
  if (!std::has_single_bit(manifest.num_partitions()) ||
      manifest.num_partitions() > kMaxPartitions) {
    return absl::StrCat("has ", manifest.num_partitions(),
                        " partitions; legal is a power of two up to ",
                        kMaxPartitions);
  }
  if (manifest.servers_size() < 1 || manifest.servers_size() > kMaxServers) {
    return absl::StrCat("has ", manifest.servers_size(),
                        " servers; legal is 1 to ", kMaxServers);
  }
  if (manifest.tables_size() > kMaxTables) {
    return absl::StrCat("has ", manifest.tables_size(),
                        " tables; legal is up to ", kMaxTables);
  }
  std::set<uint32_t> tables;
  uint64_t num_units = 0;
  for (const v1::TableConfig& table : manifest.tables()) {
    if (table.id() == 0 ||
        (!tables.empty() && table.id() <= *tables.rbegin())) {
      return absl::StrCat("has a table ", table.id(),
                          " out of order; ids ascend from 1");
    }
    tables.insert(table.id());
    if (std::string problem = ProblemOf(table); !problem.empty()) {
      return problem;
    }
    num_units += NumUnits(table, manifest.num_partitions());
    if (num_units > kMaxUnits) {
      return absl::StrCat("has tables of more than ", kMaxUnits,
                          " partitions and blocks");
    }
  }
  for (int i = 0; i < manifest.servers_size(); ++i) {
    std::string problem = ProblemOf(manifest.servers(i), i, tables);
    if (!problem.empty()) return problem;
  }
  return "";
}

// Place of a table in the manifest.
std::optional<size_t> PlaceOf(const v1::CheckpointManifest& manifest,
                              TableId id) {
  const auto& tables = manifest.tables();
  const auto found = std::lower_bound(
      tables.begin(), tables.end(), id.value(),
      [](const v1::TableConfig& table, uint32_t x) { return table.id() < x; });
  if (found == tables.end() || found->id() != id.value()) return std::nullopt;
  return found - tables.begin();
}

// Enters the units that a server has.
absl::Status FindUnits(uint32_t server, OpenCheckpoint& open) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  const std::string folder =
      absl::StrCat(open.loaded.folder, "/", ServerFolderName(server));
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<storage::RecordName> states,
                           open.servers[server]->StatesOf(manifest.cut()));
  for (const storage::RecordName& state : states) {
    const std::optional<size_t> place = PlaceOf(manifest, state.table);
    if (!place.has_value() || state.unit >= open.server_of[*place].size()) {
      return Damaged(folder,
                     absl::StrCat("has a record ", storage::ToString(state),
                                  " of a table or unit that the "
                                  "manifest does not have"));
    }
    uint32_t& owner = open.server_of[*place][state.unit];
    if (owner != kNobody) {
      return Damaged(
          folder, absl::StrCat("has a record ", storage::ToString(state),
                               " that ", ServerFolderName(owner), " has, too"));
    }
    owner = server;
  }
  return absl::OkStatus();
}

}  // namespace

std::string ServerFolderName(uint32_t server_index) {
  return absl::StrFormat("server-%03d", server_index);
}

std::string FormatManifest(const v1::CheckpointManifest& manifest) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(manifest, &text);
  return text;
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view path,
                                                     const std::string& text) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  v1::CheckpointManifest manifest;
  if (!parser.ParseFromString(text, &manifest)) {
    return Damaged(path, absl::StrCat("is no manifest (", error.text(), ")"));
  }
  if (manifest.format_version() != kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " has version ", manifest.format_version(),
        " of the format; this program reads version ", kCheckpointFormatVersion,
        "; use the program that wrote it"));
  }
  if (const std::string problem = ProblemOf(manifest); !problem.empty()) {
    return Damaged(path, problem);
  }
  return manifest;
}

std::vector<storage::StoredFile> StoredFilesOf(const v1::ServerPart& part) {
  std::vector<storage::StoredFile> files;
  for (const v1::FileSum& file : part.files()) {
    files.push_back(
        {.name = file.name(), .bytes = file.bytes(), .xxh3 = file.xxh3()});
  }
  return files;
}

void SetFiles(const std::vector<storage::StoredFile>& files,
              v1::ServerPart* part) {
  part->clear_files();
  for (const storage::StoredFile& file : files) {
    v1::FileSum* const sum = part->add_files();
    sum->set_name(file.name);
    sum->set_bytes(file.bytes);
    sum->set_xxh3(file.xxh3);
  }
}

uint32_t NumUnits(const v1::TableConfig& table, uint32_t num_partitions) {
  if (table.has_sparse()) return num_partitions;
  const uint64_t block = table.dense().block_size();
  return static_cast<uint32_t>((table.dense().size() + block - 1) / block);
}

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(storage::FileSystem* files,
                                                const std::string& path) {
  absl::StatusOr<std::string> text = storage::ReadManifest(files, path);
  LoadedCheckpoint loaded{.folder = path, .manifest = {}};
  if (absl::IsNotFound(text.status())) {
    OARLOCK_ASSIGN_OR_RETURN(const storage::CheckpointDir dir,
                             storage::CheckpointDir::Open(files, path));
    OARLOCK_ASSIGN_OR_RETURN(storage::CheckpointDir::Current current,
                             dir.ReadCurrent());
    loaded.folder = dir.FolderOf(current.cut);
    text = std::move(current.manifest);
  }
  OARLOCK_RETURN_IF_ERROR(text.status());
  OARLOCK_ASSIGN_OR_RETURN(
      loaded.manifest,
      ParseManifest(absl::StrCat(loaded.folder, "/MANIFEST"), *text));
  return loaded;
}

absl::StatusOr<OpenCheckpoint> VerifyAndOpen(storage::FileSystem* files,
                                             LoadedCheckpoint loaded,
                                             int num_threads) {
  OpenCheckpoint open{
      .loaded = std::move(loaded), .servers = {}, .server_of = {}};
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  for (const v1::TableConfig& table : manifest.tables()) {
    open.server_of.emplace_back(NumUnits(table, manifest.num_partitions()),
                                kNobody);
  }
  for (const v1::ServerPart& part : manifest.servers()) {
    OARLOCK_ASSIGN_OR_RETURN(
        std::unique_ptr<storage::CheckpointReader> reader,
        storage::CheckpointReader::Open(
            {.files = files,
             .folder = absl::StrCat(open.loaded.folder, "/", part.directory()),
             .stored = StoredFilesOf(part),
             .verify_threads = num_threads}));
    open.servers.push_back(std::move(reader));
    OARLOCK_RETURN_IF_ERROR(FindUnits(part.server_index(), open));
  }
  for (int i = 0; i < manifest.tables_size(); ++i) {
    const auto& owners = open.server_of[i];
    const auto missing = std::find(owners.begin(), owners.end(), kNobody);
    if (missing == owners.end()) continue;
    return Damaged(
        open.loaded.folder,
        absl::StrCat("has no state of table ", manifest.tables(i).id(),
                     " unit ", missing - owners.begin(), " on any server"));
  }
  return open;
}

}  // namespace oarlock::checkpoint
