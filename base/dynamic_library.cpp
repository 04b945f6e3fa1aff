#include "base/dynamic_library.h"

#include <dlfcn.h>

#include <utility>

namespace tombolo {

std::optional<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names,
                                                   std::string* problem) {
  std::string all;
  for (const char* name : names) {
    // RTLD_LOCAL: an optional library must not change how other libraries' symbols are resolved. RTLD_LAZY:
    // functions that are not used may be missing.
    if (void* handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return DynamicLibrary(handle, name);
    const char* why = ::dlerror();
    all += all.empty() ? "" : "; ";
    all += why != nullptr ? why : name;
  }
  if (problem != nullptr) *problem = all;
  return std::nullopt;
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const noexcept {
  return ::dlsym(handle_, name);
}

}  // namespace tombolo
