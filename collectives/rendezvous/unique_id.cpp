#include "collectives/rendezvous/unique_id.h"

#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "collectives/parameters.h"
#include "collectives/rendezvous/rendezvous_address.h"

namespace tombolo::collectives {
namespace {

using transport::Secret;

// The layout: "tombid01", secret, port (2 bytes, little-endian), address, zeros.
constexpr std::string_view kIdMagic = "tombid01";
constexpr std::size_t kSecretAt = kIdMagic.size();
constexpr std::size_t kPortAt = kSecretAt + Secret::kBytes;
constexpr std::size_t kAddressAt = kPortAt + 2;

/// The stores that this process keeps: NCCL's interface has no object to own them.
struct KeptStores {
  std::mutex mutex;
  std::map<UniqueId, std::shared_ptr<StoreServer>> all;
};
KeptStores& kept_stores() {
  static KeptStores stores;
  return stores;
}

}  // namespace

UniqueId make_unique_id(const Secret& secret) {
  const Options options = Options::settings_from_environment();
  std::string address = kAddressParameter.text();
  if (address.empty()) address = rendezvous_address(options.router.host);
  UniqueId id{};
  if (address.size() + 1 > id.size() - kAddressAt) {
    fail(Cause::kInvalidUsage, "{}='{}' is too long for a unique id", kAddressParameter.name, address);
  }
  auto server = std::make_shared<StoreServer>(address, 0, secret, options.log);
  std::memcpy(id.data(), kIdMagic.data(), kIdMagic.size());
  std::memcpy(id.data() + kSecretAt, secret.bytes().data(), Secret::kBytes);
  const auto port = static_cast<unsigned>(server->port());
  id[kPortAt] = static_cast<char>(port & 0xff);
  id[kPortAt + 1] = static_cast<char>(port >> 8);
  std::memcpy(id.data() + kAddressAt, address.data(), address.size());
  auto& stores = kept_stores();
  const std::lock_guard lock(stores.mutex);
  stores.all[id] = std::move(server);
  return id;
}

std::shared_ptr<StoreServer> find_store(const UniqueId& id) {
  auto& stores = kept_stores();
  const std::lock_guard lock(stores.mutex);
  const auto found = stores.all.find(id);
  return found == stores.all.end() ? nullptr : found->second;
}

void close_store(const std::shared_ptr<StoreServer>& store) {
  auto& stores = kept_stores();
  const std::lock_guard lock(stores.mutex);
  std::erase_if(stores.all, [&](const auto& entry) { return entry.second == store; });
}

Options options_from(const UniqueId& id, int rank, int size) {
  if (std::string_view(id.data(), kIdMagic.size()) != kIdMagic || id.back() != 0) {
    fail(Cause::kInvalidUsage, "the unique id was not made by tomboloGetUniqueId, or was damaged on its way");
  }
  Options options = Options::settings_from_environment();
  options.secret = Secret::from_bytes(std::as_bytes(std::span(id).subspan<kSecretAt, Secret::kBytes>()));
  options.identity.rank = rank;
  options.identity.size = size;
  options.identity.address = id.data() + kAddressAt;
  options.identity.port =
      static_cast<unsigned char>(id[kPortAt]) | static_cast<unsigned char>(id[kPortAt + 1]) << 8;
  options.identity.source = "unique id";
  options.store_elsewhere = true;
  if (const auto store = find_store(id)) options.store_reach = store->own_address();
  return options;
}

Options options_to_join(const UniqueId& id, int rank, int size) {
  Options options = options_from(id, rank, size);
  options.store_prefix = fmt::format("grown/{:016x}", fnv1a<std::uint64_t>({id.data(), id.size()}));
  return options;
}

}  // namespace tombolo::collectives
