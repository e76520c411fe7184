#include "base/process/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace oarlock {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(
    const std::string& name, const std::vector<std::string>& folders) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  void* handle = ::dlopen(name.c_str(), kMode);
  const char* const words = handle == nullptr ? ::dlerror() : nullptr;
  const std::string why = words == nullptr ? "" : words;
  for (const std::string& folder : folders) {
    if (handle != nullptr) break;
    handle = ::dlopen(absl::StrCat(folder, "/", name).c_str(), kMode);
  }
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the library ", name, " cannot be opened: ", why,
                     "; install it, or name its folder in LD_LIBRARY_PATH"));
  }
  return SharedLibrary(name, handle);
}

absl::StatusOr<void*> SharedLibrary::Address(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the library ", name_, " has no ", name, "; install a newer one"));
  }
  return address;
}

}  // namespace oarlock
