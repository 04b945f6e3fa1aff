#include "trainer/data/joined_files.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {

void JoinedFiles::add(const std::string& path, std::uint64_t begin, std::uint64_t bytes) {
  ranges_.push_back({path, begin, size_, bytes});
  size_ += bytes;
}

std::string JoinedFiles::name() const {
  TOMBOLO_CHECK(!ranges_.empty());
  if (ranges_.size() == 1) return "data file " + ranges_.front().path;
  return fmt::format("data files {} and {} more", ranges_.front().path, ranges_.size() - 1);
}

const InputFile& JoinedFiles::open(std::size_t index) {
  if (const auto found = open_.find(index); found != open_.end()) return found->second;
  if (open_.size() == kMostOpen) {
    open_.erase(opened_.front());
    opened_.pop_front();
  }
  const auto [made, _] = open_.emplace(index, InputFile("data file", ranges_[index].path));
  opened_.push_back(index);
  return made->second;
}

void JoinedFiles::read(std::uint64_t position, std::span<std::byte> into) {
  TOMBOLO_CHECK(position <= size_ && into.size() <= size_ - position, "position={} bytes={} size={}",
                position, into.size(), size_);
  // The last range that starts at or before the position.
  auto after = std::ranges::upper_bound(ranges_, position, {}, &Range::start);
  for (auto index = static_cast<std::size_t>(after - ranges_.begin()) - 1; !into.empty(); ++index) {
    const Range& range = ranges_[index];
    const std::uint64_t skipped = position - range.start;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), range.bytes - skipped));
    if (take > 0) open(index).read(range.begin + skipped, into.first(take));
    position += take;
    into = into.subspan(take);
  }
}

}  // namespace tombolo::trainer
