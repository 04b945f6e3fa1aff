// Scalars for TensorBoard.
//
// trainer/report/ owns what people look at while a run goes on and after it: the progress line, utilisation,
// TensorBoard's event files, and the search for the first value that is not a number.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tombolo::trainer {

/// One event file: TFRecord frames (length, masked CRC-32C of it, record, masked CRC-32C of that), each with
/// a tensorflow.Event in protocol buffers' encoding. One thread at a time.
class EventFile {
 public:
  /// Creates `folder` where it is missing and a new file events.out.tfevents.SECONDS.HOST.PID in it.
  /// TensorBoard joins the files of a resumed run by step. Throws kSystem.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Written and flushed. `wall_time`: seconds since 1970. Throws kSystem, naming the file.
  void scalar(std::string_view tag, std::int64_t step, double wall_time, double value);

  const std::string& path() const noexcept { return path_; }

 private:
  void record(const std::string& event);

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace tombolo::trainer
