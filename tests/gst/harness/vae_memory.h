/*
 * vae_memory.h: memory that records every use, and the allocation offers of
 * downstream.
 */
#ifndef VAE_MEMORY_H
#define VAE_MEMORY_H

#include <gst/gst.h>
#include <gst/video/video.h>

/* Counts the uses of its memory. Only one test at a time may use it. */
typedef struct VaeTestAllocator {
    GstAllocator parent;
    gint allocated, read, written; /* atomic; the last two: number of maps for
                                      reading and writing */
    gsize align;                   /* the largest requested alignment, plus 1 */
    /* Called before memory is mapped, in the mapping thread; or NULL. */
    void (*on_map)(GstMapFlags flags);
} VaeTestAllocator;

VaeTestAllocator *vae_test_allocator_new(void);
/* Returns TRUE if the bytes at data are in the buffer, in memory of such an
 * allocator. */
gboolean vae_test_memory_holds(GstBuffer *buffer, const void *data);

/* An answer to ALLOCATION queries. */
typedef struct VaeTestOffer {
    GstBufferPool *pool; /* or NULL */
    guint size, min, max;
    gboolean video_meta;
    GstAllocator *allocator; /* or NULL */
    GstAllocationParams params;
    guint asked; /* queries so far */
} VaeTestOffer;

/* Makes a sink pad answer with offer, which is borrowed while the pad
 * exists. */
void vae_test_offer(GstPad *pad, VaeTestOffer *offer);
/* Returns a video pool for these caps. max 0: unlimited. align may be NULL. */
GstBufferPool *vae_test_pool_new(GstCaps *caps, guint min, guint max,
                                 GstAllocator *allocator,
                                 const GstVideoAlignment *align);

#endif
