/*
 * foreign.h: input that is not for this element.
 */
#ifndef GST_VAE_FOREIGN_H
#define GST_VAE_FOREIGN_H

#include "base.h"

G_BEGIN_DECLS

/* TRUE: the sink pad takes caps: all that are fixed and have a name of its
 * template, as set_caps() says in words what is wrong with the rest, in memory
 * that can be read. Any thread. */
gboolean gst_vae_foreign_accepts(GstVaeBase *base, const GstCaps *caps);

/* From now on other caps that are sent to the sink pad, and only asked for by
 * none, are a STREAM/WRONG_TYPE error that says what came, from which file
 * where upstream knows one, what is wanted, and which element is missing. */
void gst_vae_foreign_watch(GstVaeBase *base);

/* The same of a buffer that came before any caps, once. Streaming thread. */
void gst_vae_foreign_bytes(GstVaeBase *base, GstBuffer *buffer);

G_END_DECLS
#endif
