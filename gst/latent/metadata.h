/*
 * metadata.h: the metadata of a latent file that vae/latents.h does not read:
 * how to show the video, and tags.
 */
#ifndef GST_LATENT_METADATA_H
#define GST_LATENT_METADATA_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

#include "latent.h"

G_BEGIN_DECLS

#define GST_LATENT_KEY_TEMPORAL "vae.temporal_factor"
/* "open" until the recording ends. Readers then count the latents. */
#define GST_LATENT_KEY_RECORDING "vae.recording"
/* States that the recorder holds a lock on the file until it ends it. */
#define GST_LATENT_KEY_LOCKED "vae.recording_locked"

/* Metadata to write. */
typedef struct GstLatentFields {
    GArray *list; /* of VaeMetadata */
    GStringChunk *text;
} GstLatentFields;

/* Fills the metadata. frames: 0 while the recording is open and the number is
 * unknown. tags: may be NULL. Free with gst_latent_fields_clear(). */
void gst_latent_fields_fill(GstLatentFields *fields,
                            const GstVaeLatentInfo *info, gint64 frames,
                            const GstTagList *tags);
void gst_latent_fields_clear(GstLatentFields *fields);
/* Returns the names of the tags that a file cannot hold, "a, b", or NULL.
 * (transfer full) */
gchar *gst_latent_fields_lost(const GstTagList *tags);

/* Reads the aspect ratio, the colours and so on. Ignores invalid values. */
void gst_latent_metadata_read(const VaeTensorFile *file,
                              GstVaeLatentInfo *info);
/* Returns the tags of the whole file, which begins with these bytes. (transfer
 * full) */
GstTagList *gst_latent_metadata_tags(const VaeTensorFile *file,
                                     const guint8 *bytes, gsize size);

G_END_DECLS
#endif
