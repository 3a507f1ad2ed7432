/*
 * foreign.h: refuses input that this element cannot process.
 */
#ifndef GST_VAE_FOREIGN_H
#define GST_VAE_FOREIGN_H

#include "base.h"

G_BEGIN_DECLS

/* Returns TRUE if the sink pad accepts caps. It accepts fixed caps with a media
 * type of its template and readable memory; set_caps() then reports what is
 * wrong with their fields. For any thread. */
gboolean gst_vae_foreign_accepts(GstVaeBase *base, const GstCaps *caps);

/* Makes the element post a STREAM/WRONG_TYPE error if other caps are sent to
 * the sink pad. A query is no error. The error names the caps, the file if
 * upstream knows it, the expected caps and the missing element. */
void gst_vae_foreign_watch(GstVaeBase *base);

/* Posts the same error, once, for a buffer that came before any caps. For the
 * streaming thread. */
void gst_vae_foreign_bytes(GstVaeBase *base, GstBuffer *buffer);

G_END_DECLS
#endif
