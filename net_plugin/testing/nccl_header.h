// How the tests of abi/ compare a table, or a struct, with the one of the same name in NCCL's own header.
// They include NCCL's header, and have `abi` stand for this project's namespace.
#pragma once

#include <cstddef>
#include <type_traits>

namespace tombolo::net_plugin::test {

/// Whether two functions take the same number of arguments, of the same sizes. The types themselves differ:
/// each side has its own structs.
template <typename Result, typename... Arguments, typename OtherResult, typename... Others>
constexpr bool alike(Result (*)(Arguments...), OtherResult (*)(Others...)) {
  if constexpr (sizeof...(Arguments) == sizeof...(Others)) {
    return ((sizeof(Arguments) == sizeof(Others) &&
             std::is_pointer_v<Arguments> == std::is_pointer_v<Others>)&&...);
  } else {
    return false;
  }
}

}  // namespace tombolo::net_plugin::test

#define SAME_FIELD(type, field)                                         \
  static_assert(offsetof(::type, field) == offsetof(abi::type, field)); \
  static_assert(sizeof(::type::field) == sizeof(abi::type::field))
#define SAME_FUNCTION(type, field) \
  SAME_FIELD(type, field);         \
  static_assert(tombolo::net_plugin::test::alike(decltype(::type::field){}, decltype(abi::type::field){}))
