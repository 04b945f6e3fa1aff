// Checks a message of fixed size: bytes are either refused as the peer's fault, or read such that encoding
// gives them back.
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
