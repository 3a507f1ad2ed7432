/*
 * header.h: the header of the file that latentmux writes.
 */
#ifndef GST_LATENT_HEADER_H
#define GST_LATENT_HEADER_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

#include "latent.h"

G_BEGIN_DECLS

typedef struct GstLatentHeader {
    const GstVaeLatentInfo *info;
    const GstTagList *tags; /* may be NULL */
    gint64 latents, frames;
    gint64 sequences; /* a table of them follows if there are several */
    gboolean times;   /* a table of the times follows */
    gboolean locked;  /* the file is locked while its recording is open */
    gsize size;       /* of the header in bytes; 0: as short as possible */
} GstLatentHeader;

/* Returns NULL, and the reason in *error, if it does not fit its size.
 * (transfer full) */
GstBuffer *gst_latent_header_make(const GstLatentHeader *header,
                                  VaeError *error);
/* Returns the size that has room for any number of latents, both tables, these
 * tags and 4 KiB of later ones, or 0 and the reason in *error. */
gsize gst_latent_header_room(const GstVaeLatentInfo *info,
                             const GstTagList *tags, VaeError *error);

G_END_DECLS
#endif
