#include "tools/doctor/nccl_rules.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace tombolo::doctor {
namespace {

struct Newest {
  NcclRelease since;
  int table;
};
constexpr std::array kNewest{Newest{21300, 6},  Newest{21900, 7},  Newest{22000, 8}, Newest{22400, 9},
                             Newest{22600, 10}, Newest{22800, 11}, Newest{23000, 12}};
constexpr std::array kNewestRma{Newest{23003, 13}, Newest{23007, 14}, Newest{23100, 15}};
/// Every release that looks for one of the tables above still looks for v6.
constexpr int kOldestTable = 6;
constexpr NcclRelease kPathless227 = 22703;

bool at_least(NcclRelease release, NcclRelease since) noexcept {
  return release == kUnknownRelease || release >= since;
}

}  // namespace

std::string release_text(NcclRelease release) {
  if (release == kUnknownRelease) return "2.?";
  return fmt::format("{}.{}.{}", release / 10000, release / 100 % 100, release % 100);
}

int newest_net_table(NcclRelease release) noexcept {
  int newest = 0;
  for (const Newest& each : kNewest) {
    if (at_least(release, each.since)) newest = each.table;
  }
  return newest;
}

int rma_table(NcclRelease release) noexcept {
  int newest = 0;
  for (const Newest& each : kNewestRma) {
    if (at_least(release, each.since)) newest = each.table;
  }
  return newest;
}

bool takes_path(NcclRelease release) noexcept {
  return at_least(release, 22100) && release != kPathless227;
}

bool takes_list(NcclRelease release) noexcept {
  return at_least(release, 22700);
}

bool reads_named_file(NcclRelease release) noexcept {
  return at_least(release, 22300);
}

bool takes_home_from_environment(NcclRelease release) noexcept {
  return at_least(release, 23000);
}

bool forgets_plugin(NcclRelease release, std::string_view reference_count) noexcept {
  if (release < 22700 || release >= 23000) return false;
  // 2.27 counts the process as a user of the plugin; 2.28 and 2.29 do so only where they are told to.
  return release < 22800 ? reference_count == "0" : reference_count.empty() || reference_count == "0";
}

std::vector<std::string> plugin_entries(std::string_view value, NcclRelease release) {
  std::vector<std::string> entries;
  if (!takes_list(release)) return {std::string(value)};
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t comma = std::min(value.find(',', begin), value.size());
    if (comma > begin) entries.emplace_back(value.substr(begin, comma - begin));
    begin = comma + 1;
  }
  if (entries.empty()) entries.emplace_back();
  return entries;
}

std::vector<std::string> libraries_tried(std::string_view entry, NcclRelease release) {
  if (entry.empty()) return {"libnccl-net.so"};
  std::string by_name = fmt::format("libnccl-net-{}.so", entry);
  // The one release that tells a file's name from another by how it begins and ends.
  if (release == kPathless227 && entry.starts_with("lib") && entry.ends_with(".so"))
    return {std::string(entry)};
  if (!takes_path(release)) return {by_name};
  return {std::string(entry), by_name};
}

int table_taken(std::span<const int> offered, NcclRelease release) noexcept {
  int taken = 0;
  for (const int version : offered) {
    if (version >= kOldestTable && version <= newest_net_table(release)) taken = std::max(taken, version);
  }
  return taken;
}

}  // namespace tombolo::doctor
