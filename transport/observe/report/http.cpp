#include "transport/observe/report/http.h"

#include "base/format.h"

namespace tombolo::transport::report {
namespace {

std::string_view phrase_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

bool all_printable(std::string_view text) {
  for (char character : text) {
    if (character <= ' ' || character > '~') return false;
  }
  return true;
}

}  // namespace

HttpParse parse_http_request(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos || end + 4 > kLongestRequest) {
    if (end != std::string_view::npos || bytes.size() >= kLongestRequest) return {std::nullopt, 431};
    return {};
  }
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) return {std::nullopt, 400};
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (target.empty() || target.front() != '/' || !all_printable(target) || !version.starts_with("HTTP/")) {
    return {std::nullopt, 400};
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {std::nullopt, 505};
  if (method != "GET" && method != "HEAD") return {std::nullopt, 405};
  return {HttpRequest{method == "HEAD", std::string(target.substr(0, target.find('?')))}, 0};
}

std::string http_response(int status, std::string_view type, std::string_view body, bool head_only) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}", status,
      phrase_of(status), type, body.size(), status == 405 ? "Allow: GET, HEAD\r\n" : "",
      head_only ? std::string_view() : body);
}

}  // namespace tombolo::transport::report
