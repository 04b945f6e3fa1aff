// Drives NCCL's own plugin loader without a GPU: loads one libnccl.so.2, calls the functions by which a
// communicator takes its plugins, and reports as one JSON object what NCCL took and what it left behind.
//
// The functions are not exported, so they are found in the library's symbol table. They get a communicator
// that is all zero: what they read of it (a network's name, flags of what is loaded) means "nothing is set"
// there. Which functions there are depends on the release; kRows has one row for each kind of plugin and
// range of releases.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "bench/loaded_library.h"

namespace tombolo {
namespace {

using bench::LoadedLibrary;
using Json = nlohmann::json;

/// How one kind of plugin is loaded in a range of releases.
struct Row {
  std::string_view kind;
  std::string_view table;  ///< the symbols that NCCL looks for, without the version
  int first, next;         ///< releases as ncclGetVersion() counts them; `next` is the first outside
  std::initializer_list<std::string_view> set_up, take_down;  ///< in the order of calls
};

constexpr std::string_view kNetInit = "_Z11ncclNetInitP8ncclComm";
constexpr std::string_view kNetFinalize = "_Z15ncclNetFinalizeP8ncclComm";
const Row kRows[] = {
    // Here the plugin stays loaded as long as the process.
    {"net", "ncclNetPlugin_v", 21800, 22200, {"_Z17ncclNetPluginInitv", kNetInit}, {}},
    {"net",
     "ncclNetPlugin_v",
     22200,
     22700,
     {"_Z17ncclNetPluginLoadP8ncclComm", kNetInit},
     {kNetFinalize, "_Z19ncclNetPluginUnloadP8ncclComm"}},
    {"net", "ncclNetPlugin_v", 22700, INT_MAX, {kNetInit}, {kNetFinalize}},
    // This one writes the table's address where its argument points to.
    {"tuner",
     "ncclTunerPlugin_v",
     22100,
     22200,
     {"_Z19ncclTunerPluginLoadPP14ncclTuner_v2_t"},
     {"_Z21ncclTunerPluginUnloadPP14ncclTuner_v2_t"}},
    {"tuner",
     "ncclTunerPlugin_v",
     22200,
     INT_MAX,
     {"_Z19ncclTunerPluginLoadP8ncclComm"},
     {"_Z21ncclTunerPluginUnloadP8ncclComm"}},
    {"profiler",
     "ncclProfiler_v",
     22300,
     INT_MAX,
     {"_Z22ncclProfilerPluginInitP8ncclComm"},
     {"_Z26ncclProfilerPluginFinalizeP8ncclComm"}},
    {"rma",
     "ncclRmaPlugin_v",
     23003,
     INT_MAX,
     {"_Z11ncclRmaInitP8ncclComm"},
     {"_Z15ncclRmaFinalizeP8ncclComm"}},
};

/// More than a communicator of any release takes.
constexpr std::size_t kCommunicatorBytes = std::size_t{16} << 20;

class Communicator {
 public:
  Communicator() {
    at_ = ::mmap(nullptr, kCommunicatorBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) fail(Cause::kSystem, "no memory for a communicator: {}", errno_text(errno));
  }
  ~Communicator() { ::munmap(at_, kCommunicatorBytes); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void* get() const noexcept { return at_; }
  std::span<const std::uintptr_t> words() const noexcept {
    return {static_cast<const std::uintptr_t*>(at_), kCommunicatorBytes / sizeof(std::uintptr_t)};
  }

 private:
  void* at_ = nullptr;
};

bool is_mapped(const std::filesystem::path& file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(' ' + file.string())) return true;
  }
  return false;
}

int entries_of(const char* folder, std::string_view target = {}) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code error;
    if (target.empty() || std::filesystem::read_symlink(entry, error).string().starts_with(target)) ++count;
  }
  return count;
}

bool holds(std::span<const std::uintptr_t> words, std::uintptr_t address) {
  return std::find(words.begin(), words.end(), address) != words.end();
}

/// The plugin's tables of this kind whose address the communicator, or NCCL's own variables, hold.
std::vector<std::string> tables_held(const LoadedLibrary& nccl, const Communicator& communicator,
                                     const std::string& plugin, std::string_view prefix) {
  std::vector<std::string> held;
  void* handle = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return held;
  constexpr int kMostVersions = 32;
  for (int version = 1; version < kMostVersions; ++version) {
    std::string symbol = fmt::format("{}{}", prefix, version);
    auto address = reinterpret_cast<std::uintptr_t>(::dlsym(handle, symbol.c_str()));
    if (address == 0) continue;
    bool found = holds(communicator.words(), address);
    for (const auto& segment : nccl.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
      found |= holds({reinterpret_cast<const std::uintptr_t*>(nccl.base() + segment.p_vaddr),
                      segment.p_memsz / sizeof(std::uintptr_t)},
                     address);
    }
    if (found) held.push_back(symbol);
  }
  ::dlclose(handle);
  return held;
}

std::vector<std::string> tables_of(const std::string& plugin, std::string_view prefix) {
  std::vector<std::string> exported;
  void* handle = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(Cause::kInvalidUsage, "{} cannot be loaded: {}", plugin, ::dlerror());
  for (int version = 1; version < 32; ++version) {
    std::string symbol = fmt::format("{}{}", prefix, version);
    if (::dlsym(handle, symbol.c_str()) != nullptr) exported.push_back(symbol);
  }
  ::dlclose(handle);
  return exported;
}

using Function = int (*)(void*);

Function function_of(const LoadedLibrary& nccl, std::string_view name) {
  return reinterpret_cast<Function>(nccl.local_function(name));
}

/// Calls the functions until one fails; null where all succeed, else the name and the result.
Json call_all(const LoadedLibrary& nccl, std::initializer_list<std::string_view> names, void* communicator) {
  for (std::string_view name : names) {
    if (int result = function_of(nccl, name)(communicator); result != 0)
      return fmt::format("{} returned {}", name, result);
  }
  return nullptr;
}

/// `rows` are set up in their order and taken down in the opposite one; the tables are those of the last.
Json one_life(const LoadedLibrary& nccl, std::span<const Row* const> rows, const std::string& plugin) {
  Communicator communicator;
  Json life;
  life["failed"] = life["failed at the end"] = nullptr;
  for (const Row* row : rows) {
    if (life["failed"].is_null()) life["failed"] = call_all(nccl, row->set_up, communicator.get());
  }
  life["tables"] = tables_held(nccl, communicator, plugin, rows.back()->table);
  for (std::size_t i = rows.size(); i-- > 0;) {
    if (Json failed = call_all(nccl, rows[i]->take_down, communicator.get()); !failed.is_null())
      life["failed at the end"] = failed;
  }
  life["still mapped"] = is_mapped(plugin);
  life["threads"] = entries_of("/proc/self/task");
  life["sockets"] = entries_of("/proc/self/fd", "socket:");
  return life;
}

const Row* row_of(std::string_view kind, int release) {
  for (const Row& each : kRows) {
    if (each.kind == kind && release >= each.first && release < each.next) return &each;
  }
  return nullptr;
}

/// `kinds` are set up in this order; the report is of the last.
Json drive(const std::string& nccl_path, const std::string& plugin, const std::vector<std::string>& kinds,
           int lives) {
  Json report;
  for (const Row& each : kRows) {
    if (each.kind == kinds.back()) report["exported"] = tables_of(plugin, each.table);
  }
  void* handle = ::dlopen(nccl_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(Cause::kInvalidUsage, "{} cannot be loaded: {}", nccl_path, ::dlerror());
  auto* version_of = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "ncclGetVersion"));
  int version = 0;
  if (version_of == nullptr || version_of(&version) != 0)
    fail(Cause::kInvalidUsage, "{} is no NCCL: it does not tell its version", nccl_path);
  report["release"] = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  const LoadedLibrary nccl(handle);
  std::vector<const Row*> rows;
  for (const std::string& kind : kinds) {
    rows.push_back(row_of(kind, version));
    if (rows.back() == nullptr) {
      report["skipped"] = fmt::format("how this release loads a {} is not known", kind);
      return report;
    }
    for (const auto& names : {rows.back()->set_up, rows.back()->take_down}) {
      for (std::string_view name : names) {
        if (function_of(nccl, name) != nullptr) continue;
        report["skipped"] = fmt::format("the library's symbol table does not have {}", name);
        return report;
      }
    }
  }
  // Which makes variables of the lines of NCCL's files; making a communicator begins with it.
  if (auto* read_files = nccl.local_function("_Z7initEnvv")) reinterpret_cast<void (*)()>(read_files)();
  report["threads before"] = entries_of("/proc/self/task");
  report["sockets before"] = entries_of("/proc/self/fd", "socket:");
  report["lives"] = Json::array();
  for (int i = 0; i < lives; ++i) report["lives"].push_back(one_life(nccl, rows, plugin));
  return report;
}

int run(int argc, char** argv) {
  CLI::App app("Drives NCCL's own plugin loader without a GPU, and reports what it did as JSON.");
  std::string nccl, plugin;
  std::vector<std::string> kinds{"net"};
  int lives = 1;
  bool loaded_before = false;
  app.add_option("--nccl", nccl, "path of libnccl.so.2")->required()->check(CLI::ExistingFile);
  app.add_option("--plugin", plugin, "path of the plugin")->required()->check(CLI::ExistingFile);
  app.add_option("--kinds", kinds,
                 "net, tuner, profiler or rma; of several, in this order, the last is reported")
      ->delimiter(',')
      ->check(CLI::IsMember({"net", "tuner", "profiler", "rma"}));
  app.add_option("--lives", lives, "how many communicators are made, one after the other")
      ->check(CLI::PositiveNumber);
  app.add_flag("--loaded-before", loaded_before, "the plugin is in the process before NCCL looks for it");
  CLI11_PARSE(app, argc, argv);
  plugin = std::filesystem::canonical(plugin).string();
  if (loaded_before && ::dlopen(plugin.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr)
    fail(Cause::kInvalidUsage, "{} cannot be loaded: {}", plugin, ::dlerror());
  std::cout << drive(nccl, plugin, kinds, lives).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  try {
    return tombolo::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "nccl_loader: " << error.what() << '\n';
    return 1;
  }
}
