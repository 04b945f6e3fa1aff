#include "transport/observe/report/reporting.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "transport/observe/meters.h"
#include "transport/observe/report/chrome_trace.h"
#include "transport/observe/report/server.h"

namespace tombolo::transport::report {
namespace {

const Parameter kMetrics{
    "TOMBOLO_METRICS", ParameterType::kText, "",
    "[ADDRESS:]PORT[-LAST]: serve this process's meters over HTTP, /metrics for Prometheus and /json. The "
    "address "
    "is 127.0.0.1 where none is given; the first free port of a range is taken, 0 is any free port."};
const Parameter kMetricsFile{
    "TOMBOLO_METRICS_FILE", ParameterType::kText, "",
    "File for this process's meters as JSON, written every ten seconds and at the end. %h becomes the host's "
    "name, %p the process's number."};
const Parameter kTrace{
    "TOMBOLO_TRACE", ParameterType::kText, "",
    "File for a trace of connections, messages, stalls and streams' ends, for Perfetto or chrome://tracing, "
    "written at the end. %h becomes the host's name, %p the process's number."};
const Parameter kTraceEvents{"TOMBOLO_TRACE_EVENTS", ParameterType::kInteger, "262144",
                             "Events that a trace keeps (64 bytes each); later ones are only counted."};

/// What this process reports.
class Reporting {
 public:
  /// Stops serving and writes the files.
  void finish() noexcept {
    // A forked child has neither the thread nor the right to its parent's files.
    if (!started_ || owner_ != getpid()) return;
    server_.reset();
    try {
      if (!meters_path_.empty()) write_meters(*Meters::of_process(), reporter_, meters_path_);
    } catch (const std::exception& error) {
      last_words_.warning("{}: {}", kMetricsFile.name, error.what());
    }
    write_trace();
  }

  void start(const std::string& host, const Log& log) {
    std::scoped_lock guard(lock_);
    if (started_) return;
    const std::string file = kMetricsFile.text(), trace = kTrace.text(), listen = kMetrics.text();
    // Wrong values are found here, before anything runs.
    ServerOptions options{Meters::of_process(), {host, getpid()}, listen, {}, std::chrono::seconds(10), log};
    if (!listen.empty()) parse_address(listen, kMetrics.name);
    if (!file.empty()) options.file = expand_pattern(file, host, kMetricsFile.name);
    if (!trace.empty()) trace_path_ = expand_pattern(trace, host, kTrace.name);
    const std::int64_t events = kTraceEvents.integer();
    if (events < 1 || events > 100'000'000) {
      fail(Cause::kInvalidUsage, "{}={}: expected 1 to 100000000", kTraceEvents.name, events);
    }
    reporter_ = options.reporter;
    meters_path_ = options.file;
    owner_ = getpid();
    started_ = true;
    if (!trace.empty()) {
      // Never destroyed: threads may use connections until the very end.
      tracer_ = new Tracer(static_cast<std::size_t>(events));
      tracer_now_ = tracer_;
      Meters::of_process()->set_tracer(tracer_);
    }
    if (listen.empty() && file.empty()) return;
    try {
      server_.emplace(options);
    } catch (const Error& error) {
      log.warning("{}; this process's meters are not served", error.what());
      if (file.empty()) return;
      options.listen.clear();
      server_.emplace(options);
    }
    port_ = server_->port();
  }

  Tracer* tracer() const noexcept { return tracer_now_.load(std::memory_order_acquire); }
  std::uint16_t port() const noexcept { return port_; }

 private:
  void write_trace() noexcept {
    if (tracer_ == nullptr) return;
    try {
      // The trace is written to another file first and then renamed, so that no reader finds half of it.
      const std::string beside = fmt::format("{}.{}", trace_path_, owner_);
      std::ofstream out(beside);
      out << to_chrome_trace(*tracer_, reporter_);
      out.close();
      if (!out || std::rename(beside.c_str(), trace_path_.c_str()) != 0) {
        last_words_.warning("{}: cannot write {}: {}", kTrace.name, trace_path_, errno_text(errno));
      } else if (tracer_->dropped() > 0) {
        last_words_.warning("{}: the first {} events are in {}; {} more came ({} sets how many are kept)",
                            kTrace.name, tracer_->events().size(), trace_path_, tracer_->dropped(),
                            kTraceEvents.name);
      }
    } catch (const std::exception& error) {
      last_words_.warning("{}: {}", kTrace.name, error.what());
    }
  }

  std::mutex lock_;
  bool started_ = false;
  pid_t owner_ = 0;
  // The log's owner may be gone when the process ends.
  Log last_words_ = Log::to_stderr(LogLevel::kWarning);
  Reporter reporter_;
  std::string meters_path_, trace_path_;
  Tracer* tracer_ = nullptr;
  std::atomic<Tracer*> tracer_now_{nullptr};
  std::optional<Server> server_;
  std::atomic<std::uint16_t> port_{0};
};

Reporting& reporting() {
  static Reporting one;
  return one;
}

/// Ends the reports when the process ends or the library is unloaded.
struct AtEnd {
  ~AtEnd() { reporting().finish(); }
};

}  // namespace

void start(const std::string& host, const Log& log) {
  reporting().start(host, log);
  static const AtEnd at_end;
}

Tracer* tracer() noexcept {
  return reporting().tracer();
}

std::uint16_t port() noexcept {
  return reporting().port();
}

std::string expand_pattern(std::string_view pattern, const std::string& host, std::string_view what) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    const char letter = ++i < pattern.size() ? pattern[i] : '\0';
    if (letter == 'h') {
      path += host;
    } else if (letter == 'p') {
      path += std::to_string(getpid());
    } else if (letter == '%') {
      path += '%';
    } else {
      fail(Cause::kInvalidUsage, "{}='{}': expected %h (host), %p (process) or %% behind a percent sign",
           what, pattern);
    }
  }
  return path;
}

const std::vector<const Parameter*>& parameters() {
  static const std::vector<const Parameter*> all{&kMetrics, &kMetricsFile, &kTrace, &kTraceEvents};
  return all;
}

}  // namespace tombolo::transport::report
