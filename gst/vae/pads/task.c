/*
 * task.c: starts and stops a pad's task, also if no thread can be started.
 */
#include "task.h"

static void
leave(GstTask *task, GThread *thread, gpointer pad)
{
}

/*
 * If no thread can be created for a task, GStreamer regards the task as
 * running, and a join of it never ends. GLib runs the task later, when a thread
 * of its pool is free. The task is therefore stopped, which makes that thread
 * leave it at once, and is removed from the pad. The pool holds a reference to
 * it.
 */
static void
abandon(GstPad *pad)
{
    GstTask *task;
    gboolean runs;

    GST_OBJECT_LOCK(pad);
    task = GST_PAD_TASK(pad);
    GST_PAD_TASK(pad) = NULL;
    GST_OBJECT_UNLOCK(pad);
    if (!task)
        return;
    /* The existing leave callback would use the pad. */
    gst_task_set_leave_callback(task, leave, pad, NULL);
    gst_task_stop(task);
    GST_OBJECT_LOCK(task);
    runs = task->thread != NULL; /* a thread has become free meanwhile */
    GST_OBJECT_UNLOCK(task);
    if (runs)
        gst_task_join(task);
    gst_object_unref(task);
}

gboolean
gst_vae_task_start(GstPad *pad, GstTaskFunction run)
{
    GstElement *element;

    if (gst_pad_start_task(pad, run, pad, NULL))
        return TRUE;
    element = gst_pad_get_parent_element(pad);
    abandon(pad);
    GST_ELEMENT_ERROR(
        element, RESOURCE, FAILED,
        ("No thread could be started for pad \"%s\"", GST_PAD_NAME(pad)),
        ("its task could not start; is there a limit on threads "
         "(ulimit -u, pids of a container)?"));
    gst_object_unref(element);
    return FALSE;
}
