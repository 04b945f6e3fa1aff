#include "trainer/gather_texts.h"

namespace tombolo::trainer {

std::vector<std::string> gather_texts(collectives::Communicator* world, const std::string& own) {
  if (world == nullptr) return {own};
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(world->size()));
  const std::uint64_t size = own.size();
  world->all_gather(&size, sizes.data(), 1, collectives::DataType::kUint64);
  if (world->rank() != 0) {
    if (size > 0) world->send(own.data(), own.size(), 0);
    return {};
  }
  std::vector<std::string> texts{own};
  for (int rank = 1; rank < world->size(); ++rank) {
    texts.emplace_back(sizes[static_cast<std::size_t>(rank)], '\0');
    if (!texts.back().empty()) world->receive(texts.back().data(), texts.back().size(), rank);
  }
  return texts;
}

}  // namespace tombolo::trainer
