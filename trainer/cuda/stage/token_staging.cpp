#include "trainer/cuda/stage/token_staging.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer::cuda {

TokenStaging::TokenStaging(StageContext& stage) : stage_(stage), runs_(stage.options.shape.vocabulary) {
  for (std::int32_t* tokens : stage.host.tokens) ring_.emplace_back(*stage.device, tokens);
}

void TokenStaging::stage(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
  if (ring_.empty()) return;
  const auto check_count = [&](std::span<const std::int32_t> given, const char* what) {
    if (given.size() != stage_.sizes.tokens)
      fail(Cause::kInternal, "{} {} given, but a micro-batch has {}", given.size(), what,
           stage_.sizes.tokens);
    runs_.check(given, what);
  };
  if (stage_.layout.first()) check_count(tokens, "token");
  if (stage_.layout.last() && !targets.empty()) check_count(targets, "target");
  Staged<std::int32_t>& staged = ring_[next_ % ring_.size()];
  staged.copied.synchronize();
  const std::span<std::int32_t> block(staged.at, stage_.sizes.token_block());
  std::ranges::fill(block, 0);
  if (stage_.layout.first()) {
    std::ranges::copy(tokens, block.begin());
    runs_.sort(tokens, block.subspan(stage_.sizes.order_begin(), stage_.sizes.tokens),
               block.subspan(stage_.sizes.runs_begin(), stage_.sizes.tokens + 1));
  }
  if (stage_.layout.last())
    std::ranges::copy(targets, block.begin() + static_cast<std::ptrdiff_t>(stage_.sizes.targets_begin()));
}

void TokenStaging::copy_to(std::int32_t* device_block) {
  if (ring_.empty()) return;
  Staged<std::int32_t>& staged = ring_[next_++ % ring_.size()];
  stage_.device->copy(Stream::kFromHost, device_block, staged.at,
                      stage_.sizes.token_block() * sizeof(std::int32_t));
  staged.copied.record(Stream::kFromHost);
}

}  // namespace tombolo::trainer::cuda
