/*
 * vae/status.h: how the library reports failure.
 *
 * Every function that can fail returns a VaeStatus and, where its VaeError
 * argument is not NULL, fills it with one sentence for a user: which file,
 * tensor or size, what was found and what was wanted.
 */
#ifndef VAE_STATUS_H
#define VAE_STATUS_H

#include <assert.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_API __attribute__((visibility("default")))

#if defined(__GNUC__)
#define VAE_PRINTF(at, args) __attribute__((__format__(printf, at, args)))
#else
#define VAE_PRINTF(at, args)
#endif

typedef enum VaeStatus {
    VAE_OK,
    VAE_ERR_ARGUMENT,    /* a parameter that no input can make right */
    VAE_ERR_NOT_FOUND,   /* no such file, tensor or installed model */
    VAE_ERR_READ,        /* the system refused to open or read */
    VAE_ERR_WRITE,       /* the system refused to create or write */
    VAE_ERR_NO_SPACE,    /* the disk is full */
    VAE_ERR_FORMAT,      /* a file that is not what it says it is */
    VAE_ERR_MODEL,       /* weights of no known model, or of another one */
    VAE_ERR_SIZE,        /* width, height, channels or counts do not fit */
    VAE_ERR_MEMORY,      /* memory refused, or the plan does not fit */
    VAE_ERR_UNSUPPORTED, /* a precision, backend or feature not present */
    VAE_ERR_BACKEND,     /* the computing library or device failed */
    VAE_ERR_CANCELLED    /* vae_stream_cancel() was called */
} VaeStatus;

typedef struct VaeError {
    VaeStatus status;
    char message[1024]; /* NUL-terminated UTF-8, no line break at the end */
} VaeError;

/* A short name of the status, for logs: "file format", never NULL. */
VAE_API const char *vae_status_name(VaeStatus status);

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
