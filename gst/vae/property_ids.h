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
    PROP_QUEUE_DEPTH,
    PROP_QOS,
    PROP_STATS,
    PROP_POST_STATS,
    PROP_STATS_INTERVAL,
    PROP_IDLE_RELEASE,
    PROP_MEMORY_LIMIT,
    PROP_RESUME_TIMEOUT
};

#define READY                                                                  \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)
#define PLAYING                                                                \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING)

/* properties_report.c: statistics, messages, and the freeing of memory. */
void gst_vae_properties_install_report(GObjectClass *klass);

G_END_DECLS
#endif
