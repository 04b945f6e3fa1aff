#include "collectives/discovery/islands_file.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "transport/sockets/secret.h"

namespace tombolo::collectives {
namespace {

/// Of this process's network namespace, never given twice while the machine runs; 0 before Linux 5.14.
std::uint64_t network_namespace() {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return 0;
#ifdef SO_NETNS_COOKIE
  if (::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) cookie = 0;
#endif
  ::close(socket);
  return cookie;
}

std::string text_of(std::span<const HostIdentity> hosts) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::string text = fmt::format("{} {}", boot, network_namespace());
  for (const HostIdentity& host : hosts) text += fmt::format("\n{} {}", host.name, host.addresses);
  return text;
}

std::string folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/tombolo";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/tombolo";
  return {};
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

IslandsFile::IslandsFile(std::string path, std::span<const HostIdentity> hosts, Log log)
    : path_(std::move(path)), identity_(text_of(hosts)), hosts_(hosts.size()), log_(std::move(log)) {
  if (!path_.empty() || network_namespace() == 0) return;
  if (const std::string in = folder(); !in.empty()) {
    remove_old(in);
    path_ = fmt::format("{}/islands-{:016x}.json", in, fnv1a<std::uint64_t>(identity_));
  }
}

std::optional<Islands> IslandsFile::load() const {
  std::error_code none;
  if (path_.empty() || !std::filesystem::exists(path_, none)) return {};
  try {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    const Json json = parse_peer_json(text.str(), path_);
    const auto age = std::chrono::seconds(now() - json.at("measured").get<std::int64_t>());
    if (json.at("identity") != identity_ || age > kIslandsLifetime || age < std::chrono::seconds::zero())
      return {};
    return Islands::decode(json.at("islands").dump(), hosts_, path_);
  } catch (const std::exception& error) {
    log_.warning("{}: not used, the hosts measure anew: {}", path_, error.what());
    return {};
  }
}

/// Sets of hosts that do not come back leave nothing for longer than this.
void IslandsFile::remove_old(const std::filesystem::path& in) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(in, error), end; !error && at != end; at.increment(error)) {
    std::error_code of_file;
    const auto written = at->last_write_time(of_file);
    if (!of_file && at->path().filename().string().starts_with("islands-") &&
        std::filesystem::file_time_type::clock::now() - written > kIslandsLifetime)
      std::filesystem::remove(at->path(), of_file);
  }
}

void IslandsFile::remove() const noexcept {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove(path_, error);
}

void IslandsFile::save(const Islands& islands) const {
  if (path_.empty()) return;
  const std::filesystem::path path(path_);
  std::uint64_t number = 0;  // others may write the same file, on other hosts too
  transport::random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  const std::string made = fmt::format("{}.{:016x}", path_, number);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(made, std::ios::trunc);
  file << Json{{"identity", identity_}, {"measured", now()}, {"islands", Json::parse(islands.encode())}}.dump(
              1)
       << '\n';
  file.close();
  if (file) std::filesystem::rename(made, path, error);
  if (!file || error) {
    std::filesystem::remove(made, error);
    log_.info("{}: cannot be written; the next job measures anew", path_);
  }
}

}  // namespace tombolo::collectives
