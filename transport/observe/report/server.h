// Serves the meters over HTTP, and writes them to a file now and then, on one thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "transport/observe/report/exposition.h"

namespace tombolo::transport::report {

/// Where to listen: the first port of the range that is free.
struct Address {
  std::string host;  ///< numeric
  std::uint16_t first_port = 0, last_port = 0;
};

/// Parses "9400", "0.0.0.0:9400" or "[::]:9400-9407"; the address is 127.0.0.1 where none is given. Throws
/// kInvalidUsage, naming `what`.
Address parse_address(std::string_view text, std::string_view what);

/// Writes the meters as JSON to the path. A reader never sees half a file. Throws kSystem.
void write_meters(const Meters& meters, const Reporter& reporter, const std::string& path);

struct ServerOptions {
  std::shared_ptr<const Meters> meters;
  Reporter reporter;
  std::string listen;  ///< as for parse_address(); empty: no endpoint
  std::string file;    ///< path; empty: none
  Duration every = std::chrono::seconds(10);
  Log log;  ///< for the constructor's messages; the thread itself writes to standard error
};

/// The thread has every signal blocked, so that it takes none from the program.
class Server {
 public:
  /// Throws kInvalidUsage, or kSystem where no port of the range could be had, naming all of them.
  explicit Server(ServerOptions options);
  /// Ends the thread.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const noexcept;  ///< 0 without an endpoint

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tombolo::transport::report
