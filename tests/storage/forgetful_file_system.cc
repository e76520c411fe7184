#include "tests/storage/forgetful_file_system.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// A file or folder, whatever its names are.
struct Node {
  bool is_folder = false;
  // Of a file: its name among the kept ones, and the bytes that are synced.
  uint64_t id = 0;
  uint64_t synced_bytes = 0;
  // Of a folder: names as programs see them, and those that are synced.
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  Names live;
  Names synced;
};
using NodePtr = std::shared_ptr<Node>;

// A change of one name; no node: it is gone.
struct Change {
  NodePtr folder;
  std::string name;
  NodePtr node;
};
// What a rename does is one.
using Operation = std::vector<Change>;

IOStatus Dead() { return IOStatus::IOError("the test ended the process"); }

void Apply(const Change& change, Node::Names Node::*names) {
  if (change.node == nullptr) {
    ((*change.folder).*names).erase(change.name);
  } else {
    ((*change.folder).*names)[change.name] = change.node;
  }
}

// The state behind the file system and its open files. Guarded by its mutex.
class Ledger {
 public:
  explicit Ledger(const std::string& root)
      : root_(fs::absolute(root).lexically_normal()),
        kept_(root_.string() + ".kept") {
    fs::create_directories(root_);
    fs::remove_all(kept_);
    fs::create_directories(kept_);
    top_->is_folder = true;
  }
  ~Ledger() { fs::remove_all(kept_); }

  std::mutex& mutex() { return mutex_; }

  // Whether one more change is allowed.
  bool Step() {
    if (steps_left_ == 0) return false;
    --steps_left_;
    ++num_steps_;
    return true;
  }
  void set_steps_left(uint64_t steps) { steps_left_ = steps; }
  uint64_t num_steps() const { return num_steps_; }
  void set_room_bytes(uint64_t bytes) { room_bytes_ = bytes; }
  // How many of `bytes` find room.
  uint64_t TakeRoom(uint64_t bytes) {
    const uint64_t taken = std::min(bytes, room_bytes_);
    room_bytes_ -= taken;
    return taken;
  }

  // What lies at a path that programs see; null when nothing does.
  NodePtr Find(const fs::path& path);
  void Link(const fs::path& path, NodePtr node) {
    Do({ChangeOf(path, std::move(node))});
  }
  void Unlink(const fs::path& path) { Do({ChangeOf(path, nullptr)}); }
  void Rename(const fs::path& from, const fs::path& to) {
    NodePtr node = Find(from);
    // The target is looked up by its folder: it may be there or not.
    Do({ChangeOf(from, nullptr), ChangeOf(to, std::move(node))});
  }
  // A node for a file that has just been made.
  NodePtr NewFile(const fs::path& path);
  void SyncFolder(const fs::path& path);
  void Crash(ForgetfulFileSystem::Keep keep, uint64_t seed);

  uint64_t BytesOf(const Node& node) const {
    return fs::file_size(KeptPath(node));
  }

 private:
  fs::path KeptPath(const Node& node) const {
    return kept_ / std::to_string(node.id);
  }
  Change ChangeOf(const fs::path& path, NodePtr node) {
    NodePtr folder = Find(path.parent_path());
    OARLOCK_CHECK(folder != nullptr && folder->is_folder);
    return {std::move(folder), path.filename(), std::move(node)};
  }
  void Do(Operation operation) {
    for (const Change& change : operation) Apply(change, &Node::live);
    pending_.push_back(std::move(operation));
  }
  NodePtr Adopt(const fs::path& path);
  void RemoveLive(const Node& folder, const fs::path& path);
  void Restore(Node& folder, const fs::path& path,
               ForgetfulFileSystem::Keep keep, RandomSequence& random);

  const fs::path root_;
  // A second name for every file, so that its bytes outlast its names.
  const fs::path kept_;
  std::mutex mutex_;
  const NodePtr top_ = std::make_shared<Node>();
  std::vector<Operation> pending_;
  uint64_t next_id_ = 1;
  uint64_t num_steps_ = 0;
  uint64_t steps_left_ = std::numeric_limits<uint64_t>::max();
  uint64_t room_bytes_ = std::numeric_limits<uint64_t>::max();
};

// What was made behind our back counts as synced.
NodePtr Ledger::Adopt(const fs::path& path) {
  auto node = std::make_shared<Node>();
  node->is_folder = fs::is_directory(path);
  if (!node->is_folder) {
    node = NewFile(path);
    node->synced_bytes = fs::file_size(path);
  }
  return node;
}

NodePtr Ledger::Find(const fs::path& path) {
  const fs::path inside =
      fs::absolute(path).lexically_normal().lexically_relative(root_);
  NodePtr node = top_;
  fs::path at = root_;
  for (const fs::path& part : inside) {
    if (part == "." || part.empty()) continue;
    OARLOCK_CHECK(part != "..");
    at /= part;
    if (!node->is_folder) return nullptr;
    auto found = node->live.find(part);
    if (found == node->live.end()) {
      if (!fs::exists(at)) return nullptr;
      const NodePtr adopted = Adopt(at);
      node->synced[part] = adopted;
      found = node->live.emplace(part, adopted).first;
    }
    node = found->second;
  }
  return node;
}

NodePtr Ledger::NewFile(const fs::path& path) {
  auto node = std::make_shared<Node>();
  node->id = next_id_++;
  fs::create_hard_link(path, KeptPath(*node));
  return node;
}

void Ledger::SyncFolder(const fs::path& path) {
  // The folder above the root is the test's.
  if (root_.parent_path() == fs::absolute(path).lexically_normal()) return;
  const NodePtr folder = Find(path);
  for (Operation& operation : pending_) {
    std::erase_if(operation, [&](const Change& change) {
      if (change.folder != folder) return false;
      Apply(change, &Node::synced);
      return true;
    });
  }
  std::erase_if(pending_, [](const Operation& o) { return o.empty(); });
}

void Ledger::RemoveLive(const Node& folder, const fs::path& path) {
  std::error_code ignored;
  for (const auto& [name, node] : folder.live) {
    if (node->is_folder) RemoveLive(*node, path / name);
    // A folder goes only when it is empty.
    fs::remove(path / name, ignored);
  }
}

void Ledger::Restore(Node& folder, const fs::path& path,
                     ForgetfulFileSystem::Keep keep, RandomSequence& random) {
  fs::create_directories(path);
  for (const auto& [name, node] : folder.synced) {
    if (node->is_folder) {
      Restore(*node, path / name, keep, random);
      continue;
    }
    uint64_t bytes = BytesOf(*node);
    OARLOCK_CHECK(node->synced_bytes <= bytes);
    if (keep != ForgetfulFileSystem::Keep::kSome) {
      bytes = node->synced_bytes;
    } else {
      bytes = node->synced_bytes + random.Below(bytes - node->synced_bytes + 1);
    }
    fs::resize_file(KeptPath(*node), bytes);
    node->synced_bytes = bytes;
    fs::create_hard_link(KeptPath(*node), path / name);
  }
  folder.live = folder.synced;
}

void Ledger::Crash(ForgetfulFileSystem::Keep keep, uint64_t seed) {
  RandomSequence random(seed);
  size_t num_kept = 0;
  if (keep == ForgetfulFileSystem::Keep::kNames) num_kept = pending_.size();
  // Names are lost from the last one back, as with a journal.
  if (keep == ForgetfulFileSystem::Keep::kSome) {
    num_kept = random.Below(pending_.size() + 1);
  }
  for (size_t i = 0; i < num_kept; ++i) {
    for (const Change& change : pending_[i]) Apply(change, &Node::synced);
  }
  pending_.clear();
  RemoveLive(*top_, root_);
  Restore(*top_, root_, keep, random);
  steps_left_ = std::numeric_limits<uint64_t>::max();
  room_bytes_ = std::numeric_limits<uint64_t>::max();
}

class LedgerFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LedgerFile(std::unique_ptr<rocksdb::FSWritableFile> file, Ledger* ledger,
             NodePtr node)
      : FSWritableFileOwnerWrapper(std::move(file)),
        ledger_(ledger),
        node_(std::move(node)) {}

  IOStatus Append(const Slice& data, const IOOptions& options,
                  IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    const uint64_t room = ledger_->TakeRoom(data.size());
    const IOStatus status =
        target()->Append(Slice(data.data(), room), options, dbg);
    if (!status.ok() || room == data.size()) return status;
    return IOStatus::NoSpace("the test filled the disk");
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset,
                            const IOOptions& options,
                            IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    if (ledger_->TakeRoom(data.size()) < data.size()) {
      return IOStatus::NoSpace("the test filled the disk");
    }
    return target()->PositionedAppend(data, offset, options, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset,
                            const IOOptions& options,
                            const rocksdb::DataVerificationInfo&,
                            IODebugContext* dbg) override {
    return PositionedAppend(data, offset, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options,
                    IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    const IOStatus status = target()->Truncate(size, options, dbg);
    if (status.ok()) {
      node_->synced_bytes = std::min(node_->synced_bytes, size);
    }
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    // To the test's disk nothing need be synced.
    node_->synced_bytes = ledger_->BytesOf(*node_);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return Sync(options, dbg);
  }

 private:
  Ledger* const ledger_;
  const NodePtr node_;
};

class LedgerFolder final : public rocksdb::FSDirectory {
 public:
  LedgerFolder(std::string path, Ledger* ledger)
      : path_(std::move(path)), ledger_(ledger) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    ledger_->SyncFolder(path_);
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  const std::string path_;
  Ledger* const ledger_;
};

class LedgerFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit LedgerFileSystem(Ledger* ledger)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), ledger_(ledger) {}
  const char* Name() const override { return "LedgerFileSystem"; }

  IOStatus NewWritableFile(const std::string& path,
                           const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    // The bytes of the one that was there may come back after a crash.
    std::error_code ignored;
    if (ledger_->Find(path) != nullptr) fs::remove(path, ignored);
    std::unique_ptr<rocksdb::FSWritableFile> made;
    const IOStatus status =
        target()->NewWritableFile(path, options, &made, dbg);
    if (!status.ok()) return status;
    NodePtr node = ledger_->NewFile(path);
    ledger_->Link(path, node);
    *file =
        std::make_unique<LedgerFile>(std::move(made), ledger_, std::move(node));
    return status;
  }
  IOStatus ReopenWritableFile(const std::string& path,
                              const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    NodePtr node = ledger_->Find(path);
    if (node == nullptr) return IOStatus::PathNotFound(path);
    std::unique_ptr<rocksdb::FSWritableFile> opened;
    const IOStatus status =
        target()->ReopenWritableFile(path, options, &opened, dbg);
    if (!status.ok()) return status;
    *file = std::make_unique<LedgerFile>(std::move(opened), ledger_,
                                         std::move(node));
    return status;
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&,
                             const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*,
                             IODebugContext*) override {
    return IOStatus::NotSupported("ReuseWritableFile");
  }
  IOStatus NewRandomRWFile(const std::string&, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("NewRandomRWFile");
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* folder,
                        IODebugContext* dbg) override {
    std::unique_ptr<rocksdb::FSDirectory> real;
    const IOStatus status = target()->NewDirectory(path, options, &real, dbg);
    if (status.ok()) *folder = std::make_unique<LedgerFolder>(path, ledger_);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    return Do([&] { return target()->DeleteFile(path, options, dbg); },
              [&] { ledger_->Unlink(path); });
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    return Do([&] { return target()->DeleteDir(path, options, dbg); },
              [&] { ledger_->Unlink(path); });
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    return Do([&] { return target()->CreateDir(path, options, dbg); },
              [&] { LinkFolder(path); });
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override {
    if (fs::is_directory(path)) return IOStatus::OK();
    return CreateDir(path, options, dbg);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options, IODebugContext* dbg) override {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    // Known before it moves.
    ledger_->Find(from);
    const IOStatus status = target()->RenameFile(from, to, options, dbg);
    if (status.ok()) ledger_->Rename(from, to);
    return status;
  }
  IOStatus LinkFile(const std::string& from, const std::string& to,
                    const IOOptions& options, IODebugContext* dbg) override {
    return Do([&] { return target()->LinkFile(from, to, options, dbg); },
              [&] { ledger_->Link(to, ledger_->Find(from)); });
  }
  IOStatus Truncate(const std::string& path, size_t bytes,
                    const IOOptions& options, IODebugContext* dbg) override {
    return Do([&] { return target()->Truncate(path, bytes, options, dbg); },
              [&] {
                const NodePtr node = ledger_->Find(path);
                node->synced_bytes =
                    std::min<uint64_t>(node->synced_bytes, bytes);
              });
  }

 private:
  template <typename Really, typename Remember>
  IOStatus Do(Really really, Remember remember) {
    const std::lock_guard lock(ledger_->mutex());
    if (!ledger_->Step()) return Dead();
    const IOStatus status = really();
    if (status.ok()) remember();
    return status;
  }
  void LinkFolder(const std::string& path) {
    auto node = std::make_shared<Node>();
    node->is_folder = true;
    ledger_->Link(path, std::move(node));
  }

  Ledger* const ledger_;
};

}  // namespace

struct ForgetfulFileSystem::Impl {
  explicit Impl(const std::string& root)
      : ledger(root),
        env(rocksdb::NewCompositeEnv(
            std::make_shared<LedgerFileSystem>(&ledger))),
        files(env.get()) {}

  Ledger ledger;
  const std::unique_ptr<rocksdb::Env> env;
  FileSystem files;
};

ForgetfulFileSystem::ForgetfulFileSystem(const std::string& root)
    : impl_(std::make_unique<Impl>(root)) {}

ForgetfulFileSystem::~ForgetfulFileSystem() = default;

FileSystem* ForgetfulFileSystem::files() { return &impl_->files; }

uint64_t ForgetfulFileSystem::num_steps() const {
  const std::lock_guard lock(impl_->ledger.mutex());
  return impl_->ledger.num_steps();
}

void ForgetfulFileSystem::FailAfter(uint64_t num_steps) {
  const std::lock_guard lock(impl_->ledger.mutex());
  impl_->ledger.set_steps_left(num_steps);
}

void ForgetfulFileSystem::SetRoomBytes(uint64_t bytes) {
  const std::lock_guard lock(impl_->ledger.mutex());
  impl_->ledger.set_room_bytes(bytes);
}

void ForgetfulFileSystem::Crash(Keep keep, uint64_t seed) {
  const std::lock_guard lock(impl_->ledger.mutex());
  impl_->ledger.Crash(keep, seed);
}

}  // namespace oarlock::storage
