/*
 * vae-private/status.h: functions that fill a VaeError.
 */
#ifndef VAE_PRIVATE_STATUS_H
#define VAE_PRIVATE_STATUS_H

#include <assert.h>
#include <stdint.h>

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

/* The parts of an error. A part is NULL or "" if the error has none. */
typedef struct VaeErrorParts {
    const char *tensor, *found, *expected;
} VaeErrorParts;

/* Like vae_fail(), and also sets these parts. */
VAE_API VaeStatus vae_fail_parts(VaeError *error, VaeStatus status,
                                 VaeErrorParts parts, const char *format, ...)
    VAE_PRINTF(4, 5);

/*
 * Like vae_fail(), and marks in the format give the parts of the sentence:
 * {what was found} and {=what was expected}. The sentence is without the marks.
 * tensor is the third part, or NULL.
 */
VAE_API VaeStatus vae_mismatch(VaeError *error, VaeStatus status,
                               const char *tensor, const char *format, ...)
    VAE_PRINTF(4, 5);

/* Fails like `why`, with its parts. */
VaeStatus vae_pass_on(VaeError *error, const VaeError *why);
/* The same, but the format comes before the sentence. */
VaeStatus vae_fail_within(VaeError *error, const VaeError *why,
                          const char *format, ...) VAE_PRINTF(3, 4);

/*
 * Makes text that may come from a file safe for a terminal: one line of UTF-8.
 * Removes line breaks at its end, replaces white space by a blank, and replaces
 * each byte of a control character (C0, DEL, C1) or of invalid UTF-8 by '?'.
 * Messages of errors need no such call.
 */
VAE_API void vae_text_printable(char *text);

/* A count with its noun: "1 tensor", "2 tensors". */
typedef struct VaeCounted {
    char text[64];
} VaeCounted;
/* Writes it to *buffer, and returns buffer->text. */
VAE_API const char *vae_counted(uint64_t n, const char *noun,
                                VaeCounted *buffer);
/* The same for an argument of printf(). */
#define VAE_COUNTED(n, noun)                                                   \
    vae_counted((uint64_t) (n), noun, &(VaeCounted){{0}})

/* Tells an analyzer, which reads one file at a time, that status is an error.
 */
static inline VaeStatus
vae_not_ok(VaeStatus status)
{
    assert(status != VAE_OK);
    return status;
}
#define vae_fail(...) vae_not_ok(vae_fail(__VA_ARGS__))
#define vae_fail_parts(...) vae_not_ok(vae_fail_parts(__VA_ARGS__))
#define vae_mismatch(...) vae_not_ok(vae_mismatch(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
