/*
 * task.h: starts the task of a pad.
 */
#ifndef GST_VAE_TASK_H
#define GST_VAE_TASK_H

#include <gst/gst.h>

/*
 * Calls gst_pad_start_task() with the pad as the argument of run(). If there is
 * no thread for the task, posts a RESOURCE/FAILED error of the pad's element
 * and returns FALSE; the pad then has no task. The caller must not hold the
 * pad's stream lock.
 */
gboolean gst_vae_task_start(GstPad *pad, GstTaskFunction run);

#endif
