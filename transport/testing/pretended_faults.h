// For tests: what goes wrong with pretended NICs (pretended_verbs.h) and with the network between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tombolo::transport::test {

/// Its user holds a lock.
class PretendedFaults {
 public:
  static constexpr std::size_t kDevices = 4;

  // ---- calls that fail

  void refuse(const std::string& function, int error, int after) { refusals_[function] = {error, after}; }
  bool refused_all() const { return refusals_.empty(); }
  /// The errno of this call of the function, or 0 where it goes through.
  int error_for(const std::string& function) {
    const auto found = refusals_.find(function);
    if (found == refusals_.end() || found->second.after-- > 0) return 0;
    const int error = found->second.error;
    refusals_.erase(found);
    return error;
  }

  // ---- the network

  /// Nothing gets through, and nothing is answered.
  bool silent = false;
  /// Whether the port of the device is down.
  std::array<bool, kDevices> down{};
  /// Whether the network swallows all that the device sends and should receive, while its port is active.
  std::array<bool, kDevices> swallowed{};
  bool dead(std::size_t device) const { return down.at(device) || swallowed.at(device); }

  void cut_after(std::size_t pieces, bool for_good) {
    cut_in_ = pieces;
    cut_for_good_ = for_good;
  }
  bool is_cut() const { return cut_in_ == 0; }
  /// A piece of work begins; `last_pair` is the number of the last queue pair that there is.
  void count_piece(std::uint32_t last_pair) {
    if (cut_in_ > 0 && --cut_in_ == 0) cut_up_to_ = cut_for_good_ ? UINT32_MAX : last_pair;
  }
  bool cuts_off(std::uint32_t pair) const { return pair <= cut_up_to_; }

 private:
  struct Refusal {
    int error;
    int after;
  };
  std::map<std::string, Refusal> refusals_;
  std::size_t cut_in_ = 0;  // pieces of work; 0: no cut is to come
  bool cut_for_good_ = false;
  std::uint32_t cut_up_to_ = 0;  // number of the last queue pair that is cut off
};

}  // namespace tombolo::transport::test
