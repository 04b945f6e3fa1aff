// The part of HTTP/1.1 that is needed to answer a scrape. Pure functions; the bytes come from strangers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tombolo::transport::report {

/// A request of more bytes than this is refused.
inline constexpr std::size_t kLongestRequest = 8192;

struct HttpRequest {
  bool head_only = false;  ///< HEAD instead of GET
  std::string path;        ///< without the query
};

struct HttpParse {
  std::optional<HttpRequest> request;
  int refusal =
      0;  ///< the status to answer with instead: 400, 405, 431 or 505; 0 with no request: more bytes
};

/// Parses what has come so far. Header fields are skipped: none of them changes the answer.
HttpParse parse_http_request(std::string_view bytes);

/// A whole response. The connection is closed after it.
std::string http_response(int status, std::string_view type, std::string_view body, bool head_only = false);

}  // namespace tombolo::transport::report
