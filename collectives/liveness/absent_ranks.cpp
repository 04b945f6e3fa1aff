#include "collectives/liveness/absent_ranks.h"

#include <algorithm>

namespace tombolo::collectives {
namespace {

/// How long nothing may move before the first look; the next one is after as long as the wait has lasted.
constexpr Duration kFirstLookForAbsent = std::chrono::milliseconds(15);
/// Where there is nothing to do but to wait for an answer.
constexpr Duration kNothingToAsk = std::chrono::seconds(1);

}  // namespace

Duration AbsentRanks::look(TimePoint now, TimePoint idle_since) {
  if (idle_since_ != idle_since) {
    idle_since_ = idle_since;
    next_look_ = idle_since + kFirstLookForAbsent;
    gone_.reset();
  }
  if (gone_) return kNothingToAsk;
  if (question_ == Question::kNone) {
    if (now < next_look_) return next_look_ - now;
    next_look_ = now + std::max(kFirstLookForAbsent, now - idle_since);
    rank_ = -1;
    ask_about_next();
  }
  while (question_ != Question::kNone) {
    const std::optional<bool> there = signal_.answer();
    if (!there) return kNothingToAsk;
    if (question_ == Question::kHasRead && *there) {
      question_ = Question::kIsPresent;
      signal_.ask(presence_key(rendezvous_, rank_));
    } else if (question_ == Question::kIsPresent && !*there && awaited_(rank_)) {
      question_ = Question::kNone;
      gone_ = rank_;
      return Duration::zero();
    } else {
      ask_about_next();
    }
  }
  return std::max(next_look_ - now, Duration::zero());
}

void AbsentRanks::ask_about_next() {
  do {
    if (++rank_ == size_) {
      question_ = Question::kNone;
      return;
    }
  } while (!awaited_(rank_));
  question_ = Question::kHasRead;
  signal_.ask(read_key(rendezvous_, kRankRecords, rank_));
}

}  // namespace tombolo::collectives
