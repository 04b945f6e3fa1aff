#include "bench/nccl_socket.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "bench/loaded_library.h"

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

bool is_socket_table(const LoadedLibrary& library, const std::uintptr_t* members) {
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

std::vector<void*> find_tables(const LoadedLibrary& library) {
  std::vector<void*> found;
  for (const auto& segment : library.segments()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    auto* words = reinterpret_cast<std::uintptr_t*>(library.base() + segment.p_vaddr);
    const std::size_t count = segment.p_memsz / sizeof *words;
    for (std::size_t i = 0; i + kMembers <= count; ++i) {
      if (is_socket_table(library, words + i)) found.push_back(words + i);
    }
  }
  return found;
}

/// Connecting and accepting ask for the thread's CUDA device, which only helper threads need; a connection
/// over loopback has none. Without CUDA that call fails, and the connection with it. There, and only there,
/// this process' copy of the library is patched to return device 0. False where that is not possible.
bool answer_for_cuda(const LoadedLibrary& library) {
  auto* get_device = reinterpret_cast<int (*)(int*)>(library.local_function("cudaGetDevice"));
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
  const LoadedLibrary library(handle);
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
