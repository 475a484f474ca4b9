// Run-time choice of the vector width, without -march=native.
//
// Note [Vector dispatch]
// A loop marked WHISKER_VECTORIZE is compiled once per x86-64 level (AVX-512, AVX2, SSE2) and the
// dynamic linker picks one at load time (GCC's target_clones). The attribute is on static
// functions and templates that contain only the loop: an OpenMP region is outlined into a
// function of its own, which would not be cloned, so regions call these loops and never contain
// them. Lambdas passed in are inlined into each clone. Other compilers and processors build the
// loop once; so does ThreadSanitizer, since the linker's choice runs before its runtime starts, and
// AddressSanitizer, since each clone reads and writes the same elements.
// WHISKER_VECTOR_TARGET builds one level only: tests/core runs the operators on each that way.
#pragma once

#if defined(WHISKER_VECTOR_TARGET)
#define WHISKER_VECTORIZE __attribute__((target(WHISKER_VECTOR_TARGET)))
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define WHISKER_VECTORIZE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WHISKER_VECTORIZE
#endif
