#ifndef GST_VAE_TASK_H
#define GST_VAE_TASK_H

#include <gst/gst.h>

/*
 * gst_pad_start_task() with the pad as what run() is given. If there is no
 * thread for it, posts an error of the pad's element, RESOURCE/FAILED, and
 * returns FALSE; the pad has no task then. Not with the pad's stream lock.
 */
gboolean gst_vae_task_start(GstPad *pad, GstTaskFunction run);

#endif
