#include "tools/doctor/nccl_facts.h"

#include <dlfcn.h>
#include <pwd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "net_plugin/client.h"
#include "net_plugin/gpu/support.h"
#include "tools/doctor/find_nccl.h"
#include "tools/doctor/loaded_apart.h"
#include "tools/process/subprocess.h"
#include "topology/files/cluster_file.h"

namespace tombolo::doctor {
namespace {

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.fail()) return std::nullopt;
  return text.str();
}

bool concerns_nccl(std::string_view name) {
  return name.starts_with("NCCL_") || name.starts_with("TOMBOLO_");
}

NcclVariables variables_of_environment() {
  NcclVariables variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || !concerns_nccl(entry.substr(0, equals))) continue;
    variables[std::string(entry.substr(0, equals))] = {std::string(entry.substr(equals + 1)),
                                                       "the environment"};
  }
  return variables;
}

std::map<std::string, std::string> cuda_variables_of_environment() {
  std::map<std::string, std::string> found;
  for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING"})
    if (const char* value = std::getenv(name)) found[name] = value;
  return found;
}

/// The NICs that the plugin would choose from. What is wrong with a cluster file is another check's.
std::vector<topology::Nic> nics_of(const NcclFacts& facts, const Facts& machine) {
  if (facts.cluster) {
    try {
      const auto file = topology::ClusterFile::parse(JsonDocument::parse(*facts.cluster, "cluster file"));
      std::string name = facts.value("TOMBOLO_HOST");
      if (name.empty()) name = machine.machine.host_name;
      const topology::Host* host = file.find_host(name);
      if (host == nullptr) host = file.find_host(name.substr(0, name.find('.')));
      if (host != nullptr) return host->nics;
    } catch (const Error&) {
    }
  }
  return machine.machine.nics;
}

std::string home_folder(NcclRelease release) {
  const char* home = std::getenv("HOME");
  if (!takes_home_from_environment(release)) {
    const passwd* user = ::getpwuid(::getuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  return home != nullptr ? home : "";
}

// In the order in which NCCL reads them, after the environment.
void read_files(NcclFacts& facts) {
  const std::string named = facts.value("NCCL_CONF_FILE");
  std::vector<std::string> paths;
  if (!named.empty() && reads_named_file(facts.release)) {
    paths.push_back(named);
    if (!text_of(named)) {
      facts.file_problems.push_back(
          fmt::format("NCCL_CONF_FILE={} cannot be read, and NCCL passes over it in silence", named));
    }
  } else if (const std::string home = home_folder(facts.release); !home.empty()) {
    paths.push_back(home + "/.nccl.conf");
  }
  paths.emplace_back("/etc/nccl.conf");
  for (const std::string& path : paths) {
    if (auto text = text_of(path))
      read_nccl_file(path, *text, facts.release, facts.variables, facts.file_problems);
  }
}

std::map<std::string, std::string> values_of(const NcclVariables& variables) {
  std::map<std::string, std::string> values;
  for (const auto& [name, variable] : variables) values[name] = variable.value;
  return values;
}

Json load_plugin(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return loader_error();
  Json loaded{{"path", path_of(handle)}, {"tables", Json::array()}, {"name", ""}};
  constexpr int kMostTables = 32;
  for (int version = 1; version < kMostTables; ++version) {
    void* table = ::dlsym(handle, fmt::format("ncclNetPlugin_v{}", version).c_str());
    if (table == nullptr) continue;
    loaded["tables"].push_back(version);
    if (const char* called = *static_cast<const char* const*>(table)) loaded["name"] = called;
  }
  return loaded;
}

LoadedPlugin as_loaded(const Json& answer) {
  if (answer.contains("error")) return {answer.at("error").get<std::string>(), {}, {}, {}};
  return {{}, answer.at("path"), answer.at("name"), answer.at("tables")};
}

/// What the plugin said in this (child) process.
Json& said_lines() {
  static Json lines = Json::array();
  return lines;
}

void keep_line(net_plugin::abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format,
               ...) __attribute__((format(printf, 5, 6)));
void keep_line(net_plugin::abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format,
               ...) {
  if (level != net_plugin::abi::NCCL_LOG_WARN && level != net_plugin::abi::NCCL_LOG_INFO) return;
  std::array<char, 8192> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  said_lines().push_back({{"warning", level == net_plugin::abi::NCCL_LOG_WARN}, {"text", text.data()}});
}

Json start_plugin(const std::string& path, int table) {
  auto plugin = net_plugin::Client::load(path, table);
  Json answer{{"devices", Json::array()}};
  void* context = nullptr;
  int count = 0;
  int result = plugin->init(&context, 1, keep_line);
  if (result == 0) result = plugin->devices(&count);
  for (int i = 0; result == 0 && i < count; ++i) {
    net_plugin::abi::ncclNetProperties_v12_t properties{};
    result = plugin->get_properties(i, &properties);
    if (result == 0) {
      answer["devices"].push_back(
          fmt::format("{} ({})", properties.name, format_bit_rate(properties.speed * 1e6 / 8)));
    }
  }
  if (result == 0 && count == 0) answer["error"] = "it has no device";
  if (result != 0) answer["error"] = fmt::format("it returned NCCL's result {}", result);
  if (context != nullptr) plugin->finalize(context);
  answer["lines"] = said_lines();
  return answer;
}

StartedPlugin as_started(const Json& answer) {
  StartedPlugin started;
  started.error = answer.value("error", "");
  started.devices = answer.value("devices", std::vector<std::string>{});
  if (!answer.contains("lines")) return started;
  for (const Json& line : answer.at("lines"))
    started.lines.push_back({line.at("warning").get<bool>(), line.at("text").get<std::string>()});
  return started;
}

Json reach_now(const std::vector<topology::Nic>& nics) {
  Json answer = Json::object();
  const auto support = net_plugin::gpu::Support::detect(net_plugin::gpu::GpuOptions{}, nics);
  for (const auto& [nic, found] : support->reach()) {
    answer[nic] = {{"reach", static_cast<int>(found.reach)},
                   {"reason", found.reason},
                   {"no_peer_memory", found.no_peer_memory},
                   {"no_dma_buf", found.no_dma_buf}};
  }
  return answer;
}

std::map<std::string, net_plugin::gpu::NicReach> as_reach(const Json& answer) {
  std::map<std::string, net_plugin::gpu::NicReach> reach;
  for (const auto& [nic, one] : answer.items()) {
    if (!one.is_object()) continue;  // why the child gave no answer
    net_plugin::gpu::NicReach& found = reach[nic];
    found.reach = static_cast<net_plugin::gpu::GpuReach>(one.at("reach").get<int>());
    found.reason = one.at("reason");
    found.no_peer_memory = one.at("no_peer_memory");
    found.no_dma_buf = one.at("no_dma_buf");
    found.peer_memory = found.no_peer_memory.empty();
    found.dma_buf = found.no_dma_buf.empty();
  }
  return reach;
}

PathKind look_at(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return error == std::errc::permission_denied ? PathKind::kUnreadable : PathKind::kMissing;
  if (std::filesystem::is_directory(status)) return PathKind::kFolder;
  return ::access(path.c_str(), R_OK) == 0 ? PathKind::kFile : PathKind::kUnreadable;
}

}  // namespace

void read_nccl_file(const std::string& path, const std::string& text, NcclRelease release,
                    NcclVariables& variables, std::vector<std::string>& problems) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (takes_home_from_environment(release) && line.ends_with('\r')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) {
      problems.push_back(fmt::format("{}:{}: \"{}\" sets nothing, it has no '='", path, number, line));
      continue;
    }
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    auto blank_at = [](const std::string& part) {
      return !part.empty() && (std::isspace(static_cast<unsigned char>(part.front())) != 0 ||
                               std::isspace(static_cast<unsigned char>(part.back())) != 0);
    };
    if (blank_at(name) || blank_at(value)) {
      problems.push_back(fmt::format("{}:{}: \"{}\" has blanks that NCCL takes as part of the name or value",
                                     path, number, line));
    }
    if (concerns_nccl(name)) variables.try_emplace(name, NcclVariable{value, path});
  }
}

std::string find_library(const std::string& name, const std::string& library_path) {
  if (name.find('/') != std::string::npos) return name;
  auto is_here = [](const std::string& path) { return look_at(path) == PathKind::kFile; };
  for (std::size_t begin = 0; !library_path.empty() && begin <= library_path.size();) {
    const std::size_t end = std::min(library_path.find_first_of(":;", begin), library_path.size());
    std::string folder = library_path.substr(begin, end - begin);
    if (folder.empty()) folder = ".";  // as the loader reads it
    if (is_here(folder + "/" + name)) return folder + "/" + name;
    begin = end + 1;
  }
  if (const auto program = tools::find_program("ldconfig")) {
    std::istringstream cache(tools::run_program({*program, "-p"}, {}, kPatience).output);
    for (std::string line; std::getline(cache, line);) {
      // "	libc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6"
      const std::size_t arrow = line.find(" => ");
      if (line.find("\t" + name + " (") == 0 && line.find("x86-64") < arrow && arrow != std::string::npos)
        return line.substr(arrow + 4);
    }
  }
  for (const char* folder :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    if (is_here(fmt::format("{}/{}", folder, name))) return fmt::format("{}/{}", folder, name);
  }
  return {};
}

std::string NcclFacts::value(const std::string& name) const {
  const auto found = variables.find(name);
  return found != variables.end() ? found->second.value : std::string();
}

NcclFacts gather_nccl_facts(const Facts& machine) {
  NcclFacts facts;
  facts.variables = variables_of_environment();
  FoundNccl nccl = find_nccl();
  facts.nccl = std::move(nccl.path);
  facts.release = nccl.release;
  facts.found_by = std::move(nccl.by);
  facts.why_no_nccl = std::move(nccl.why_none);
  read_files(facts);
  facts.plugin = machine.plugin;
  facts.gpus = machine.machine.gpus.size();
  facts.why_no_driver = machine.load("libcuda.so.1");
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) == 0)
    facts.shared_bytes = std::uint64_t{shared.f_blocks} * shared.f_frsize;
  if (const std::string cluster = facts.value("TOMBOLO_CLUSTER"); !cluster.empty())
    facts.cluster = text_of(cluster);
  facts.cuda_variables = cuda_variables_of_environment();
  facts.nics = nics_of(facts, machine);
  // In a child, because a process that has started CUDA's driver cannot be forked for what follows.
  if (facts.gpus > 0) facts.reach = as_reach(in_child({}, [&] { return reach_now(facts.nics); }));
  facts.load = [variables = facts.variables](const std::string& name) {
    const char* library_path = std::getenv("LD_LIBRARY_PATH");  // a file's comes too late for the loader
    const std::string file = find_library(name, library_path != nullptr ? library_path : "");
    if (file.empty())
      return LoadedPlugin{name + " is in no folder that the loader looks in (LD_LIBRARY_PATH)", {}, {}, {}};
    return as_loaded(in_child(values_of(variables), [&] { return load_plugin(file); }));
  };
  facts.start = [variables = facts.variables](const std::string& path, int table) {
    return as_started(in_child(values_of(variables), [&] { return start_plugin(path, table); }));
  };
  facts.look = look_at;
  return facts;
}

}  // namespace tombolo::doctor
