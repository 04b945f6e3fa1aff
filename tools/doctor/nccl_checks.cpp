#include "tools/doctor/nccl_checks.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "base/format.h"
#include "base/units.h"
#include "net_plugin/parameters.h"
#include "net_plugin/tuner/knowledge.h"
#include "tools/doctor/nccl_network_checks.h"
#include "tools/doctor/nccl_one_sided_check.h"

namespace tombolo::doctor {
namespace {

/// Containers have 64 MiB by default, which NCCL's memory between the ranks of a host exceeds.
constexpr std::uint64_t kSharedEnough = std::uint64_t{256} << 20;

std::string net_name(const NcclFacts& facts) {
  const std::string set = facts.value(std::string(net_plugin::kNetNameParameter.name));
  return set.empty() ? std::string(net_plugin::kNetNameParameter.default_value) : set;
}

std::string nccl_text(const NcclFacts& facts) {
  return fmt::format("NCCL {}", release_text(facts.release));
}

/// The command that makes a job of this release load the plugin.
std::string how_to_load(const NcclFacts& facts) {
  if (facts.plugin.empty())
    return "build or install libnccl-net-tombolo.so, and set NCCL_NET_PLUGIN to its path";
  const std::filesystem::path plugin = facts.plugin;
  if (!plugin.has_parent_path()) return "export NCCL_NET_PLUGIN=tombolo";
  if (takes_path(facts.release)) return fmt::format("export NCCL_NET_PLUGIN={}", facts.plugin);
  return fmt::format(
      "export NCCL_NET_PLUGIN=tombolo LD_LIBRARY_PATH={}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",
      plugin.parent_path().string());
}

Check check_library(const NcclFacts& facts) {
  const std::string name = "job's NCCL";
  if (facts.nccl.empty()) {
    return {name, Status::kWarning, fmt::format("no libnccl.so.2 was found: {}", facts.why_no_nccl),
            "run this with the job's environment, in its container, with the job's Python first in PATH; "
            "until then the "
            "rules of the newest NCCL are assumed"};
  }
  const std::string seen =
      fmt::format("{}, {} (found by {})", release_text(facts.release), facts.nccl, facts.found_by);
  if (newest_net_table(facts.release) == 0)
    return {name, Status::kFailed, seen, "it is too old for this plugin: 2.18 or later is needed"};
  if (facts.release >= kFirstUntried) {
    return {name, Status::kWarning, seen,
            fmt::format("its loader was not tried with this plugin; the rules of {} are assumed",
                        release_text(kNewestTried))};
  }
  return {name, Status::kOk, seen, {}};
}

std::vector<Check> check_variables(const NcclFacts& facts) {
  std::string seen;
  for (const auto& [name, variable] : facts.variables) {
    // A secret is nobody's to print.
    const std::string value = name == "TOMBOLO_SECRET" ? "(set)" : variable.value;
    seen += fmt::format("{}{}={}", seen.empty() ? "" : ", ", name, value);
    if (variable.source != "the environment") seen += fmt::format(" (of {})", variable.source);
  }
  std::vector<Check> checks{
      {"variables", Status::kOk, seen.empty() ? "neither NCCL_* nor TOMBOLO_* is set" : seen, {}}};
  for (const std::string& problem : facts.file_problems) {
    checks.push_back({"file of variables", Status::kWarning, problem,
                      "write NAME=VALUE without blanks, one on a line, in a file that every rank can read"});
  }
  if (!facts.value("NCCL_ENV_PLUGIN").empty()) {
    checks.push_back({"env plugin", Status::kWarning,
                      fmt::format("NCCL_ENV_PLUGIN={}", facts.value("NCCL_ENV_PLUGIN")),
                      "what it sets for NCCL alone is seen neither here nor by a net plugin"});
  }
  return checks;
}

/// Why an entry of NCCL_NET_PLUGIN gives no library.
std::string why_not(const NcclFacts& facts, const std::string& entry, const std::string& errors) {
  const bool path = entry.find('/') != std::string::npos;
  if (path && !takes_path(facts.release)) {
    return fmt::format("{} takes no path: it looks for libnccl-net-{}.so, and then uses its own network",
                       nccl_text(facts), entry);
  }
  if (!takes_list(facts.release) && entry.find(',') != std::string::npos)
    return fmt::format("{} takes one library, not a list", nccl_text(facts));
  if (path) {
    switch (facts.look(entry)) {
      case PathKind::kMissing:
        return "there is no such file, as seen from here";
      case PathKind::kFolder:
        return "it is a folder; the path must be the library's";
      case PathKind::kUnreadable:
        return "this user may not read it";
      case PathKind::kFile:
        break;
    }
  }
  return errors;
}

/// Why a library that loads is not what a job should use; empty where it is.
std::string why_wrong(const NcclFacts& facts, const LoadedPlugin& loaded) {
  if (loaded.tables.empty()) return fmt::format("{} is no net plugin", loaded.path);
  if (table_taken(loaded.tables, facts.release) == 0) {
    return fmt::format("{} has no net table that {} looks for (up to v{}): it has v{}", loaded.path,
                       nccl_text(facts), newest_net_table(facts.release), fmt::join(loaded.tables, ", v"));
  }
  if (::strcasecmp(loaded.name.c_str(), net_name(facts).c_str()) != 0)
    return fmt::format("{} is the plugin \"{}\"", loaded.path, loaded.name);
  return {};
}

/// The check of what NCCL_NET_PLUGIN says; `taken` becomes the library that is this plugin, if one is.
Check check_plugin(const NcclFacts& facts, std::optional<LoadedPlugin>& taken) {
  const std::string name = "net plugin";
  const std::string value = facts.value("NCCL_NET_PLUGIN");
  const std::string said =
      value.empty() ? "NCCL_NET_PLUGIN is not set" : fmt::format("NCCL_NET_PLUGIN={}", value);
  if (value == "none") {
    return {name, Status::kFailed, "NCCL_NET_PLUGIN=none: NCCL uses its own network", how_to_load(facts)};
  }
  std::string reasons;
  // With NCCL_NET, NCCL passes over networks of other names.
  const bool chosen = ::strcasecmp(facts.value("NCCL_NET").c_str(), net_name(facts).c_str()) == 0;
  bool relative = false;
  for (const std::string& entry : plugin_entries(value, facts.release)) {
    const bool path = entry.find('/') != std::string::npos;
    LoadedPlugin loaded;
    std::string errors;
    for (const std::string& library : libraries_tried(entry, facts.release)) {
      loaded = facts.load(library);
      if (loaded.error.empty()) break;
      // libnccl-net-PATH.so, which comes second, is a file that nobody meant.
      if (errors.empty() || !path) errors += (errors.empty() ? "" : "; ") + loaded.error;
    }
    const std::string reason =
        loaded.error.empty() ? why_wrong(facts, loaded) : why_not(facts, entry, errors);
    if (reason.empty()) {
      taken = loaded;
      relative = path && entry.front() != '/';
      break;
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
    if (loaded.error.empty() && !loaded.tables.empty() && !chosen) break;  // NCCL has found a network
  }
  if (!taken) {
    return {
        name, Status::kFailed, fmt::format("{}{} {}", said, value.empty() ? ", and" : ":", reasons),
        fmt::format("now a job would use NCCL's own InfiniBand or Socket network; {}", how_to_load(facts))};
  }
  return {name, relative ? Status::kWarning : Status::kOk,
          fmt::format("{}: {} takes ncclNetPlugin_v{} of {}", said, nccl_text(facts),
                      table_taken(taken->tables, facts.release), taken->path),
          relative ? "a relative path holds only in this folder: write it in full" : ""};
}

Check check_net(const NcclFacts& facts) {
  const std::string name = "NCCL_NET", ours = net_name(facts), value = facts.value("NCCL_NET");
  if (value.empty()) {
    return {
        name, Status::kWarning,
        "not set: where the plugin does not start, NCCL goes on over InfiniBand or sockets without a word",
        fmt::format("export NCCL_NET={}", ours)};
  }
  if (::strcasecmp(value.c_str(), ours.c_str()) == 0)
    return {name, Status::kOk, fmt::format("{}: a job fails rather than use another network", value), {}};
  return {name, Status::kFailed,
          fmt::format("NCCL_NET={}: NCCL uses the network of that name, not {}", value, ours),
          fmt::format("export NCCL_NET={}", ours)};
}

std::vector<Check> check_later_communicators(const NcclFacts& facts) {
  const std::string count = facts.value("NCCL_NET_PLUGIN_REF_COUNT");
  if (!forgets_plugin(facts.release, count)) return {};
  return {
      {"later communicators", Status::kWarning,
       fmt::format(
           "{} forgets the plugin when the last communicator of a process ends; one that is made after that "
           "gets NCCL's own network",
           nccl_text(facts)),
       "export NCCL_NET_PLUGIN_REF_COUNT=1"}};
}

std::vector<Check> check_start(const NcclFacts& facts, const LoadedPlugin& plugin) {
  const StartedPlugin started = facts.start(plugin.path, table_taken(plugin.tables, facts.release));
  // The plugin's lines begin "NET/Tombolo : ", which nobody need read here.
  const std::string prefix = fmt::format("NET/{} : ", net_name(facts));
  std::vector<Check> said;
  std::string last_warning;
  for (const StartedPlugin::Line& line : started.lines) {
    const std::string text = line.text.starts_with(prefix) ? line.text.substr(prefix.size()) : line.text;
    said.push_back({"plugin says", line.warning ? Status::kWarning : Status::kOk, text, {}});
    if (line.warning) last_warning = text;
  }
  std::vector<Check> checks;
  if (started.error.empty()) {
    checks.push_back(
        {"plugin starts", Status::kOk, fmt::format("devices: {}", fmt::join(started.devices, ", ")), {}});
  } else {
    checks.push_back(
        {"plugin starts", Status::kFailed,
         last_warning.empty() ? started.error : fmt::format("{} ({})", last_warning, started.error),
         "correct that: with NCCL_NET set a job would end here, without it NCCL would use its own network"});
  }
  std::move(said.begin(), said.end(), std::back_inserter(checks));
  return checks;
}

/// Where NCCL takes a tuner or profiler from, where that is not this plugin's library.
std::vector<Check> check_companion(const NcclFacts& facts, std::string_view variable, std::string_view kind) {
  const std::string value = facts.value(std::string(variable));
  const std::string name = fmt::format("{} plugin", kind);
  const std::string usual = fmt::format("libnccl-{}.so", kind);
  if (value == "none") return {{name, Status::kOk, fmt::format("{}=none: NCCL uses none", variable), {}}};
  if (value.empty()) {
    const LoadedPlugin loaded = facts.load(usual);
    if (!loaded.error.empty()) return {};
    return {{name, Status::kWarning,
             fmt::format("NCCL takes its {} from {}, which the loader finds", kind, loaded.path),
             fmt::format("export {}=none, or the path of the one that is meant", variable)}};
  }
  const LoadedPlugin loaded = facts.load(value);
  if (loaded.error.empty())
    return {{name, Status::kOk, fmt::format("{}: NCCL takes {}", variable, loaded.path), {}}};
  const LoadedPlugin by_name = facts.load(fmt::format("libnccl-{}-{}.so", kind, value));
  if (by_name.error.empty())
    return {{name, Status::kOk, fmt::format("{}: NCCL takes {}", variable, by_name.path), {}}};
  return {{name, Status::kWarning, fmt::format("{}={}: {}", variable, value, loaded.error),
           fmt::format("correct or unset {}; NCCL then goes on without it, in silence", variable)}};
}

std::vector<Check> check_host(const NcclFacts& facts) {
  std::vector<Check> checks;
  if (facts.gpus == 0) {
    checks.push_back({"GPUs", Status::kWarning, "none on this host",
                      "NCCL itself runs only where there is one: run this on the job's hosts too"});
  } else if (!facts.why_no_driver.empty()) {
    checks.push_back({"CUDA driver", Status::kFailed, facts.why_no_driver,
                      "install the driver; in a container, start it with the GPUs (docker run --gpus all, "
                      "NVIDIA_DRIVER_CAPABILITIES=compute,utility)"});
  }
  if (facts.shared_bytes) {
    const bool enough = *facts.shared_bytes >= kSharedEnough;
    checks.push_back({"/dev/shm", enough ? Status::kOk : Status::kWarning, format_size(*facts.shared_bytes),
                      enough ? ""
                             : "NCCL's ranks of one host share memory there, and fail where it is full: "
                               "docker run --shm-size=1g, or --ipc=host"});
  }
  return checks;
}

std::string cluster_bytes(const NcclFacts& facts) {
  const std::string path = facts.value("TOMBOLO_CLUSTER");
  if (path.empty()) return "none";
  if (!facts.cluster) return fmt::format("{} cannot be read", path);
  // As the plugin shows it.
  return fmt::format("{} bytes, content {:016x}", facts.cluster->size(),
                     net_plugin::TunerFile::hash_of(*facts.cluster));
}

}  // namespace

std::vector<Check> check_nccl(const NcclFacts& facts) {
  std::vector<Check> checks{check_library(facts)};
  auto add = [&](std::vector<Check> more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  add(check_variables(facts));
  std::optional<LoadedPlugin> plugin;
  checks.push_back(check_plugin(facts, plugin));
  checks.push_back(check_net(facts));
  if (plugin) {
    add(check_later_communicators(facts));
    add(check_start(facts, *plugin));
  }
  add(check_companion(facts, "NCCL_TUNER_PLUGIN", "tuner"));
  add(check_companion(facts, "NCCL_PROFILER_PLUGIN", "profiler"));
  add(check_nic_filters(facts));
  add(check_gpu_reach(facts));
  add(check_staging(facts));
  checks.push_back(check_one_sided(facts));
  add(check_host(facts));
  // One that cannot be read is another check's.
  if (facts.cluster) checks.push_back({"cluster file's bytes", Status::kOk, cluster_bytes(facts), {}});
  return checks;
}

NcclAgreement nccl_agreement(const NcclFacts& facts) {
  NcclAgreement values{{"NCCL", release_text(facts.release)}, {"the cluster file", cluster_bytes(facts)}};
  for (const auto& [name, variable] : facts.variables) {
    // The others say where a library or file lies, or concern one host.
    for (std::string_view alike :
         {"NCCL_NET", "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
          "NCCL_P2P_NET_CHUNKSIZE", "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_CROSS_NIC", "NCCL_TUNER_PLUGIN",
          "TOMBOLO_NET_NAME", "TOMBOLO_TRANSPORTS", "TOMBOLO_REQUIRE", "TOMBOLO_NET_DEVICES", "TOMBOLO_TUNER",
          "TOMBOLO_TUNER_LINK"}) {
      if (name == alike) values[name] = variable.value;
    }
  }
  return values;
}

std::vector<Check> check_nccl_agreement(const std::vector<RankAgreement>& ranks) {
  std::map<std::string, std::map<std::string, std::string>>
      seen;  // name, value -> the first rank that has it
  for (const RankAgreement& rank : ranks) {
    for (const auto& [name, value] : rank.values) seen[name];
  }
  for (const RankAgreement& rank : ranks) {
    for (auto& [name, values] : seen) {
      const auto found = rank.values.find(name);
      const std::string value = found != rank.values.end() ? found->second : "not set";
      values.try_emplace(value, fmt::format("rank {} on {}", rank.rank, rank.host));
    }
  }
  std::vector<Check> checks;
  for (const auto& [name, values] : seen) {
    if (values.size() < 2) continue;
    std::string text;
    for (const auto& [value, where] : values)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", where, value);
    checks.push_back(
        {fmt::format("{} alike", name), Status::kFailed, text,
         fmt::format("give every rank the same: ranks that differ in {} choose differently, and hang",
                     name)});
  }
  if (checks.empty())
    checks.push_back({"ranks agree",
                      Status::kOk,
                      fmt::format("{} ranks have the same NCCL and settings", ranks.size()),
                      {}});
  return checks;
}

}  // namespace tombolo::doctor
