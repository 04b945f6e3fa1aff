// Clients of the store, as the server's sessions see them: a handshake, and requests or any bytes, in pieces
// and several at once; clients that end in the middle, and some that do not read their answers. While all
// read, each must be answered as the contents alone answer its whole requests.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>
#include <unistd.h>

// The sessions are the server's own. With them alone one thread moves both ends, so that an input always
// takes the same course.
#include "collectives/rendezvous/store_server.cpp"
#include "collectives/testing/store_model.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using namespace tombolo::collectives;

namespace {

constexpr std::size_t kClients = 4;
constexpr std::size_t kTight = 40'000;

using Bytes = std::vector<std::byte>;

/// The other end of a session.
struct Client {
  int descriptor = -1;
  bool reads = true;
  bool hung_up = false;  // the server has closed the connection
  Bytes unsent, received;
  std::optional<store::Nonce> server;
  std::optional<bool> verdict;
  std::vector<test::Answered> answers;

  // What the server has got, and what it has to make of it.
  Bytes arrived;
  bool accepted = false, dropped = false;
  test::TestClient expected;
};

class Run {
 public:
  explicit Run(FuzzedDataProvider& input) : input_(input), exact_(input.ConsumeBool()), limits_(limits()) {
    sessions_.secret = secret_;
    sessions_.log = Log(LogLevel::kWarning, [](LogLevel, std::string_view) {});
    sessions_.limits = limits_;
    sessions_.contents = &contents_;
  }

  void carry_out() {
    while (input_.remaining_bytes() > 0) {
      step(clients_[input_.ConsumeIntegralInRange<std::size_t>(0, kClients - 1)]);
      move();
      check();
    }
    const auto all = sessions_.all;
    for (const auto& session : all) session->finish();
    move();
    for (Client& client : clients_) {
      if (exact_ && client.accepted && !client.dropped && client.descriptor >= 0) {
        FUZZ_CHECK(client.hung_up && !client.answers.empty());
        FUZZ_CHECK(client.answers.back().kind == store::Kind::kServerClosing);
      }
      leave(client);
    }
    move();
    FUZZ_CHECK(sessions_.all.empty() && sessions_.unauthenticated.empty());
    FUZZ_CHECK(contents_.waiting() == 0);
  }

 private:
  StoreLimits limits() {
    StoreLimits chosen;
    chosen.keys = input_.ConsumeIntegralInRange<std::size_t>(0, 6);
    if (!exact_) chosen.bytes = input_.ConsumeIntegralInRange<std::size_t>(0, kTight);
    return chosen;
  }

  void step(Client& client) {
    if (client.descriptor < 0) return connect(client);
    switch (input_.ConsumeIntegralInRange(0, 9)) {
      case 0:
        return prove(client);
      case 1: {
        const std::string any = input_.ConsumeRandomLengthString(200);
        const auto bytes = std::as_bytes(std::span(any));
        client.unsent.insert(client.unsent.end(), bytes.begin(), bytes.end());
        return;
      }
      case 2:
        return leave(client);
      case 3:
        // The session ends once it has read all that was sent before.
        ::shutdown(client.descriptor, SHUT_WR);
        drop(client);
        return;
      case 4:
        if (!exact_) client.reads = !client.reads;
        return;
      case 5:
        return send(client, input_.ConsumeIntegralInRange<std::size_t>(0, client.unsent.size()));
      case 6:
        request(client);
        return;
      default:
        request(client);
        return send(client, client.unsent.size());
    }
  }

  void connect(Client& client) {
    int ends[2];
    FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    constexpr int kSmall = 1;  // as small as the kernel lets a buffer be, so that answers soon do not fit
    if (!exact_) FUZZ_CHECK(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &kSmall, sizeof kSmall) == 0);
    client = {};
    client.descriptor = ends[0];
    asio::ip::tcp::socket socket(io_);
    socket.assign(asio::ip::tcp::v4(), ends[1]);
    const auto session = std::make_shared<Session>(std::move(socket), sessions_);
    sessions_.all.insert(session);
    sessions_.unauthenticated.push_back(session);
    session->start();
  }

  /// Appends a proof, mostly of the right secret.
  void prove(Client& client) {
    if (!client.server) return;
    static const auto other = transport::Secret::from_text("another secret");
    const auto proof =
        store::make_proof(input_.ConsumeIntegralInRange(0, 7) == 0 ? other : secret_, *client.server, {});
    client.unsent.insert(client.unsent.end(), proof.begin(), proof.end());
    send(client, client.unsent.size());
  }

  void request(Client& client) {
    if (client.unsent.size() > kTight) return;
    constexpr store::Kind kKinds[] = {store::Kind::kSet,   store::Kind::kGet, store::Kind::kTryGet,
                                      store::Kind::kClaim, store::Kind::kAdd, store::Kind::kHold};
    const store::Kind kind = input_.PickValueInArray(kKinds);
    const std::string key(1, static_cast<char>('a' + input_.ConsumeIntegralInRange(0, 7)));
    std::string value = input_.ConsumeBool() ? std::string(8, '\1') : input_.ConsumeRandomLengthString(100);
    // Some requests count against the limit while they arrive.
    if (input_.ConsumeIntegralInRange(0, 7) == 0) value.resize(6'000);
    const auto frame = store::encode(kind, ++requests_, key, std::as_bytes(std::span(value)));
    client.unsent.insert(client.unsent.end(), frame.begin(), frame.end());
  }

  void send(Client& client, std::size_t size) {
    const ssize_t sent = ::send(client.descriptor, client.unsent.data(), size, MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed, or does not read on
    const auto end = client.unsent.begin() + sent;
    client.arrived.insert(client.arrived.end(), client.unsent.begin(), end);
    client.unsent.erase(client.unsent.begin(), end);
    if (exact_) serve_arrived(client);
  }

  void leave(Client& client) {
    if (client.descriptor < 0) return;
    ::close(client.descriptor);
    client.descriptor = -1;
    drop(client);
  }

  void drop(Client& client) {
    if (!client.dropped) reference_.leave(client.expected);
    client.dropped = true;
  }

  /// Does with the bytes that have arrived what a session has to do.
  void serve_arrived(Client& client) {
    while (!client.dropped) {
      const std::span<const std::byte> bytes = client.arrived;
      std::size_t used = 0;
      if (!client.accepted) {
        if (bytes.size() < store::kProofBytes) return;
        used = store::kProofBytes;
        store::Nonce own;
        client.accepted = store::check_proof(secret_, *client.server, bytes.first<store::kProofBytes>(), own);
        if (!client.accepted) drop(client);
      } else {
        if (bytes.size() < store::kLengthBytes) return;
        const std::size_t length = store::read_length(bytes.first<store::kLengthBytes>());
        if (length < store::kHeaderBytes || length > store::kMaxFrame) return drop(client);
        used = store::kLengthBytes + length;
        if (bytes.size() < used) return;
        try {
          reference_.serve(client.expected, store::parse(bytes.subspan(store::kLengthBytes, length)));
        } catch (const Error& error) {
          FUZZ_CHECK(error.cause() == Cause::kRemote);
          drop(client);
        }
      }
      client.arrived.erase(client.arrived.begin(),
                           client.arrived.begin() + static_cast<std::ptrdiff_t>(used));
    }
  }

  /// Lets the server and all clients that read go on until nothing moves any more.
  void move() {
    for (bool moved = true; moved;) {
      io_.restart();
      moved = io_.poll() > 0;
      for (Client& client : clients_)
        if (client.descriptor >= 0 && client.reads) moved = read(client) || moved;
    }
  }

  bool read(Client& client) {
    std::byte buffer[4096];
    bool any = false;
    while (!client.hung_up) {
      const ssize_t size = ::recv(client.descriptor, buffer, sizeof buffer, 0);
      if (size < 0 && errno == EAGAIN) break;
      any = true;
      if (size <= 0)
        client.hung_up = true;
      else
        client.received.insert(client.received.end(), buffer, buffer + size);
    }
    if (any) understand(client);
    return any;
  }

  /// Whatever a client sends, it gets whole messages.
  void understand(Client& client) {
    std::span<const std::byte> bytes = client.received;
    const auto take = [&](std::size_t size) {
      const auto taken = bytes.first(size);
      bytes = bytes.subspan(size);
      return taken;
    };
    for (;;) {
      if (!client.server) {
        if (bytes.size() < store::kHelloBytes) break;
        client.server = store::read_hello(take(store::kHelloBytes).first<store::kHelloBytes>());
      } else if (!client.verdict) {
        if (bytes.size() < store::kVerdictBytes) break;
        client.verdict = store::check_verdict(secret_, *client.server, {},
                                              take(store::kVerdictBytes).first<store::kVerdictBytes>())
                             .has_value();
      } else {
        if (bytes.size() < store::kLengthBytes) break;
        const std::size_t length = store::read_length(bytes.first<store::kLengthBytes>());
        FUZZ_CHECK(length <= store::kMaxFrame);
        if (bytes.size() < store::kLengthBytes + length) break;
        const store::Frame frame =
            store::parse(take(store::kLengthBytes + length).subspan(store::kLengthBytes));
        client.answers.push_back(
            {frame.kind, frame.request,
             std::string(reinterpret_cast<const char*>(frame.value.data()), frame.value.size())});
      }
    }
    client.received.erase(client.received.begin(),
                          client.received.end() - static_cast<std::ptrdiff_t>(bytes.size()));
  }

  /// Forgets the answers that are right.
  void check() {
    FUZZ_CHECK(contents_.budget().taken() <= limits_.bytes && contents_.keys() <= limits_.keys);
    if (!exact_) return;
    FUZZ_CHECK(contents_.keys() == reference_.keys() && contents_.waiting() == reference_.waiting());
    for (Client& client : clients_) {
      if (client.descriptor >= 0) {
        FUZZ_CHECK(client.hung_up == client.dropped);
        FUZZ_CHECK(client.verdict.value_or(false) == client.accepted);
        FUZZ_CHECK(client.answers == client.expected.answers);
      }
      client.answers.clear();
      client.expected.answers.clear();
    }
  }

  FuzzedDataProvider& input_;
  const bool exact_;
  const transport::Secret secret_ = transport::Secret::from_text("a secret that the clients know");
  const StoreLimits limits_;
  StoreContents contents_{limits_}, reference_{limits_};
  Sessions sessions_;
  asio::io_context io_{1};
  std::array<Client, kClients> clients_;
  std::uint32_t requests_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  Run(input).carry_out();
  return 0;
}
