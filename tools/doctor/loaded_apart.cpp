#include "tools/doctor/loaded_apart.h"

#include <dlfcn.h>
#include <link.h>

namespace tombolo::doctor {

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

Json loader_error() {
  const char* words = ::dlerror();
  return {{"error", words != nullptr ? words : "dlopen failed"}};
}

}  // namespace tombolo::doctor
