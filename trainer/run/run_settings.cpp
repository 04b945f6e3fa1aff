#include "trainer/run/run_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/crc32c.h"

namespace tombolo::trainer {
namespace {

constexpr std::uint64_t kFingerprintTokens = 4096;

std::string fingerprint(TokenSource& data) {
  const std::uint64_t count = std::min(kFingerprintTokens, data.size());
  std::vector<std::int32_t> tokens(2 * count);
  data.read(0, std::span(tokens).first(count));
  data.read(data.size() - count, std::span(tokens).last(count));
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(tokens))));
}

}  // namespace

Json run_settings(const Job& job, TokenSource& data) {
  const AdamW& optimizer = job.optimizer;
  Json settings{{"lr", optimizer.learning_rate},
                {"beta1", optimizer.beta1},
                {"beta2", optimizer.beta2},
                {"epsilon", optimizer.epsilon},
                {"weight-decay", optimizer.weight_decay},
                {"clip", optimizer.clip},
                {"warmup", optimizer.warmup},
                {"lr-schedule", "constant"},
                {"dtype", compute::precision_name(job.precision)},
                {"moments", compute::precision_name(job.moments)},
                {"fingerprint of the data", fingerprint(data)}};
  if (optimizer.schedule == RateSchedule::kCosine) {
    settings["lr-schedule"] = "cosine";
    settings["lr-min"] = optimizer.smallest_rate;
    settings["steps"] = optimizer.steps;  // at whose end the rate is the smallest
  }
  return settings;
}

std::string changed_settings(const Json& then, const Json& now) {
  std::vector<std::string> changes;
  if (!then.is_object()) return {};
  for (const auto& [name, value] : now.items()) {
    const auto before = then.find(name);
    if (before != then.end() && *before != value)
      changes.push_back(fmt::format("{} {}, now {}", name, before->dump(), value.dump()));
  }
  return fmt::format("{}", fmt::join(changes, "; "));
}

}  // namespace tombolo::trainer
