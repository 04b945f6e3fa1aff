// A shared library that this process has loaded: where its parts lie in memory, and the functions that it
// does not export. NCCL's own code is reached by it without a GPU.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tombolo::bench {

class LoadedLibrary {
 public:
  /// `handle` is dlopen's; the library must stay loaded. A handle that the loader does not know makes a
  /// library without segments.
  explicit LoadedLibrary(void* handle);

  /// What the file's addresses are added to.
  std::uintptr_t base() const noexcept { return base_; }
  const std::string& path() const noexcept { return path_; }
  std::span<const ElfW(Phdr)> segments() const noexcept { return segments_; }

  /// Whether `bytes` bytes at an address lie in one segment that has this flag (PF_R, PF_W or PF_X).
  bool holds(std::uintptr_t at, std::size_t bytes, unsigned flag) const noexcept;

  /// The address of a function that need not be exported, by its mangled name in the file's own symbol table;
  /// null where the table was stripped or does not have it.
  void* local_function(std::string_view name) const;

 private:
  std::uintptr_t base_ = 0;
  std::string path_;
  std::span<const ElfW(Phdr)> segments_;
};

}  // namespace tombolo::bench
