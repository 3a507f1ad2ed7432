/*
 * vae_memory.h: memory that records every use, and the allocation offers of
 * downstream.
 */
#ifndef VAE_MEMORY_H
#define VAE_MEMORY_H

#include <gst/gst.h>
#include <gst/video/video.h>

/* Counts what happens to its memory. One test at a time. */
typedef struct VaeTestAllocator {
    GstAllocator parent;
    gint allocated, read, written; /* atomic; the last two: mapped so */
    gsize align;                   /* the largest that was asked for, plus 1 */
    /* Called before memory is mapped, on that thread; or NULL. */
    void (*on_map)(GstMapFlags flags);
} VaeTestAllocator;

VaeTestAllocator *vae_test_allocator_new(void);
/* True if the bytes from data on belong to memory of such an allocator that is
 * in buffer. */
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

/* pad (a sink pad) answers with offer, which is borrowed until the pad goes. */
void vae_test_offer(GstPad *pad, VaeTestOffer *offer);
/* A video pool for these caps. max 0: unlimited. align: or NULL. */
GstBufferPool *vae_test_pool_new(GstCaps *caps, guint min, guint max,
                                 GstAllocator *allocator,
                                 const GstVideoAlignment *align);

#endif
