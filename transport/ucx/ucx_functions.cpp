#include "transport/ucx/ucx_functions.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "base/format.h"
#include "base/sanitizer.h"

namespace tombolo::transport::ucx {
namespace {

constexpr const char* kUcp = "libucp.so.0";
constexpr const char* kUcs = "libucs.so.0";

bool find_all(UcxFunctions& all) {
  const DynamicLibrary& ucp = all.ucp;
  return ucp.find("ucp_get_version", all.get_version) && ucp.find("ucp_lib_query", all.lib_query) &&
         ucp.find("ucp_config_read", all.config_read) && ucp.find("ucp_config_modify", all.config_modify) &&
         ucp.find("ucp_config_release", all.config_release) &&
         ucp.find("ucp_init_version", all.init_version) && ucp.find("ucp_cleanup", all.cleanup) &&
         ucp.find("ucp_context_query", all.context_query) && ucp.find("ucp_mem_map", all.mem_map) &&
         ucp.find("ucp_mem_unmap", all.mem_unmap) && ucp.find("ucp_worker_create", all.worker_create) &&
         ucp.find("ucp_worker_destroy", all.worker_destroy) &&
         ucp.find("ucp_worker_get_address", all.worker_get_address) &&
         ucp.find("ucp_worker_release_address", all.worker_release_address) &&
         ucp.find("ucp_worker_get_efd", all.worker_get_efd) && ucp.find("ucp_worker_arm", all.worker_arm) &&
         ucp.find("ucp_worker_progress", all.worker_progress) && ucp.find("ucp_ep_create", all.ep_create) &&
         ucp.find("ucp_ep_close_nbx", all.ep_close_nbx) && ucp.find("ucp_ep_print_info", all.ep_print_info) &&
         ucp.find("ucp_tag_send_nbx", all.tag_send_nbx) && ucp.find("ucp_tag_recv_nbx", all.tag_recv_nbx) &&
         ucp.find("ucp_request_check_status", all.request_check_status) &&
         ucp.find("ucp_request_cancel", all.request_cancel) &&
         ucp.find("ucp_request_free", all.request_free) &&
         all.ucs.find("ucs_status_string", all.status_string);
}

/// Restores the process's signal handlers, which the library replaces when it is loaded.
class SignalHandlers {
 public:
  SignalHandlers() {
    for (std::size_t i = 0; i < handlers_.size(); ++i) ::sigaction(kSignals[i], nullptr, &handlers_[i]);
  }
  void restore() const {
    for (std::size_t i = 0; i < handlers_.size(); ++i) ::sigaction(kSignals[i], &handlers_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGHUP};
  std::array<struct sigaction, std::size(kSignals)> handlers_{};
};

void keep_in_process(const char* name) {
  if (void* handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE)) ::dlclose(handle);
}

}  // namespace

std::shared_ptr<const UcxFunctions> UcxFunctions::load(std::string* problem) {
  static std::mutex lock;
  static std::shared_ptr<const UcxFunctions> loaded;
  std::lock_guard guard(lock);
  if (!loaded) loaded = load_now(problem);
  return loaded;
}

std::shared_ptr<const UcxFunctions> UcxFunctions::load_now(std::string* problem) {
  // UCX's hook in madvise() takes a lock after the sanitizer has already released its state of the thread.
  // Without its hooks UCX registers memory anew for each operation instead of keeping registrations.
  if (kThreadSanitizer) ::setenv("UCX_MEM_EVENTS", "n", 0);
  const SignalHandlers before;
  auto ucs = DynamicLibrary::open({kUcs}, problem);
  if (!ucs) return nullptr;
  if (std::getenv("UCX_HANDLE_ERRORS") == nullptr) before.restore();
  keep_in_process(kUcs);
  keep_in_process("libucm.so.0");
  auto ucp = DynamicLibrary::open({kUcp}, problem);
  if (!ucp) return nullptr;
  keep_in_process(kUcp);
  auto all = std::make_shared<UcxFunctions>(*std::move(ucp), *std::move(ucs));
  const auto refuse = [&](std::string why) {
    if (problem != nullptr) *problem = std::move(why);
    return nullptr;
  };
  // The tag functions that take parameters came with version 1.9, their memory handles with 1.11.
  if (!find_all(*all)) return refuse(fmt::format("{} is older than UCX 1.11", kUcp));
  unsigned major = 0, minor = 0, release = 0;
  all->get_version(&major, &minor, &release);
  if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
    return refuse(fmt::format("{} is UCX {}.{}.{}; this build needs {}.{} or a later one of {}", kUcp, major,
                              minor, release, UCP_API_MAJOR, UCP_API_MINOR, UCP_API_MAJOR));
  }
  ucp_lib_attr_t facts{};
  facts.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL;
  if (all->lib_query(&facts) != UCS_OK || facts.max_thread_level != UCS_THREAD_MODE_MULTI)
    return refuse(fmt::format("{} was built without --enable-mt", kUcp));
  return all;
}

}  // namespace tombolo::transport::ucx
