/*
 * log.h: lines for the application's debug log.
 */
#ifndef VAE_LOG_H
#define VAE_LOG_H

#include "vae-private/stream.h"

typedef struct VaeLog {
    VaeLogFunc func; /* or NULL */
    void *user;
} VaeLog;

/* One line, of at most 1023 bytes. */
void vae_log(const VaeLog *log, const char *format, ...) VAE_PRINTF(2, 3);

#endif
