// For the small vector functions: a call would pass their registers through memory.
#pragma once

#if defined(__GNUC__)
#define GOLEM_INLINE static inline __attribute__((always_inline))
#define GOLEM_MEMBER inline __attribute__((always_inline))
#else
#define GOLEM_INLINE static inline
#define GOLEM_MEMBER inline
#endif
