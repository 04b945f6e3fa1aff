#include "trainer/data/rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tombolo::trainer {

Rows::Rows(std::unique_ptr<TokenSource> source, int context, RowOrder order)
    : source_(std::move(source)), context_(static_cast<std::uint64_t>(context)), order_(order) {
  if (source_->size() < context_ + 2)
    fail(Cause::kInvalidUsage, "{}: {} {}s are too few for a context of {}: at least {} are needed",
         source_->name(), source_->size(), source_->unit(), context, context_ + 2);
  row_.resize(context_ + 1);
}

std::uint64_t Rows::count() const noexcept {
  return (source_->size() - 1) / context_;
}

void Rows::read(std::uint64_t step, int global_batch, int row, int vocabulary, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) {
  TOMBOLO_CHECK(tokens.size() == context_ && targets.size() == context_, "tokens={} targets={} context={}",
                tokens.size(), targets.size(), context_);
  const std::uint64_t start = row_start(order_, step, static_cast<std::uint64_t>(global_batch),
                                        static_cast<std::uint64_t>(row), context_, source_->size());
  source_->read(start, row_);
  for (std::size_t index = 0; index < row_.size(); ++index)
    if (row_[index] < 0 || row_[index] >= vocabulary)
      fail(Cause::kInvalidUsage, "{}: {} {} at position {} is outside the vocabulary of {}", source_->name(),
           source_->unit(), row_[index], start + index, vocabulary);
  std::copy_n(row_.begin(), context_, tokens.begin());
  std::copy_n(row_.begin() + 1, context_, targets.begin());
}

}  // namespace tombolo::trainer
