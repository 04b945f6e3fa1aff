#include "transport/tcp/lifecycle/peer_question.h"

#include <utility>

#include "base/error.h"

namespace tombolo::transport::tcp {
namespace {

// How often to ask whether the peer lives, how soon again where an attempt failed, and how long the peer's
// kernel may leave one unanswered: this kernel would try again only after 1, 3 and 7 s.
constexpr Duration kAskAgain = std::chrono::seconds(1);
constexpr Duration kAskSoon = std::chrono::milliseconds(20);
constexpr Duration kAskPatience = std::chrono::milliseconds(350);

}  // namespace

PeerQuestion::Answer PeerQuestion::poll(const std::shared_ptr<const bootstrap::Local>& local,
                                        const std::shared_ptr<const bootstrap::Target>& target,
                                        const bootstrap::Hello& joined, Refusals& refusals, TimePoint now) {
  try {
    if (!dial_) {
      if (now < after_) return Answer::kNone;
      dial_ = std::make_unique<bootstrap::Dial>(local, target,
                                                Deadline::after(local->idle_timeout, *local->clock));
      dial_->limit_attempts(kAskPatience);
      bootstrap::Hello hello = joined;
      hello.purpose = bootstrap::Purpose::kAsk;
      std::swap(hello.process, hello.sender);
      hello.stream = 0;
      dial_->greet(std::move(hello), 1);
    }
    if (dial_->poll() == bootstrap::Dial::State::kReady) {
      dial_.reset();
      after_ = now + kAskAgain;
      refusals.forget();
      return Answer::kLives;
    }
    if (dial_->last_trouble().empty()) return Answer::kNone;
    refusals.say(dial_->last_trouble());
    refusals.note(0, dial_->refused(), dial_->turned_away());
    dial_.reset();
    after_ = now + kAskSoon;
    return Answer::kUnreached;
  } catch (const Error& error) {
    dial_.reset();
    after_ = now + kAskAgain;
    refusals.say(error.what());
    return error.cause() == Cause::kRemote ? Answer::kGone : Answer::kUnreached;
  }
}

}  // namespace tombolo::transport::tcp
