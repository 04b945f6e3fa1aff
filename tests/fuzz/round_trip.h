// A message of one size: bytes are refused as the peer's fault, or are read and come back from what was read.
#pragma once

#include "base/error.h"
#include "tests/fuzz/fuzz.h"

namespace tombolo::fuzz {

/// False where the bytes were refused.
template <typename Message>
bool read_back(std::span<const std::byte> bytes, Message& message) {
  try {
    message = Message::decode(bytes);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return false;
  }
  const auto once = message.encode();
  FUZZ_CHECK(once.size() == Message::kBytes);
  FUZZ_CHECK(Message::decode(once).encode() == once);
  return true;
}

}  // namespace tombolo::fuzz
