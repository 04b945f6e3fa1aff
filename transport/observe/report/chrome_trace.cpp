#include "transport/observe/report/chrome_trace.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <queue>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::transport::report {
namespace {

/// Rows of one connection: the first for itself, then those of its sends, of its receives, and of waits.
constexpr std::uint64_t kRowsPerConnection = 2048;
constexpr std::uint64_t kFirstReceiveRow = 1024;
constexpr std::uint64_t kFirstWaitRow = 1536;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Page {
 public:
  Page(const Tracer& tracer, const Reporter& reporter)
      : process_(reporter.process), offset_(tracer.to_time_of_day()) {}

  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(page_), "{}", first_ ? "" : ",\n");
    first_ = false;
    fmt::format_to(std::back_inserter(page_), text, std::forward<Args>(args)...);
  }
  void row_name(std::uint64_t row, const std::string& name) {
    add(R"({{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":{2}}}}})", process_, row,
        quoted(name));
    add(R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
        process_, row);
  }
  /// Microseconds with nanoseconds behind the decimal point. They are written as text, because a double has
  /// too few digits for both.
  std::string at(TimePoint time) const { return micros(time.time_since_epoch() + offset_); }
  static std::string micros(Duration duration) {
    return fmt::format("{}.{:03}", duration.count() / 1000, duration.count() % 1000);
  }
  std::int64_t process() const { return process_; }
  std::string take() { return fmt::to_string(page_); }

 private:
  fmt::memory_buffer page_;
  bool first_ = true;
  std::int64_t process_;
  Duration offset_;
};

/// Puts what overlaps into different rows: each into the first that is free.
class Rows {
 public:
  std::uint64_t row_for(TimePoint from, TimePoint to) {
    std::uint64_t row = next_;
    if (!busy_.empty() && busy_.top().first <= from) {
      row = busy_.top().second;
      busy_.pop();
    } else {
      ++next_;
    }
    busy_.emplace(to, row);
    return row;
  }
  std::uint64_t count() const { return next_; }

 private:
  using End = std::pair<TimePoint, std::uint64_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> busy_;
  std::uint64_t next_ = 0;
};

struct RowsOfConnection {
  Rows sends, receives, waits;
};

void add_wait(Page& page, const TraceEvent& event, RowsOfConnection& rows) {
  const std::uint64_t row =
      event.connection * kRowsPerConnection + kFirstWaitRow + rows.waits.row_for(event.from, event.to);
  page.add(
      R"({{"ph":"X","cat":"wait","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"connection":{}}}}})",
      quoted(event.what), page.process(), row, page.at(event.from), Page::micros(event.to - event.from),
      event.connection);
}

void add_message(Page& page, const TraceEvent& event, RowsOfConnection& rows) {
  const bool send = event.kind == TraceKind::kSend;
  const std::uint64_t row = event.connection * kRowsPerConnection +
                            (send ? 1 + rows.sends.row_for(event.from, event.to)
                                  : kFirstReceiveRow + rows.receives.row_for(event.from, event.to));
  page.add(
      R"({{"ph":"X","cat":"message","name":"{} {}{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"connection":{},"bytes":{},"failed":{}}}}})",
      send ? "send" : "receive", format_size(event.bytes), event.failed ? " (failed)" : "", page.process(),
      row, page.at(event.from), Page::micros(event.to - event.from), event.connection, event.bytes,
      event.failed);
}

void add_other(Page& page, const TraceEvent& event) {
  const std::uint64_t row = event.connection * kRowsPerConnection;
  if (event.kind == TraceKind::kSendStall || event.kind == TraceKind::kReceiveStall) {
    page.add(
        R"({{"ph":"X","cat":"stall","name":"{} stall","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"connection":{}}}}})",
        event.kind == TraceKind::kSendStall ? "send" : "receive", page.process(), row, page.at(event.from),
        Page::micros(event.to - event.from), event.connection);
    return;
  }
  page.add(
      R"({{"ph":"i","s":"t","cat":"stream","name":"stream {} {}","pid":{},"tid":{},"ts":{},"args":{{"connection":{},"stream":{}}}}})",
      event.stream, event.kind == TraceKind::kBreak ? "broke" : "rejoined", page.process(), row,
      page.at(event.from), event.connection, event.stream);
}

}  // namespace

std::string to_chrome_trace(const Tracer& tracer, const Reporter& reporter) {
  Page page(tracer, reporter);
  page.add(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", reporter.process,
           quoted(fmt::format("{} process {}", reporter.host, reporter.process)));
  const TimePoint now = Clock::steady().now();
  const auto lifetimes = tracer.lifetimes();
  for (const auto& [id, life] : lifetimes) {
    page.row_name(id * kRowsPerConnection, fmt::format("#{} {}", id, life.name));
    const TimePoint to = life.to == TimePoint{} ? now : life.to;
    page.add(
        R"({{"ph":"X","cat":"connection","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"connection":{}}}}})",
        quoted(life.name), reporter.process, id * kRowsPerConnection, page.at(life.from),
        Page::micros(to - life.from), id);
  }
  auto events = tracer.events();
  std::ranges::stable_sort(events, {}, &TraceEvent::from);
  std::map<std::uint64_t, RowsOfConnection> rows;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceKind::kSend || event.kind == TraceKind::kReceive) {
      add_message(page, event, rows[event.connection]);
    } else if (event.kind == TraceKind::kWait) {
      add_wait(page, event, rows[event.connection]);
    } else {
      add_other(page, event);
    }
  }
  for (const auto& [id, of_one] : rows) {
    for (std::uint64_t i = 0; i < of_one.sends.count(); ++i)
      page.row_name(id * kRowsPerConnection + 1 + i, fmt::format("#{} sends", id));
    for (std::uint64_t i = 0; i < of_one.receives.count(); ++i)
      page.row_name(id * kRowsPerConnection + kFirstReceiveRow + i, fmt::format("#{} receives", id));
    for (std::uint64_t i = 0; i < of_one.waits.count(); ++i)
      page.row_name(id * kRowsPerConnection + kFirstWaitRow + i, fmt::format("#{} waits", id));
  }
  return fmt::format(
      "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"version\":\"{}\",\"host\":{},\"dropped_events\":{}}},\n"
      "\"traceEvents\":[\n{}\n]}}\n",
      TOMBOLO_VERSION, quoted(reporter.host), tracer.dropped(), page.take());
}

}  // namespace tombolo::transport::report
