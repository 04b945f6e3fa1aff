#include "transport/observe/report/http.h"

#include <gtest/gtest.h>

namespace tombolo::transport::report {
namespace {

TEST(HttpRequest, IsReadWithoutItsQueryOnceItsHeadIsWhole) {
  const std::string whole = "GET /metrics?name=x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const HttpParse parse = parse_http_request(whole.substr(0, length));
    EXPECT_FALSE(parse.request);
    EXPECT_EQ(parse.refusal, 0);
  }
  const HttpParse parse = parse_http_request(whole);
  ASSERT_TRUE(parse.request);
  EXPECT_EQ(parse.request->path, "/metrics");
  EXPECT_FALSE(parse.request->head_only);
  EXPECT_TRUE(parse_http_request("HEAD / HTTP/1.0\r\n\r\n").request->head_only);
}

TEST(HttpRequest, IsRefusedForWhatIsWrongWithIt) {
  const auto refusal = [](const std::string& head) { return parse_http_request(head + "\r\n\r\n").refusal; };
  EXPECT_EQ(refusal("POST /metrics HTTP/1.1"), 405);
  EXPECT_EQ(refusal("GET /metrics HTTP/2.0"), 505);
  EXPECT_EQ(refusal("GET /metrics"), 400);
  EXPECT_EQ(refusal("GET metrics HTTP/1.1"), 400);
  EXPECT_EQ(refusal("GET /a\tb HTTP/1.1"), 400);
  EXPECT_EQ(refusal("GET /a SMTP"), 400);
  EXPECT_EQ(refusal(""), 400);
}

TEST(HttpRequest, OfTooManyBytesIsRefusedWhetherItEndsOrNot) {
  const std::string head = "GET / HTTP/1.1\r\n";
  EXPECT_EQ(parse_http_request(head + std::string(kLongestRequest, 'a')).refusal, 431);
  EXPECT_EQ(parse_http_request(head + std::string(kLongestRequest, 'a') + "\r\n\r\n").refusal, 431);
  EXPECT_EQ(parse_http_request(head + std::string(kLongestRequest - head.size() - 1, 'a')).refusal, 0);
}

TEST(HttpResponse, SaysHowLongItsBodyIsAndThatTheConnectionEnds) {
  const std::string response = http_response(200, "text/plain", "four");
  EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(response.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_NE(response.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(response.ends_with("\r\n\r\nfour"));
  EXPECT_TRUE(http_response(200, "text/plain", "four", true).ends_with("\r\n\r\n"));
  EXPECT_NE(http_response(405, "text/plain", "").find("Allow: GET, HEAD\r\n"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::transport::report
