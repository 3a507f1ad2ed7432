/*
 * task.c: starts and stops a pad's task, also if the system gives no thread.
 */
#include "task.h"

static void
leave(GstTask *task, GThread *thread, gpointer pad)
{
}

/*
 * A task whose thread could not be made counts as running, and a join of it
 * waits for ever. GLib has queued it for whichever thread of its pool is free
 * next, if there ever is one. So it is stopped, which makes that thread leave
 * it at once, and is no more the pad's; the pool holds a reference.
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
    /* The one that is there knows the pad. */
    gst_task_set_leave_callback(task, leave, pad, NULL);
    gst_task_stop(task);
    GST_OBJECT_LOCK(task);
    runs = task->thread != NULL; /* a thread had become free */
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
        ("The system gives no thread for pad \"%s\"", GST_PAD_NAME(pad)),
        ("its task could not start; is there a limit on threads "
         "(ulimit -u, pids of a container)?"));
    gst_object_unref(element);
    return FALSE;
}
