#include "transport/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace tombolo::transport::shm {
namespace {

std::string refusal_of(int descriptor, std::int64_t process = ::getpid()) {
  try {
    Mapping::open(process, descriptor);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
    return error.what();
  }
  return "it was mapped";
}

void expect_in(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

TEST(ShmSegment, IsSharedByAllWhoMapIt) {
  Descriptor file;
  Mapping mine = Mapping::create(file);
  ASSERT_TRUE(mine);
  EXPECT_EQ(mine->rings[0].taken, 0u) << "it begins with zeros";
  mine->nonce[0] = std::byte{9};
  Mapping theirs = Mapping::open(::getpid(), file.get());
  EXPECT_EQ(theirs->nonce[0], std::byte{9});
  theirs->rings[1].taken = 5;
  EXPECT_EQ(mine->rings[1].taken, 5u);
  // It lives on without its file and without the one who made it.
  file.reset();
  mine = Mapping();
  EXPECT_FALSE(mine);
  EXPECT_EQ(theirs->rings[1].taken, 5u);
}

// Its readers trust that its bytes stay there.
TEST(ShmSegment, CannotShrinkUnderItsReaders) {
  Descriptor file;
  Mapping mine = Mapping::create(file);
  EXPECT_NE(::ftruncate(file.get(), 100), 0);
  EXPECT_NE(::ftruncate(file.get(), 2 * sizeof(Segment)), 0);
}

TEST(ShmSegment, WhatIsNoSegmentIsNotMapped) {
  Descriptor device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  expect_in(refusal_of(device.get()), "no regular file");
  expect_in(refusal_of(1 << 20), "No such file");
  expect_in(refusal_of(0, 0x7fff'fff0), "No such file");
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  Descriptor reads(pipe[0]), writes(pipe[1]);
  expect_in(refusal_of(reads.get()), "no regular file");  // which would else wait for a writer
}

TEST(ShmSegment, OfAnotherSizeOrWithoutItsSealsIsNotMapped) {
  const auto memory = [](std::size_t bytes, int seals) {
    Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    if (seals != 0) {
      EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    }
    return file;
  };
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr std::string_view kWhy = "is not shared memory of a peer of this build";
  expect_in(refusal_of(memory(sizeof(Segment) - 4096, kAll).get()), kWhy);
  expect_in(refusal_of(memory(sizeof(Segment) + 4096, kAll).get()), kWhy);
  // The peer could cut it short later, and reading it would end this process.
  expect_in(refusal_of(memory(sizeof(Segment), 0).get()), kWhy);
  expect_in(refusal_of(memory(sizeof(Segment), F_SEAL_GROW | F_SEAL_SEAL).get()), kWhy);
  EXPECT_EQ(refusal_of(memory(sizeof(Segment), kAll).get()), "it was mapped");
}

}  // namespace
}  // namespace tombolo::transport::shm
