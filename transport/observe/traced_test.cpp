#include "transport/observe/traced.h"

#include <gtest/gtest.h>

#include <array>

#include "transport/testing/inert_connection.h"

namespace tombolo::transport {
namespace {

/// Notes what it is asked to register; nothing can be sent over it.
class Registering final : public test::InertConnection<> {
 public:
  struct Call {
    std::span<std::byte> range;
    int file = -1;
    std::uint64_t offset = 0;
    MemoryKind kind = MemoryKind::kHost;
  };
  explicit Registering(Call& last) : last_(last) {}

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override {
    last_ = {buffer, -1, 0, kind};
    return std::make_unique<Memory>();
  }
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override {
    last_ = {range, file, offset, MemoryKind::kCuda};
    return std::make_unique<Memory>();
  }

 private:
  Call& last_;
};

TEST(Traced, ForwardsTheRegistrationOfMemory) {
  Tracer tracer(1);
  Registering::Call last;
  const auto connection = traced(std::make_unique<Registering>(last), &tracer);
  std::array<std::byte, 8> memory{};

  EXPECT_NE(connection->register_memory(memory, MemoryKind::kCuda), nullptr);
  EXPECT_EQ(last.range.data(), memory.data());
  EXPECT_EQ(last.kind, MemoryKind::kCuda);

  EXPECT_NE(connection->register_dma_buf(std::span(memory).first(4), 7, 4096), nullptr);
  EXPECT_EQ(last.range.data(), memory.data());
  EXPECT_EQ(last.range.size(), 4u);
  EXPECT_EQ(last.file, 7);
  EXPECT_EQ(last.offset, 4096u);
}

}  // namespace
}  // namespace tombolo::transport
