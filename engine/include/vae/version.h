/*
 * vae/version.h: the version of these headers, and of the library.
 */
#ifndef VAE_VERSION_H
#define VAE_VERSION_H

#include "vae/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers. */
#define VAE_VERSION_MAJOR 0
#define VAE_VERSION_MINOR 1
#define VAE_VERSION_MICRO 0

#define VAE_TEXT_OF_(major, minor, micro) #major "." #minor "." #micro
#define VAE_TEXT_OF(major, minor, micro) VAE_TEXT_OF_(major, minor, micro)
/* The version of the headers as text, "0.1.0". */
#define VAE_VERSION_STRING                                                     \
    VAE_TEXT_OF(VAE_VERSION_MAJOR, VAE_VERSION_MINOR, VAE_VERSION_MICRO)

/* True if the headers have this version or a later one. */
#define VAE_CHECK_VERSION(major, minor, micro)                                 \
    (VAE_VERSION_MAJOR > (major) ||                                            \
     (VAE_VERSION_MAJOR == (major) && VAE_VERSION_MINOR > (minor)) ||          \
     (VAE_VERSION_MAJOR == (major) && VAE_VERSION_MINOR == (minor) &&          \
      VAE_VERSION_MICRO >= (micro)))

/* Returns the version of the library at run time, such as "0.1.0". */
VAE_API const char *vae_version(void);

#ifdef __cplusplus
}
#endif
#endif
