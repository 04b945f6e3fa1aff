// Whether a function that we declare has the shape that the library's own header gives it: as many arguments,
// each of the same size and kind. For checks that are compiled, but never run.
#pragma once

#include <type_traits>

namespace tombolo {

template <typename Ours, typename Theirs>
constexpr bool kSameArgument =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

/// Of two pointers to functions.
template <typename Ours, typename Theirs>
struct SameShape : std::false_type {};

template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
struct SameShape<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return sizeof(OurResult) == sizeof(TheirResult) && (kSameArgument<Ours, Theirs> && ...);
    } else {
      return false;
    }
  }();
};

}  // namespace tombolo
