#include "probe/bootstrap/rendezvous_group.h"

#include "base/error.h"
#include "base/units.h"

namespace tombolo::probe {
namespace {

constexpr auto kLeaveTime = std::chrono::seconds(5);

std::string key_of(std::string_view topic, int rank) {
  return fmt::format("probe/{}/{}", topic, rank);
}

}  // namespace

RendezvousGroup::RendezvousGroup(const collectives::Options& options)
    : rank_(options.identity.rank),
      size_(options.identity.size),
      address_(options.identity.address),
      port_(options.identity.port) {
  if (rank_ == 0) {
    server_.emplace(address_, port_, options.secret, options.log);
    address_ = server_->own_address();
    port_ = server_->port();
  }
  store_ = collectives::Store::connect(address_, port_, options.secret, Deadline::after(options.deadline),
                                       options.log);
}

RendezvousGroup::~RendezvousGroup() {
  try {
    if (rank_ != 0) {
      store_->set(key_of("left", rank_), {});
    } else {
      Deadline deadline = Deadline::after(kLeaveTime);
      for (int other = 1; other < size_; ++other) store_->get(key_of("left", other), deadline);
    }
  } catch (const Error&) {
    // A rank that died cannot say that it leaves. Nothing needs the store any more.
  }
}

std::vector<std::string> RendezvousGroup::gather(std::string_view topic, std::string_view mine,
                                                 Duration patience) {
  store_->set(key_of(topic, rank_), std::as_bytes(std::span(mine.data(), mine.size())));
  Deadline deadline = Deadline::after(patience);
  std::vector<std::string> texts;
  for (int other = 0; other < size_; ++other) {
    try {
      auto bytes = store_->get(key_of(topic, other), deadline);
      texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const Error& error) {
      if (error.cause() != Cause::kTimeout) throw;
      std::string absent;
      for (int each = other; each < size_; ++each) {
        if (store_->try_get(key_of(topic, each))) continue;
        absent += fmt::format("{}{}", absent.empty() ? "" : ", ", each);
      }
      if (absent.empty()) absent = std::to_string(other);
      fail(Cause::kTimeout, "{}: nothing came from rank {} within {}; does it still run?", topic, absent,
           format_seconds(to_seconds(patience)));
    }
  }
  return texts;
}

collectives::Options RendezvousGroup::with_store(collectives::Options options) const {
  options.store_elsewhere = true;
  options.store_reach = address_;
  options.identity.port = port_;
  return options;
}

transport::Secret RendezvousGroup::agree_on_secret(const collectives::Options& options) {
  if (!options.make_secret) return options.secret;
  std::string mine;
  if (rank_ == 0) {
    const auto random = transport::Secret::random();
    mine.assign(reinterpret_cast<const char*>(random.bytes().data()), random.bytes().size());
  }
  const std::string chosen = gather("secret", mine, options.deadline).front();
  if (chosen.size() != transport::Secret::kBytes)
    fail(Cause::kRemote, "rank 0 published a secret of {} bytes, not {}", chosen.size(),
         transport::Secret::kBytes);
  return transport::Secret::from_bytes(std::as_bytes(std::span(chosen)).first<transport::Secret::kBytes>());
}

}  // namespace tombolo::probe
