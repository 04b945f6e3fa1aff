#include "bench/loaded_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/descriptor.h"

namespace tombolo::bench {
namespace {

/// A file's whole content, read-only.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) return;
    void* at =
        ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (at != MAP_FAILED)
      bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(status.st_size)};
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// `count` elements at an offset; nothing where the file is shorter.
  template <typename T>
  std::span<const T> at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > bytes_.size() || (bytes_.size() - offset) / sizeof(T) < count) return {};
    return {reinterpret_cast<const T*>(bytes_.data() + offset), count};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

LoadedLibrary::LoadedLibrary(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  base_ = map->l_addr;
  path_ = map->l_name;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        auto& found = *static_cast<LoadedLibrary*>(into);
        if (info->dlpi_addr != found.base_) return 0;
        found.segments_ = {info->dlpi_phdr, info->dlpi_phnum};
        return 1;
      },
      this);
}

bool LoadedLibrary::holds(std::uintptr_t at, std::size_t bytes, unsigned flag) const noexcept {
  for (const auto& segment : segments_) {
    const std::uintptr_t begin = base_ + segment.p_vaddr;
    // The address may be any number, so a sum with it could overflow.
    if (segment.p_type == PT_LOAD && (segment.p_flags & flag) != 0 && at >= begin &&
        at - begin < segment.p_memsz && segment.p_memsz - (at - begin) >= bytes) {
      return true;
    }
  }
  return false;
}

void* LoadedLibrary::local_function(std::string_view name) const {
  const std::string terminated = std::string(name) + '\0';
  MappedFile file(path_.c_str());
  auto header = file.at<ElfW(Ehdr)>(0);
  if (header.empty()) return nullptr;
  auto sections = file.at<ElfW(Shdr)>(header[0].e_shoff, header[0].e_shnum);
  for (const auto& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    const auto& strings = sections[table.sh_link];
    auto names = file.at<char>(strings.sh_offset, strings.sh_size);
    for (const auto& symbol : file.at<ElfW(Sym)>(table.sh_offset, table.sh_size / sizeof(ElfW(Sym)))) {
      // The name's terminating zero is part of the comparison.
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name + name.size() >= names.size() ||
          std::string_view(names.data() + symbol.st_name, name.size() + 1) != terminated) {
        continue;
      }
      const std::uintptr_t at = base_ + symbol.st_value;
      if (holds(at, 16, PF_X)) return reinterpret_cast<void*>(at);
    }
  }
  return nullptr;
}

}  // namespace tombolo::bench
