/*
 * property_ids.h: what the files that install properties share.
 */
#ifndef GST_VAE_PROPERTY_IDS_H
#define GST_VAE_PROPERTY_IDS_H

#include "base.h"

G_BEGIN_DECLS

#define DEFAULT_STATS_INTERVAL GST_SECOND
#define DEFAULT_RESUME_TIMEOUT (10 * GST_SECOND)

enum {
    PROP_0,
    PROP_MODEL,
    PROP_VARIANT,
    PROP_BACKEND,
    PROP_CUDA_DEVICE_ID,
    PROP_PRECISION,
    PROP_SLICE_SIZE,
    PROP_QUEUE_DEPTH,
    PROP_THREADS,
    PROP_DETERMINISTIC,
    PROP_QOS,
    PROP_STATS,
    PROP_POST_STATS,
    PROP_STATS_INTERVAL,
    PROP_IDLE_RELEASE,
    PROP_NAN_POLICY,
    PROP_MEMORY_LIMIT,
    PROP_SPILL,
    PROP_RESUME_TIMEOUT,
    PROP_TILES,
    PROP_TILE_WIDTH,
    PROP_TILE_HEIGHT,
    PROP_TILE_OVERLAP
};

#define READY                                                                  \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)
#define PLAYING                                                                \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING)

/* properties_report.c: statistics, messages, and the freeing of memory. */
void gst_vae_properties_install_report(GObjectClass *klass);

G_END_DECLS
#endif
