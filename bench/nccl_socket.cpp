#include "bench/nccl_socket.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"

namespace tombolo::bench {
namespace {

/// The versions as ncclGetVersion() counts them: major * 10000 + minor * 100 + patch. The table was checked
/// in 2.28.9.
constexpr int kFirstKnown = 22800, kFirstUnknown = 22900;
constexpr int kKnownAbi = 11;
constexpr std::size_t kMembers = sizeof(net_plugin::abi::ncclNet_v11_t) / sizeof(void*);

/// The members of ABI v11's table that this transport leaves null: registering dma-buf, and what it does not
/// offer to devices. finalize is its last member; setNetAttr may be set or not.
constexpr std::array<std::size_t, 4> kNull{8, 17, 18, 19};
constexpr std::size_t kCloseSend = 14, kCloseReceive = 15, kSetAttributes = 21;
static_assert(kMembers == 22);

struct Library {
  const link_map* map = nullptr;
  std::span<const ElfW(Phdr)> segments;

  bool holds(std::uintptr_t at, std::size_t bytes, unsigned flag) const {
    for (const auto& segment : segments) {
      const std::uintptr_t begin = map->l_addr + segment.p_vaddr;
      // A word of the table may be any number, so a sum with it could overflow.
      if (segment.p_type == PT_LOAD && (segment.p_flags & flag) != 0 && at >= begin &&
          at - begin < segment.p_memsz && segment.p_memsz - (at - begin) >= bytes) {
        return true;
      }
    }
    return false;
  }
};

Library segments_of(void* handle) {
  Library library;
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return library;
  library.map = map;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        auto& found = *static_cast<Library*>(into);
        if (info->dlpi_addr != found.map->l_addr) return 0;
        found.segments = {info->dlpi_phdr, info->dlpi_phnum};
        return 1;
      },
      &library);
  return library;
}

bool is_socket_table(const Library& library, const std::uintptr_t* members) {
  constexpr char kName[] = "Socket";  // and its zero
  if (!library.holds(members[0], sizeof kName, PF_R) ||
      std::memcmp(reinterpret_cast<const void*>(members[0]), kName, sizeof kName) != 0) {
    return false;
  }
  for (std::size_t i = 1; i < kMembers; ++i) {
    const bool null = std::ranges::find(kNull, i) != kNull.end();
    const bool code = library.holds(members[i], 1, PF_X);
    if (i == kSetAttributes ? members[i] != 0 && !code : null ? members[i] != 0 : !code) return false;
  }
  return members[kCloseSend] == members[kCloseReceive];  // one function serves both
}

std::vector<void*> find_tables(const Library& library) {
  std::vector<void*> found;
  for (const auto& segment : library.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    auto* words = reinterpret_cast<std::uintptr_t*>(library.map->l_addr + segment.p_vaddr);
    const std::size_t count = segment.p_memsz / sizeof *words;
    for (std::size_t i = 0; i + kMembers <= count; ++i) {
      if (is_socket_table(library, words + i)) found.push_back(words + i);
    }
  }
  return found;
}

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

/// The address of a function that the library does not export, found in its symbol table.
void* local_function(const Library& library, std::string_view name) {
  const std::string terminated = std::string(name) + '\0';
  MappedFile file(library.map->l_name);
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
      const std::uintptr_t at = library.map->l_addr + symbol.st_value;
      if (library.holds(at, 16, PF_X)) return reinterpret_cast<void*>(at);
    }
  }
  return nullptr;
}

/// Connecting and accepting ask for the thread's CUDA device, which only helper threads need; a connection
/// over loopback has none. Without CUDA that call fails, and the connection with it. There, and only there,
/// this process' copy of the library is patched to return device 0. False where that is not possible.
bool answer_for_cuda(const Library& library) {
  auto* get_device = reinterpret_cast<int (*)(int*)>(local_function(library, "cudaGetDevice"));
  int device = 0;
  if (get_device == nullptr) return false;
  if (get_device(&device) == 0) return true;
  // movl $0, (%rdi); xorl %eax, %eax; ret
  constexpr unsigned char kCode[] = {0xc7, 0x07, 0, 0, 0, 0, 0x31, 0xc0, 0xc3};
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(get_device);
  auto* begin = reinterpret_cast<void*>(at / page * page);
  const std::size_t bytes = at % page + sizeof kCode;
  if (::mprotect(begin, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  std::memcpy(reinterpret_cast<void*>(at), kCode, sizeof kCode);
  return ::mprotect(begin, bytes, PROT_READ | PROT_EXEC) == 0 && get_device(&device) == 0;
}

void* open_nccl(const std::string& path) {
  if (!path.empty()) return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (void* handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return handle;
  glob_t matches{};
  void* handle = nullptr;
  for (const char* pattern :
       {"/usr/local/cuda*/lib*/libnccl.so.2", "/usr/local/cuda*/targets/*/lib/libnccl.so.2"}) {
    if (handle == nullptr && ::glob(pattern, 0, nullptr, &matches) == 0)
      handle = ::dlopen(matches.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
    ::globfree(&matches);
  }
  return handle;
}

}  // namespace

std::unique_ptr<net_plugin::Client> load_nccl_socket(const std::string& path) {
  void* handle = open_nccl(path);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    fail(Cause::kUnsupported, "NCCL's library was not found: {}", why != nullptr ? why : path);
  }
  auto* version_of = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "ncclGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != 0 || version < kFirstKnown ||
      version >= kFirstUnknown) {
    ::dlclose(handle);
    fail(Cause::kUnsupported, "NCCL's Socket transport is known in NCCL 2.28, not in version {}", version);
  }
  const Library library = segments_of(handle);
  const std::vector<void*> tables = find_tables(library);
  if (tables.size() != 1) {
    ::dlclose(handle);
    fail(Cause::kUnsupported, "in NCCL {} {} tables look like the Socket transport's", version,
         tables.size());
  }
  if (!answer_for_cuda(library)) {
    ::dlclose(handle);
    fail(Cause::kUnsupported, "NCCL {}'s Socket transport asks for the CUDA device, and there is none",
         version);
  }
  return net_plugin::Client::adopt(handle, tables[0], kKnownAbi);
}

}  // namespace tombolo::bench
