#include "topology/system/processors.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tombolo::topology {
namespace {

/// The value of "model name\t: Intel" in /proc/cpuinfo, for the key "model name"; empty where it is absent.
std::string value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(key)) continue;
    const auto colon = line.find_first_not_of(" \t?", key.size());  // text() makes a tab a question mark
    if (colon == std::string_view::npos || line[colon] != ':') continue;
    const auto value = line.find_first_not_of(' ', colon + 1);
    return value == std::string_view::npos ? std::string() : std::string(line.substr(value));
  }
  return {};
}

int number_of(const std::string& text) {
  int value = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && value >= 0 && value < 4096 ? value : 0;
}

/// Whether the text is a mask as the kernel writes it, and so safe to pass on.
bool is_mask(const std::string& text) {
  return !text.empty() && text.size() < 4096 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isxdigit(c) != 0 || c == ',';
  });
}

}  // namespace

std::vector<NumaNode> read_numa_nodes(const SysTree& tree) {
  std::vector<NumaNode> all;
  for (const auto& name : tree.names("/sys/devices/system/node")) {
    if (!name.starts_with("node")) continue;
    NumaNode node;
    auto [rest, status] = std::from_chars(name.data() + 4, name.data() + name.size(), node.id);
    if (status != std::errc{} || rest != name.data() + name.size() || node.id < 0 || node.id >= 4096)
      continue;
    node.cpu_mask = tree.text("/sys/devices/system/node/" + name + "/cpumap").value_or("");
    if (!is_mask(node.cpu_mask)) node.cpu_mask.clear();
    all.push_back(std::move(node));
  }
  std::sort(all.begin(), all.end(), [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return all;
}

Processor read_processor(const SysTree& tree) {
  // All processors are alike, so the first page of the file, which has the first of them, is enough.
  const std::string lines = tree.text("/proc/cpuinfo").value_or("");
  Processor processor;
  processor.vendor = value_of(lines, "vendor_id");
  if (!processor.vendor.empty()) {
    processor.arch = "x86_64";
    processor.family = number_of(value_of(lines, "cpu family"));
    processor.model = number_of(value_of(lines, "model"));
  } else if (!value_of(lines, "CPU implementer").empty()) {
    processor.arch = "arm64";
  } else if (value_of(lines, "cpu").starts_with("POWER")) {
    processor.arch = "ppc64";
  }
  return processor;
}

}  // namespace tombolo::topology
