// Libraries that are opened when they are needed, so that a program starts
// where they are not.

#ifndef OARLOCK_BASE_PROCESS_SHARED_LIBRARY_H_
#define OARLOCK_BASE_PROCESS_SHARED_LIBRARY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock {

// An opened library stays for the life of the process.
class SharedLibrary {
 public:
  // Looks for `name` ("libcublasLt.so.13") where the loader does, then in
  // `folders`. FailedPrecondition, with the loader's words, if it is nowhere.
  static absl::StatusOr<SharedLibrary> Open(
      const std::string& name, const std::vector<std::string>& folders);

  // Sets *function, a pointer to one, to the function called `name`.
  // FailedPrecondition if the library has none.
  template <typename Function>
  absl::Status Find(const char* name, Function* function) const {
    absl::StatusOr<void*> address = Address(name);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<Function>(*address);
    return absl::OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle)
      : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* name) const;

  std::string name_;
  void* handle_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_SHARED_LIBRARY_H_
