#include <dlfcn.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <limits>

#include "tools/doctor/checks.h"
#include "tools/emulation/emulation.h"
#include "tools/launch/launcher.h"

namespace tombolo::doctor {
namespace {

std::uint64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max() : limit.rlim_cur;
}

std::string try_load(const std::string& library) {
  // The library stays loaded: some keep memory of theirs, or threads, beyond dlclose().
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* words = ::dlerror();
    return words != nullptr ? words : "dlopen failed";
  }
  ::dlclose(handle);
  return {};
}

// Looks beside this program, as built or as installed, and then where the loader looks.
std::string find_plugin() {
  constexpr std::string_view kName = "libnccl-net-tombolo.so";
  std::filesystem::path folder = std::filesystem::path(tools::own_program()).parent_path();
  for (const auto& candidate : {folder / "../lib" / kName, folder / "../lib/x86_64-linux-gnu" / kName}) {
    std::error_code status;
    if (std::filesystem::exists(candidate, status))
      return std::filesystem::canonical(candidate, status).string();
  }
  return try_load(std::string(kName)).empty() ? std::string(kName) : std::string();
}

}  // namespace

std::string_view status_name(Status status) noexcept {
  return status == Status::kOk ? "ok" : status == Status::kWarning ? "warning" : "failed";
}

Facts gather_facts() {
  Facts facts;
  facts.machine = topology::detect({});
  facts.locked_memory_limit = limit_of(RLIMIT_MEMLOCK);
  facts.open_files_limit = limit_of(RLIMIT_NOFILE);
  facts.why_no_namespaces = emulation::why_no_namespaces();
  constexpr double kProductSeconds = 0.1;
  try {
    facts.products = compute::measure_products(kProductSeconds);
  } catch (const Error& error) {  // a wrong TOMBOLO_INSTRUCTION_SET
    facts.why_no_products = error.what();
  }
  facts.load = try_load;
  facts.plugin = find_plugin();
  return facts;
}

std::vector<Check> check_all(const Facts& facts) {
  std::vector<Check> all;
  for (auto check : {check_nics, check_limits, check_kernel, check_processor, check_libraries}) {
    for (Check& each : check(facts)) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace tombolo::doctor
