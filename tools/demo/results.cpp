#include "tools/demo/results.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace tombolo::tools::demo {
namespace {

namespace fs = std::filesystem;

struct File {
  const char *name, *what;
};
constexpr std::array<File, 10> kFiles{{{"report.html", "the page to look at"},
                                       {"report.json", "all figures"},
                                       {"trace.json", "timelines, for chrome://tracing or Perfetto"},
                                       {"cluster.json", "the cluster file, as measured"},
                                       {"layers.json", "times of the layers (tombolo simulate --profile)"},
                                       {"plan-one-communicator.json", nullptr},
                                       {"plan-per-peer.json", nullptr},
                                       {"plan-holmes.json", "the plan that the ranks followed"},
                                       {"train.log", "the long run, step by step"},
                                       {"model.bin", "its weights, in llm.c's format"}}};

/// The files that an earlier demo wrote here, as its report.json lists them.
std::set<std::string> marked_files(const std::string& report) {
  std::error_code ignored;
  if (!fs::exists(report, ignored)) return {};
  try {
    std::set<std::string> names;
    std::ifstream file(report);
    const Json parsed = Json::parse(file);  // must outlive the loop over its part
    for (const Json& name : parsed.at("files")) names.insert(name.get<std::string>());
    return names;
  } catch (const Json::exception&) {
    return {};  // the file is not a report of the demo
  }
}

}  // namespace

Results::Results(const std::string& folder) : folder_(folder) {
  std::error_code error;
  made_ = !fs::exists(folder_, error);
  fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_) || ::access(folder_.c_str(), W_OK | X_OK) != 0) {
    fail(Cause::kInvalidUsage, "--out {}: not a folder that can be written to{}", folder_,
         error ? ": " + error.message() : "");
  }
  const std::set<std::string> marked = marked_files(path("report.json"));
  for (const File& file : kFiles) {
    if (fs::exists(path(file.name), error) && !marked.contains(file.name)) {
      fail(Cause::kInvalidUsage,
           "--out {}: {} is there, and no report.json of a demo lists it as its own; move it away, or choose "
           "another folder",
           folder_, file.name);
    }
  }
  for (const File& file : kFiles) fs::remove(path(file.name), error);
}

Results::~Results() {
  std::error_code ignored;
  if (written_) return;
  if (begun_) {
    for (const File& file : kFiles) fs::remove(path(file.name), ignored);
  }
  if (made_) fs::remove(folder_, ignored);  // the folder is removed only if it is empty
}

std::string Results::path(const std::string& name) const {
  return folder_ + "/" + name;
}

void Results::write(const Report& report, const Session& session) {
  begun_ = true;
  report.cluster.save(path("cluster.json"));
  for (const char* name :
       {"plan-one-communicator.json", "plan-per-peer.json", "plan-holmes.json", "train.log", "model.bin"}) {
    std::error_code error;
    fs::copy_file(session.file(name), path(name), fs::copy_options::overwrite_existing, error);
    if (error) fail(Cause::kSystem, "copying {} to {}: {}", session.file(name), path(name), error.message());
  }
  write_json_file(path("layers.json"), report.profile->to_json());
  write_json_file(path("trace.json"), report.to_chrome_trace());
  write_json_file(path("report.json"), report.to_json());
  write_text_file(path("report.html"), report.to_html());
  written_ = true;
}

std::vector<std::string> Results::names() {
  std::vector<std::string> all;
  for (const File& file : kFiles) all.emplace_back(file.name);
  return all;
}

std::string Results::listing() const {
  std::string text;
  for (const File& file : kFiles) {
    if (file.what == nullptr) continue;
    text += fmt::format("{:<30} {}\n", path(file.name), file.what);
  }
  return text;
}

}  // namespace tombolo::tools::demo
