#include "compute/workers.h"

namespace tombolo::compute {

Workers::~Workers() {
  piece_ = nullptr;
  ++round_;
  round_.notify_all();
}

bool Workers::add_thread() noexcept {
  try {
    threads_.emplace_back(
        [this, index = static_cast<int>(threads_.size()) + 1, seen = round_.load()] { help(index, seen); });
    return true;
  } catch (...) {  // std::system_error, std::bad_alloc: the existing threads do the work
    return false;
  }
}

void Workers::run(int count, const Piece& piece) noexcept {
  while (static_cast<int>(threads_.size()) < count - 1 && add_thread()) {
  }
  piece_ = &piece;
  count_ = count;
  unfinished_ = static_cast<int>(threads_.size());
  ++round_;
  round_.notify_all();
  piece(0);
  for (int index = static_cast<int>(threads_.size()) + 1; index < count; ++index) piece(index);
  for (int left = unfinished_; left > 0; left = unfinished_) unfinished_.wait(left);
}

void Workers::help(int index, std::uint32_t seen) {
  for (;;) {
    round_.wait(seen);
    seen = round_;
    if (piece_ == nullptr) return;
    if (index < count_) (*piece_)(index);
    if (--unfinished_ == 0) unfinished_.notify_one();
  }
}

}  // namespace tombolo::compute
