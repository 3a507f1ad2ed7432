/*
 * group.h: a meta of a latent with the number of its frames and their duration.
 * The buffer's duration cannot hold both if the frames do not follow the
 * nominal rate, because it also states the number of frames in the last group.
 */
#ifndef GST_VAE_GROUP_H
#define GST_VAE_GROUP_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Times that are no further off than this follow the frame rate: containers
 * round times to milliseconds. */
#define GST_VAE_JITTER (GST_MSECOND + GST_USECOND)

/* Adds the meta to a writable buffer. */
void gst_vae_group_add(GstBuffer *buffer, guint frames, GstClockTime duration);
/* Returns FALSE if the buffer has no valid meta. */
gboolean gst_vae_group_get(const GstBuffer *buffer, guint *frames,
                           GstClockTime *duration);
/* Sets the number of the latent's first frame in its clip, for files of several
 * sequences. The buffer must be writable and have the meta. */
void gst_vae_group_set_frame(GstBuffer *buffer, guint64 frame);
/* Returns FALSE if the buffer does not state that number. */
gboolean gst_vae_group_get_frame(const GstBuffer *buffer, guint64 *frame);
gboolean gst_vae_group_is_meta(const GstMeta *meta);

/*
 * Transports such as gdppay lose metas. A custom event GstVaeGroup, with the
 * fields of the meta, says the same of the next latent. gdppay cuts the number
 * of its type, so its name alone counts.
 */
/* Returns the event for a buffer that has the meta. (transfer full) */
GstEvent *gst_vae_group_event(const GstBuffer *buffer);
/* Keeps the facts of such an event in *next. Returns FALSE for other events. */
gboolean gst_vae_group_take_event(GstStructure **next, GstEvent *event);
/* Adds the meta with the facts in *next to a latent that has none, and clears
 * *next. (takes buffer) */
GstBuffer *gst_vae_group_use_event(GstStructure **next, GstBuffer *buffer);

G_END_DECLS
#endif
