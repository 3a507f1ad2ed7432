/*
 * metadata.h: what the metadata of a latent file say beside what
 * vae/latents.h reads: how to show the video, and tags.
 */
#ifndef GST_LATENT_METADATA_H
#define GST_LATENT_METADATA_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

#include "latent.h"

G_BEGIN_DECLS

#define GST_LATENT_KEY_TEMPORAL "vae.temporal_factor"
/* "open" until the recording is ended: readers count the latents. */
#define GST_LATENT_KEY_RECORDING "vae.recording"

/* Metadata to write. The strings are those of info and tags, or in text. */
typedef struct GstLatentFields {
    VaeMetadata list[20];
    gsize n;
    gchar text[20][24];
    gchar *tags[3];
} GstLatentFields;

/* frames 0: not known yet, the recording is open. tags may be NULL. Free with
 * gst_latent_fields_clear(). */
void gst_latent_fields_fill(GstLatentFields *fields,
                            const GstVaeLatentInfo *info, gint64 frames,
                            const GstTagList *tags);
void gst_latent_fields_clear(GstLatentFields *fields);

/* Reads aspect ratio, colours and so on; what makes no sense is left out. */
void gst_latent_metadata_read(const VaeTensorFile *file,
                              GstVaeLatentInfo *info);
/* The tags of the whole file; NULL: it has none. (transfer full) */
GstTagList *gst_latent_metadata_tags(const VaeTensorFile *file);

G_END_DECLS
#endif
