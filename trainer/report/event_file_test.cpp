#include "trainer/report/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"

namespace tombolo::trainer {
namespace {

/// Reads what the writer wrote, by the formats' definitions and not by the writer's code.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.size(); }

  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string take(std::size_t count) {
    if (count > bytes_.size() - at_) throw std::out_of_range("the record ends early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

/// A message's fields as the bytes of their values.
std::map<std::uint64_t, std::string> fields(const std::string& message) {
  std::map<std::uint64_t, std::string> found;
  Reader reader(message);
  while (!reader.done()) {
    const std::uint64_t key = reader.varint();
    std::string& value = found[key >> 3];
    switch (key & 7) {
      case 0:
        value = std::to_string(reader.varint());
        break;
      case 1:
        value = reader.take(8);
        break;
      case 2:
        value = reader.take(reader.varint());
        break;
      case 5:
        value = reader.take(4);
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
    }
  }
  return found;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return rotated << 15 | rotated >> 17;
}

std::vector<std::string> records(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> found;
  Reader reader(text.str());
  const auto crc = [](const std::string& bytes) { return crc32c(std::as_bytes(std::span(bytes))); };
  while (!reader.done()) {
    const std::string length = reader.take(8);
    EXPECT_EQ(unmasked(reader.number<std::uint32_t>()), crc(length));
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, length.data(), sizeof bytes);
    found.push_back(reader.take(bytes));
    EXPECT_EQ(unmasked(reader.number<std::uint32_t>()), crc(found.back()));
  }
  return found;
}

template <typename Number>
Number as(const std::string& bytes) {
  EXPECT_EQ(bytes.size(), sizeof(Number));
  Number value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

class EventFiles : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "tombolo_events_" + std::to_string(getpid());
};

TEST_F(EventFiles, HoldTheVersionAndTheScalarsThatWereWritten) {
  std::string path;
  {
    EventFile file(folder_ + "/run");
    path = file.path();
    file.scalar("loss", 0, 1000.5, 5.25);
    file.scalar("tokens/s", 300, 1001.5, 1e6);
  }
  EXPECT_NE(path.find("/events.out.tfevents."), std::string::npos);
  const std::vector<std::string> found = records(path);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(fields(found[0])[3], "brain.Event:2");
  EXPECT_GT(as<double>(fields(found[0])[1]), 1.6e9);

  auto event = fields(found[1]);
  EXPECT_EQ(as<double>(event[1]), 1000.5);
  EXPECT_EQ(event[2], "0");
  auto value = fields(fields(event[5])[1]);
  EXPECT_EQ(value[1], "loss");
  EXPECT_EQ(as<float>(value[2]), 5.25F);

  event = fields(found[2]);
  EXPECT_EQ(event[2], "300");
  value = fields(fields(event[5])[1]);
  EXPECT_EQ(value[1], "tokens/s");
  EXPECT_EQ(as<float>(value[2]), 1e6F);
}

TEST_F(EventFiles, AnEventIsInTheFileAsSoonAsItIsWritten) {
  EventFile file(folder_);
  const std::uintmax_t before = std::filesystem::file_size(file.path());
  file.scalar("loss", 1, 0, 1);
  EXPECT_GT(std::filesystem::file_size(file.path()), before);
}

TEST_F(EventFiles, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_) << "a file";
  try {
    EventFile file(folder_ + "/run");
    FAIL() << "a folder was made below a file";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(folder_ + "/run"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tombolo::trainer
