#include "collectives/stuck/job_note.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace {

constexpr const char* kName = "tombolo-job";
constexpr std::size_t kLongest = 4096;  // bytes

std::optional<JobNote> note_in(const std::string& path) {
  // O_NONBLOCK: the name may be one that another program gave to something else.
  const transport::Descriptor file(transport::kernel().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::array<char, kLongest> text{};
  const ssize_t length = ::pread(file.get(), text.data(), text.size(), 0);
  if (length <= 0) return std::nullopt;
  try {
    const Json json = parse_peer_json({text.data(), static_cast<std::size_t>(length)}, path);
    JobNote note;
    json.at("address").get_to(note.address);
    json.at("port").get_to(note.port);
    json.at("prefix").get_to(note.prefix);
    json.at("rank").get_to(note.rank);
    json.at("size").get_to(note.size);
    std::array<std::uint8_t, transport::Secret::kBytes> secret{};
    json.at("secret").get_to(secret);
    note.secret = transport::Secret::from_bytes(std::as_bytes(std::span(secret)));
    return note;
  } catch (const std::exception&) {  // whatever it is, it is no note
    return std::nullopt;
  }
}

}  // namespace

transport::Descriptor JobNote::publish() const {
  std::array<std::uint8_t, transport::Secret::kBytes> bytes{};
  std::ranges::copy(secret.bytes(), std::as_writable_bytes(std::span(bytes)).begin());
  const Json json{{"address", address}, {"port", port}, {"prefix", prefix},
                  {"secret", bytes},    {"rank", rank}, {"size", size}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  transport::Descriptor file(transport::kernel().memfd_create(kName, MFD_CLOEXEC));
  if (!file) fail_errno(errno, "memfd_create for the note of this job");
  const ssize_t written = transport::kernel().write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) fail_errno(errno, "write the note of this job");
  return file;
}

std::vector<JobNote> job_notes_of(std::int64_t process) {
  std::vector<JobNote> notes;
  const std::string wanted = std::string("/memfd:") + kName + " (deleted)";
  std::error_code error;
  auto at = std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(at->path(), gone).string() != wanted) continue;
    if (auto note = note_in(at->path().string())) notes.push_back(*std::move(note));
  }
  std::ranges::stable_sort(notes, {}, &JobNote::port);
  return notes;
}

}  // namespace tombolo::collectives
