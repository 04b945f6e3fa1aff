// fmt compiled once, into our own objects: Debian ships only a shared libfmt, which the NCCL plugin must not
// need, and using fmt header-only everywhere costs about three seconds for each of some 200 source files.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// fmt/format.h leaves the definition of these templates to one source file; only those for char are needed.
template FMT_API thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template FMT_API char decimal_point_impl<char>(locale_ref);
template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal<float>(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal<double>(double) noexcept;
template FMT_API void vformat_to<char>(buffer<char>&, string_view, basic_format_args<buffer_context<char>>,
                                       locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
