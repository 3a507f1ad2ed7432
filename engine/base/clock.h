/*
 * clock.h: the time that spans are measured with.
 */
#ifndef VAE_CLOCK_H
#define VAE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that is never set. */
static inline uint64_t
vae_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

#endif
