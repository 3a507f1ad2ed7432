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

/* Metadata to write. The strings belong to info and tags, or are in text. */
typedef struct GstLatentFields {
    VaeMetadata list[20];
    gsize n;
    gchar text[20][24];
    gchar *tags[3];
} GstLatentFields;

/* Fills the metadata. frames: 0 while the recording is open and the number is
 * unknown. tags: may be NULL. Free with gst_latent_fields_clear(). */
void gst_latent_fields_fill(GstLatentFields *fields,
                            const GstVaeLatentInfo *info, gint64 frames,
                            const GstTagList *tags);
void gst_latent_fields_clear(GstLatentFields *fields);

/* Reads the aspect ratio, the colours and so on. Ignores invalid values. */
void gst_latent_metadata_read(const VaeTensorFile *file,
                              GstVaeLatentInfo *info);
/* Returns the tags of the whole file, or NULL if it has none. (transfer full)
 */
GstTagList *gst_latent_metadata_tags(const VaeTensorFile *file);

G_END_DECLS
#endif
