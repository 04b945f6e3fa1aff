// What the other end of an RDMA connection writes into a slot: a header, and the receives of which it tells.
#include "tests/fuzz/fuzz.h"
#include "transport/rdma/records.h"

using namespace tombolo;
using namespace tombolo::transport::rdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  const auto header = Header::read(bytes);
  if (!header) return 0;
  const auto rest = bytes.subspan(kHeaderBytes);
  std::array<std::byte, kHeaderBytes> once;
  header->write(once);
  FUZZ_CHECK(std::ranges::equal(once, bytes.first<kHeaderBytes>()));
  if (header->type == Header::Type::kEager) FUZZ_CHECK(header->size == rest.size());
  if (header->type != Header::Type::kReceives) return 0;
  FUZZ_CHECK(header->count > 0 && header->count <= kMostAdverts &&
             rest.size() == header->count * Advert::kBytes);
  for (std::size_t i = 0; i < header->count; ++i) {
    const auto one = rest.subspan(i * Advert::kBytes).first<Advert::kBytes>();
    std::array<std::byte, Advert::kBytes> again;
    Advert::read(one).write(again);
    FUZZ_CHECK(std::ranges::equal(again, one));
  }
  return 0;
}
