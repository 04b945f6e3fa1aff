// Writes corpus/<target>/seed_* from real messages:  fuzz_seeds FOLDER.
// docs/ by run.sh.
#include <filesystem>
#include <fstream>
#include <span>

#include "collectives/rendezvous/store_protocol.h"
#include "net_plugin/handle.h"
#include "transport/bootstrap/goodbye.h"
#include "transport/bootstrap/handshake.h"
#include "transport/rdma/card.h"
#include "transport/tcp/wire.h"
#include "transport/ucx/card.h"

using namespace tombolo;

namespace {

std::filesystem::path root;

void put(const std::string& target, const std::string& name, std::span<const std::byte> bytes,
         int first = -1) {
  std::filesystem::create_directories(root / target);
  std::ofstream out(root / target / ("seed_" + name), std::ios::binary);
  if (first >= 0) out.put(static_cast<char>(first));
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

transport::Endpoint endpoint() {
  transport::Endpoint one;
  one.process = 4711;
  one.host = "a0";
  one.cluster = "A";
  one.offers = {{"ib0", topology::NicKind::kInfiniBand, transport::fabric_hash("ib A"), "10.1.0.1", 4000,
                 200'000'000'000, true},
                {"eth0", topology::NicKind::kTcp, 0, "fd00::1", 4001, 10'000'000'000, false}};
  one.set_ids();
  return one;
}

void text(const std::string& target, const std::string& name, std::string_view what) {
  put(target, name, std::as_bytes(std::span(what)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  root = argv[1];
  put("endpoint", "full", endpoint().encode());
  put("endpoint", "compact", endpoint().encode_compact(96));

  transport::tcp::Hello hello;
  hello.host = "a0";
  hello.nic = "eth0";
  hello.streams = 3;
  hello.label = 12;
  put("handshake", "hello", hello.encode(), 0);
  transport::tcp::Reply reply;
  reply.host = "b0";
  put("handshake", "reply", reply.encode(), 1);
  put("handshake", "finish", transport::tcp::Finish{}.encode(), 2);
  const auto greeting = hello.encode();
  put("handshake", "preamble", std::span(greeting).first(transport::tcp::Preamble::kBytes), 3);

  transport::tcp::FrameHeader chunk;
  chunk.length = 100;
  chunk.total = 1000;
  chunk.offset = 200;
  chunk.sequence = 3;
  transport::tcp::HeaderBytes header;
  encode(chunk, header);
  put("frame", "chunk", header);
  transport::tcp::FrameHeader goodbye;
  goodbye.type = transport::tcp::FrameType::kGoodbye;
  goodbye.reason = transport::tcp::GoodbyeReason::kTooLarge;
  encode(goodbye, header);
  put("frame", "goodbye", header);

  namespace rdma = transport::rdma;
  rdma::Card card;
  card.kind = rdma::Card::Kind::kAnswer;
  card.lanes.resize(2);
  card.lanes[0].port.nic = "mlx5_0";
  card.lanes[1].peer_address = "10.0.0.2";
  card.kept = {true, true};
  card.queue_pairs = {{17, 1}, {18, 2}, {19, 3}};
  put("rdma_card", "answer", card.encode());
  put("rdma_card", "refusal", rdma::Card::refusal("no port is active").encode());

  namespace ucx = transport::ucx;
  ucx::Card worker;
  worker.token = 1;
  worker.proof = 2;
  worker.address.assign(300, std::byte{0x5a});
  worker.wanted = {"10.0.0.2", "fd00::2"};
  put("ucx_card", "offer", worker.encode());
  worker.kind = ucx::Card::Kind::kAnswer;
  worker.address.assign(ucx::kLongestAddress, std::byte{0xa5});
  put("ucx_card", "answer", worker.encode());
  put("ucx_card", "refusal", ucx::Card::refusal("no interface here has the address").encode());

  transport::Goodbye goodbye_message;
  goodbye_message.why = transport::Goodbye::Why::kFailed;
  goodbye_message.sent = 3;
  goodbye_message.text = "the device is gone";
  put("goodbye", "failed", goodbye_message.encode());

  namespace store = collectives::store;
  const auto set = store::encode(store::Kind::kSet, 7, "rank/3", std::as_bytes(std::span("value")));
  put("store", "set", std::span(set).subspan(store::kLengthBytes), 0);
  const auto get = store::encode(store::Kind::kGet, 8, "rank/3", {});
  put("store", "get", std::span(get).subspan(store::kLengthBytes), 0);
  put("store", "hello", store::make_hello(store::Nonce{}), 1);
  const auto secret = transport::Secret::from_text("another secret");
  put("store", "proof", store::make_proof(secret, {}, {}), 2);
  put("store", "verdict", store::make_verdict(secret, {}, {}, true), 3);

  net_plugin::Handle handle;
  handle.endpoint = endpoint();
  put("net_handle", "two_nics", handle.encode());

  text("http", "metrics", "GET /metrics HTTP/1.1\r\nHost: a0:9400\r\nAccept: text/plain\r\n\r\n");
  text("http", "head", "HEAD /json?pretty HTTP/1.0\r\n\r\n");
  text("http", "post", "POST / HTTP/1.1\r\n\r\n");
  return 0;
}
