// From here to end_set.inl the compiler may use AVX2, whatever the rest of the program is compiled for. To be
// included at namespace scope, after all headers: an inline function of theirs that came to need AVX2 might
// be the copy that the linker keeps for the whole program.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif
