#include "transport/sockets/openssl.h"

#include <dlfcn.h>
#include <openssl/ssl.h>

#include <mutex>

namespace tombolo::transport::sockets {
namespace {

/// OpenSSL registers a function that every thread that used it calls when it ends. The library that contains
/// both must still be in memory then, also after dlclose. OpenSSL itself ensures that only where it has
/// something to do at exit.
void stay_in_memory() noexcept {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&stay_in_memory), &self) == 0) return;
  // Where OpenSSL belongs to the program itself, which is never unloaded, this finds nothing.
  [[maybe_unused]] const void* never_closed = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

void start_openssl() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    stay_in_memory();
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  });
}

}  // namespace tombolo::transport::sockets
