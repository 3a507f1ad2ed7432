/*
 * vae/status.h: errors.
 *
 * Every function that can fail returns a VaeStatus. If its VaeError argument is
 * not NULL, it also writes one sentence for a user there. The sentence names
 * the file, tensor or size, the value found and the value expected. Such a
 * function returns VAE_ERR_ARGUMENT for a pointer that is NULL and must not be.
 */
#ifndef VAE_STATUS_H
#define VAE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VAE_API /* a build for Windows defines it */
#define VAE_API __attribute__((visibility("default")))
#endif

typedef enum VaeStatus {
    VAE_OK,
    VAE_ERR_ARGUMENT,    /* a wrong parameter, or a call in a wrong state */
    VAE_ERR_NOT_FOUND,   /* no such file or tensor */
    VAE_ERR_READ,        /* the system refused to open or read */
    VAE_ERR_WRITE,       /* the system refused to create or write */
    VAE_ERR_NO_SPACE,    /* the disk is full */
    VAE_ERR_FORMAT,      /* a file whose content contradicts its format */
    VAE_ERR_MODEL,       /* weights of an unknown or a different model */
    VAE_ERR_SIZE,        /* width, height, channels or counts do not fit */
    VAE_ERR_MEMORY,      /* memory was refused, or the plan does not fit */
    VAE_ERR_UNSUPPORTED, /* this build, device or model lacks the feature */
    VAE_ERR_BACKEND,     /* the computing library or device failed */
    VAE_ERR_CANCELLED,   /* vae_stream_cancel() was called, or
                            VaeStreamParams.cancelled returned true */
    /* Not errors. Only vae_stream_send_*() and _receive_*() return them. */
    VAE_AGAIN, /* from send: receive first; from receive: send first */
    VAE_END    /* the whole sequence was received */
} VaeStatus;

typedef struct VaeError {
    VaeStatus status;
    char message[1024]; /* NUL-terminated UTF-8, no line break at the end */
    /* Parts of the message for programs; "" if the message has no such part. */
    char tensor[256];   /* the name of the tensor */
    char found[256];    /* the value found */
    char expected[256]; /* the value expected */
} VaeError;

/* Returns a short name of the status for logs, such as "file format". It is
 * never NULL. */
VAE_API const char *vae_status_name(VaeStatus status);

#ifdef __cplusplus
}
#endif
#endif
