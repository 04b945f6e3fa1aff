#include "trainer/report/event_file.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/crc32c.h"
#include "base/error.h"

namespace tombolo::trainer {
namespace {

// Protocol buffers' wire types.
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

// Fields of tensorflow.Event, Summary and Summary.Value.
constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr unsigned kSummaryValue = 1;
constexpr unsigned kTag = 1, kSimpleValue = 2;

template <typename Number>
void append_number(std::string& to, Number number) {
  static_assert(std::endian::native == std::endian::little, "the files are little-endian");
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof bytes);
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

void append_key(std::string& to, unsigned field, unsigned wire_type) {
  append_varint(to, field << 3 | wire_type);
}

void append_bytes(std::string& to, unsigned field, std::string_view bytes) {
  append_key(to, field, kBytes);
  append_varint(to, bytes.size());
  to += bytes;
}

std::string event_at(double wall_time) {
  std::string event;
  append_key(event, kWallTime, kFixed64);
  append_number(event, wall_time);
  return event;
}

/// TFRecord's masking: a CRC stored beside data that holds CRCs itself would be weak.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8U;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFile::EventFile(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_errno(error.value(), fmt::format("TensorBoard folder {}: creating", folder));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const double time = now();
  path_ = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder, static_cast<std::int64_t>(time), host,
                      getpid());
  file_ = std::fopen(path_.c_str(), "we");
  if (file_ == nullptr) fail_errno(errno, fmt::format("TensorBoard events {}: creating", path_));
  std::string event = event_at(time);
  append_bytes(event, kFileVersion, "brain.Event:2");
  try {
    record(event);
  } catch (...) {
    std::fclose(file_);
    throw;
  }
}

EventFile::~EventFile() {
  std::fclose(file_);
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double wall_time, double value) {
  std::string scalar;
  append_bytes(scalar, kTag, tag);
  append_key(scalar, kSimpleValue, kFixed32);
  append_number(scalar, static_cast<float>(value));
  std::string summary;
  append_bytes(summary, kSummaryValue, scalar);
  std::string event = event_at(wall_time);
  append_key(event, kStep, kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, kSummary, summary);
  record(event);
}

void EventFile::record(const std::string& event) {
  std::string frame;
  append_number(frame, static_cast<std::uint64_t>(event.size()));
  append_number(frame, masked_crc(frame));
  frame += event;
  append_number(frame, masked_crc(event));
  if (std::fwrite(frame.data(), 1, frame.size(), file_) != frame.size() || std::fflush(file_) != 0)
    fail_errno(errno, fmt::format("TensorBoard events {}: writing", path_));
}

}  // namespace tombolo::trainer
