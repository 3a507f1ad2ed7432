/*
 * record.h: counts the latents, frames and sequences that latentmux writes, and
 * notes the times of the latents.
 */
#ifndef GST_LATENT_RECORD_H
#define GST_LATENT_RECORD_H

#include <gst/gst.h>

#include "latent.h"

G_BEGIN_DECLS

/* A row of the tensor VAE_SEQUENCES: the first latent of a sequence, and the
 * number of the sequence's frames. */
typedef struct GstLatentSequence {
    gint64 first, frames;
} GstLatentSequence;

typedef struct GstLatentRecord {
    gint64 latents;
    gint64 frames;  /* of video, in all latents */
    gint64 earlier; /* frames in the sequences before the current one */
    gint64
        noted; /* frames in the current sequence, including the noted latent */
    GstClockTime first; /* time of the first latent */
    GArray *times;      /* a GstLatentTime for each latent */
    GArray *sequences;  /* of GstLatentSequence */
    gboolean untimed;   /* a latent had no time */
    gboolean uneven;    /* the times do not follow the frame rate */
    gboolean doubtful;  /* a latent began a sequence by its flags only */
} GstLatentRecord;

void gst_latent_record_init(GstLatentRecord *record);
void gst_latent_record_clear(GstLatentRecord *record);
void gst_latent_record_reset(GstLatentRecord *record);

/* Notes the next latent, which may begin a sequence. */
void gst_latent_record_note(GstLatentRecord *record,
                            const GstVaeLatentInfo *info,
                            const GstBuffer *buffer);
/* Counts the latent that was noted last, once it is written. */
void gst_latent_record_count(GstLatentRecord *record);

G_END_DECLS
#endif
