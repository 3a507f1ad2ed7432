/*
 * vae-private/status.h: how the library and its tools make errors.
 */
#ifndef VAE_PRIVATE_STATUS_H
#define VAE_PRIVATE_STATUS_H

#include <assert.h>

#include "vae/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VAE_PRINTF(at, args) __attribute__((__format__(printf, at, args)))
#else
#define VAE_PRINTF(at, args)
#endif

/*
 * Fills *error (which may be NULL) and returns status, which is not VAE_OK, so
 * that `return vae_fail(error, VAE_ERR_SIZE, ...)` is one line.
 */
VAE_API VaeStatus vae_fail(VaeError *error, VaeStatus status,
                           const char *format, ...) VAE_PRINTF(3, 4);

/*
 * Makes text, which a file may have brought, one line of UTF-8 that a terminal
 * only shows: line breaks at its end go, white space becomes a blank, and every
 * byte of a control character (C0, DEL, C1) or of what is no UTF-8 a '?'. The
 * messages of errors are so already.
 */
VAE_API void vae_text_printable(char *text);

/* Lets an analyzer, which reads one file at a time, know what is returned. */
static inline VaeStatus
vae_not_ok(VaeStatus status)
{
    assert(status != VAE_OK);
    return status;
}
#define vae_fail(...) vae_not_ok(vae_fail(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
