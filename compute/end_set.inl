// The end of what begin_avx2.inl or begin_avx512.inl began.
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
