// libucp and libucs, loaded at run time: the functions that this room calls.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "base/dynamic_library.h"

namespace tombolo::transport::ucx {

/// The library's functions, by their names without "ucp_". All are set once the library is loaded.
struct UcxFunctions {
  UcxFunctions(DynamicLibrary libucp, DynamicLibrary libucs)
      : ucp(std::move(libucp)), ucs(std::move(libucs)) {}

  DynamicLibrary ucp, ucs;
  decltype(ucp_get_version)* get_version = nullptr;
  decltype(ucp_lib_query)* lib_query = nullptr;
  decltype(ucp_config_read)* config_read = nullptr;
  decltype(ucp_config_modify)* config_modify = nullptr;
  decltype(ucp_config_release)* config_release = nullptr;
  decltype(ucp_init_version)* init_version = nullptr;
  decltype(ucp_cleanup)* cleanup = nullptr;
  decltype(ucp_context_query)* context_query = nullptr;
  decltype(ucp_mem_map)* mem_map = nullptr;
  decltype(ucp_mem_unmap)* mem_unmap = nullptr;
  decltype(ucp_worker_create)* worker_create = nullptr;
  decltype(ucp_worker_destroy)* worker_destroy = nullptr;
  decltype(ucp_worker_get_address)* worker_get_address = nullptr;
  decltype(ucp_worker_release_address)* worker_release_address = nullptr;
  decltype(ucp_worker_get_efd)* worker_get_efd = nullptr;
  decltype(ucp_worker_arm)* worker_arm = nullptr;
  decltype(ucp_worker_progress)* worker_progress = nullptr;
  decltype(ucp_ep_create)* ep_create = nullptr;
  decltype(ucp_ep_close_nbx)* ep_close_nbx = nullptr;
  decltype(ucp_ep_print_info)* ep_print_info = nullptr;
  decltype(ucp_tag_send_nbx)* tag_send_nbx = nullptr;
  decltype(ucp_tag_recv_nbx)* tag_recv_nbx = nullptr;
  decltype(ucp_request_check_status)* request_check_status = nullptr;
  decltype(ucp_request_cancel)* request_cancel = nullptr;
  decltype(ucp_request_free)* request_free = nullptr;
  decltype(ucs_status_string)* status_string = nullptr;  ///< of libucs

  /// Loads the libraries once per process; from any thread. Returns null where a library is absent, too old,
  /// or not built for several threads; `*problem` then says why. Once loaded UCX stays in the process,
  /// because its hooks in libc's memory functions cannot be removed. The first load restores the process's
  /// signal handlers, which UCX replaces by its own, unless UCX_HANDLE_ERRORS asks for those.
  static std::shared_ptr<const UcxFunctions> load(std::string* problem);

 private:
  static std::shared_ptr<const UcxFunctions> load_now(std::string* problem);
};

}  // namespace tombolo::transport::ucx
