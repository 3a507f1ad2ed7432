/*
 * header.c: makes the header of the file that latentmux writes.
 */
#include "header.h"

#include <stdlib.h>

#include "clip.h"
#include "metadata.h"
#include "record.h"

/* Latents that the header has room for; more than any disk holds. */
#define MAX_LATENTS ((gint64) 1 << 40)
#define TAG_ROOM 4096

GstBuffer *
gst_latent_header_make(const GstLatentHeader *h, VaeError *error)
{
    const GstVaeLatentInfo *info = h->info;
    VaeTensorOut tensors[3] = {
        {.name = "latent",
         .type = info->type,
         .n_dims = 4,
         .dims = {h->latents, info->channels, info->latent_height,
                  info->latent_width}},
        {.name = GST_LATENT_TIMES,
         .type = VAE_TYPE_U8,
         .n_dims = 2,
         .dims = {h->latents, sizeof(GstLatentTime)}}};
    const gsize n = h->times ? 2 : 1;
    GstLatentFields fields;
    void *bytes;
    gsize size;
    tensors[n] =
        (VaeTensorOut){.name = VAE_SEQUENCES,
                       .type = VAE_TYPE_U8,
                       .n_dims = 2,
                       .dims = {h->sequences, sizeof(GstLatentSequence)}};
    gst_latent_fields_fill(&fields, info, h->frames, h->tags);
    if (h->locked && h->frames == 0) {
        const VaeMetadata entry = {GST_LATENT_KEY_LOCKED, "true"};
        g_array_append_val(fields.list, entry);
    }
    const VaeTensorHeader header = {tensors, h->sequences > 1 ? n + 1 : n,
                                    (const VaeMetadata *) fields.list->data,
                                    fields.list->len, h->size};
    const VaeStatus status =
        vae_tensor_header_make(&header, &bytes, &size, error);
    gst_latent_fields_clear(&fields);
    return status == VAE_OK ? gst_buffer_new_wrapped_full(0, bytes, size, 0,
                                                          size, bytes, free)
                            : NULL;
}

gsize
gst_latent_header_room(const GstVaeLatentInfo *info, const GstTagList *tags,
                       VaeError *error)
{
    const gint64 step = gst_vae_latent_info_step_size(info) +
                        sizeof(GstLatentTime) + sizeof(GstLatentSequence);
    const gint64 most = MIN(MAX_LATENTS, G_MAXINT64 / step);
    const GstLatentHeader longest = {
        .info = info,
        .tags = tags,
        .latents = most,
        .frames = vae_count_frames(gst_latent_clip_counts(info), most),
        .sequences = most,
        .times = TRUE};
    GstBuffer *buffer = gst_latent_header_make(&longest, error);
    if (!buffer)
        return 0;
    const gsize size = gst_buffer_get_size(buffer) + TAG_ROOM;
    gst_buffer_unref(buffer);
    return size;
}
