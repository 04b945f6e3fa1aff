#include "trainer/checkpoint/shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <string_view>

#include "base/crc32c.h"
#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "trainer/checkpoint/stage_share.h"
#include "trainer/testing/expect_refusal.h"
#include "trainer/testing/marked_stage.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;
using test::marked_shape;

class Shard : public testing::Test {
 protected:
  Shard() {
    header_.id = {100, 0x0123456789abcdef};
    header_.generation = 3;
    header_.shard = {1, 2};
    header_.shape = marked_shape();
    header_.whole_before = true;
    header_.data_position = R"({"seed":7,"step":100})";
    header_.settings = R"({"lr":0.001})";
    header_.chunk_floats = 100;  // many chunks
    header_.pieces = shard_pieces(stage_share(StageParameters(header_.shape, 2, 2), 1, 2));
    for (std::size_t at = 0; at < header_.floats(); ++at) data_.push_back(static_cast<float>(at) / 3);
    header_.checksums = chunk_checksums(data_, header_.chunk_floats);
    head_ = encode_shard_head(header_);
    bytes_ = head_;
    bytes_.append(reinterpret_cast<const char*>(data_.data()), data_.size() * sizeof(float));
    folder_.write("shard", bytes_);
  }

  /// What reading all of a file of these bytes throws; empty for nothing.
  std::string trouble_with(const std::string& bytes) {
    folder_.write("bad", bytes);
    try {
      ShardFile file(folder_.file("bad"), disk_);
      for (std::size_t chunk = 0; chunk < file.header().checksums.size(); ++chunk) {
        std::vector<float> values(floats_of_chunk(file.header(), chunk));
        file.read_chunk(chunk, values);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder_.file("bad")), std::string::npos) << error.what();
      return error.what();
    }
    return {};
  }

  void expect_trouble(const std::string& bytes, const std::string& words) {
    const std::string found = trouble_with(bytes);
    EXPECT_NE(found.find(words), std::string::npos) << "\"" << found << "\" lacks \"" << words << "\"";
  }

  TemporaryFolder folder_;
  FileSystem disk_;
  ShardHeader header_;
  std::vector<float> data_;
  std::string head_, bytes_;
};

TEST_F(Shard, IsReadBackToTheBit) {
  ShardFile file(folder_.file("shard"), disk_);
  const ShardHeader& read = file.header();
  EXPECT_EQ(read.id, header_.id);
  EXPECT_EQ(read.generation, 3);
  EXPECT_EQ(read.shard, header_.shard);
  EXPECT_EQ(read.shape, header_.shape);
  EXPECT_TRUE(read.whole_before);
  EXPECT_EQ(read.data_position, header_.data_position);
  EXPECT_EQ(read.settings, header_.settings);
  EXPECT_EQ(read.pieces, header_.pieces);
  EXPECT_EQ(read.checksums, header_.checksums);
  EXPECT_EQ(head_.size() % 64, 0U);
  ASSERT_GT(read.checksums.size(), 3U);
  std::vector<float> all;
  for (std::size_t chunk = 0; chunk < read.checksums.size(); ++chunk) {
    std::vector<float> values(floats_of_chunk(read, chunk));
    file.read_chunk(chunk, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  EXPECT_EQ(all, data_);
}

TEST_F(Shard, ThatIsDamagedIsRefusedWithTheCause) {
  expect_trouble("", "0 bytes are too few");
  expect_trouble(bytes_.substr(0, 20), "20 bytes are too few");
  expect_trouble(bytes_.substr(0, 100), "cut short");
  expect_trouble(bytes_.substr(0, bytes_.size() - 1), "cut short");
  expect_trouble(bytes_ + "x", "too long");
  expect_trouble("X" + bytes_.substr(1), "another kind of file");
  std::string newer = bytes_;
  newer[8] = 2;
  expect_trouble(newer, "version 2, but this build reads version 1");
  expect_refusal([&] { ShardFile(folder_.file("none"), disk_); }, {"none", "No such file"});
  expect_refusal([&] { ShardFile(folder_.path().string(), disk_); }, {"not a regular file"});
}

TEST_F(Shard, NoSingleWrongByteGoesUnnoticed) {
  std::mt19937 random(test_seed());
  const auto with_wrong = [&](std::size_t at) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random() % 255));
    return bytes;
  };
  for (std::size_t at = 0; at < head_.size(); at += 1 + random() % 16)
    EXPECT_NE(trouble_with(with_wrong(at)), "") << "byte " << at << " of the head";
  for (std::size_t at = head_.size(); at < bytes_.size(); at += 1 + random() % 500)
    EXPECT_NE(trouble_with(with_wrong(at)).find("chunk"), std::string::npos) << "byte " << at;
}

// Whoever makes the checksums fit may write what he likes.
TEST_F(Shard, WithFittingChecksumsAndAbsurdFiguresIsRefused) {
  const auto with = [&](const std::function<void(ShardHeader&)>& change) {
    ShardHeader header = header_;
    change(header);
    return encode_shard_head(header);
  };
  const auto refused = [](const std::string& head, const char* words) {
    expect_refusal([&] { static_cast<void>(parse_shard_head(head)); }, {words});
  };
  EXPECT_EQ(parse_shard_head(with([](ShardHeader&) {})).pieces, header_.pieces);
  refused(with([](ShardHeader& header) { header.pieces[0].position = parameter_count(header.shape); }),
          "a piece of");
  refused(with([](ShardHeader& header) { header.pieces[1].offset += 1; }), "a piece of");
  refused(with([](ShardHeader& header) { header.pieces[1].elements = ~std::size_t{0}; }), "a piece of");
  refused(with([](ShardHeader& header) { header.checksums.pop_back(); }), "checksums for");
  refused(with([](ShardHeader& header) { header.chunk_floats = 0; }), "chunks of 0");
  refused(with([](ShardHeader& header) { header.chunk_floats = std::size_t{1} << 60; }), "chunks of");
  refused(with([](ShardHeader& header) { header.shape.layers = -1; }), "layers is -1");
  refused(with([](ShardHeader& header) { header.id.step = -5; }), "none");
  const std::string nested = std::string(1'000, '[') + std::string(1'000, ']');
  refused(with([&](ShardHeader& header) { header.data_position = nested; }), "nested more than 64 deep");
  refused(head_ + " ", "description of");
}

TEST_F(Shard, WithoutSettingsAndWithMembersOfAnotherBuildIsRead) {
  constexpr std::size_t kPrefix = 32;
  const std::string_view known = "\"settings\"", other = "\"whatever\"";
  std::string head = head_;
  head.replace(head.find(known), known.size(), other);
  const auto seal = [&](std::size_t at, std::string_view sealed) {
    const std::uint32_t checksum = crc32c(std::as_bytes(std::span(sealed)));
    std::memcpy(head.data() + at, &checksum, sizeof checksum);
  };
  seal(24, std::string_view(head).substr(kPrefix));
  seal(28, std::string_view(head).substr(0, 28));
  const ShardHeader read = parse_shard_head(head);
  EXPECT_EQ(read.settings, "{}");
  EXPECT_EQ(read.data_position, header_.data_position);
  EXPECT_EQ(read.pieces, header_.pieces);
}

TEST_F(Shard, RandomBytesAreRefused) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (random() % 2 == 0) bytes = head_.substr(0, random() % 40) + bytes;
    EXPECT_NE(trouble_with(bytes), "");
  }
}

}  // namespace
}  // namespace tombolo::trainer
