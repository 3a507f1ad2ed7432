/*
 * resume.c: continues a stream from a checkpoint.
 *
 * The input may begin at the start of the clip, or at any later latent that is
 * early enough. The element drops the latents that the stream does not need. It
 * does not output frames from before the checkpoint. If the checkpoint is of a
 * later sequence of the clip, the sequences before it are dropped.
 */
#include "decode.h"

#include "delay.h"
#include "error.h"
#include "switch.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* Returns the number of frames that had left when the checkpoint was
 * written. */
static guint64
had_before(GstVaeDecode *self)
{
    const guint64 all =
        gst_vae_decode_frames_before(self, self->resume.latents);

    return all - gst_vae_delay_waiting_of(self->base.queue.session, all);
}

/* Posts an error: the latents begin after the first one that the stream
 * needs. */
static void
refuse_late(GstVaeDecode *self, const gchar *path)
{
    const VaeCheckpoint *c = &self->resume;
    gchar *found = g_strdup_printf("%" G_GUINT64_FORMAT, self->latent);
    gchar *expected =
        g_strdup_printf("%" G_GUINT64_FORMAT, (guint64) (c->before + c->begin));

    GST_ELEMENT_ERROR_WITH_DETAILS(
        self, STREAM, FORMAT,
        ("The latents begin with number %s, the checkpoint %s expects them "
         "from %s on",
         found, path, expected),
        (NULL),
        ("file", G_TYPE_STRING, path, "field", G_TYPE_STRING, "first latent",
         "found", G_TYPE_STRING, found, "expected", G_TYPE_STRING, expected,
         NULL));
    g_free(found);
    g_free(expected);
}

/* Returns FALSE if the latents begin too late. */
static gboolean
begin(GstVaeDecode *self, const gchar *path, const GstBuffer *latent)
{
    const VaeCheckpoint *c = &self->resume;
    guint64 place;

    if (!GST_BUFFER_OFFSET_IS_VALID(latent))
        self->latent = c->carries ? c->before + c->latents : 0;
    if (self->latent > c->before + c->begin) {
        refuse_late(self, path);
        return FALSE;
    }
    GST_INFO_OBJECT(self,
                    "going on after latent %" G_GUINT64_FORMAT
                    ", computing from %" G_GUINT64_FORMAT " on",
                    (guint64) (c->before + c->latents),
                    (guint64) (c->before + c->begin));
    self->first = c->before;
    self->earlier = self->latent < c->before;
    if (self->earlier) {
        self->resuming = TRUE;
        return TRUE;
    }
    place = self->latent - c->before;
    self->resuming = c->latents > place ||
                     (place > 0 && !gst_vae_decode_begins(self, latent));
    self->frame = gst_vae_decode_frames_before(self, place);
    if (c->before > 0 && c->frames > had_before(self))
        self->frame += c->frames - had_before(self);
    return TRUE;
}

/* Returns the file of load-checkpoint, or NULL. (transfer full) */
static gchar *
take_load(GstVaeBase *base)
{
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_steal_pointer(&base->checkpoints.load);
    GST_OBJECT_UNLOCK(base);
    return path;
}

/* Continues a sequence after n frames whose latents are not sent again. The
 * frames that the engine has not returned yet wait, with the times before pts.
 */
static void
resume_delay(GstVaeDecode *self, guint64 n, GstClockTime pts)
{
    GstVaeBase *base = &self->base;
    const guint64 wait = gst_vae_delay_waiting_of(base->queue.session, n);
    const guint64 late = MAX(gst_vae_decode_frames_time(self, wait), pts) - pts;

    base->delay.planned = n;
    base->delay.given = n - wait;
    self->frame -= wait;
    if (late > 0)
        GST_WARNING_OBJECT(self,
                           "%" G_GUINT64_FORMAT " frames that wait are "
                           "older than time 0: the times must go on",
                           wait);
    for (guint64 i = wait; i > 0; i--) {
        const GstClockTime end =
            pts - MIN(pts, gst_vae_decode_frames_time(self, i - 1));
        GstVaeOut out = {0};

        gst_vae_decode_plan_frame(
            self, &out, pts - MIN(pts, gst_vae_decode_frames_time(self, i)),
            end);
        gst_vae_delay_add(base, &out);
    }
}

/* Called if the loaded sequence had ended, so that the latent begins another
 * one. The frames that wait in the carries leave first. */
static GstFlowReturn
end_loaded(GstVaeDecode *self, const GstVaeStep *step)
{
    resume_delay(self, gst_vae_decode_frames_before(self, self->resume.latents),
                 step->pts);
    return gst_vae_decode_finish(&self->base);
}

GstFlowReturn
gst_vae_decode_load(GstVaeDecode *self, const GstBuffer *latent,
                    const GstVaeStep *step)
{
    GstVaeBase *base = &self->base;
    gchar *path = take_load(base);
    GstFlowReturn ret = GST_FLOW_OK;
    GError *error = NULL;

    self->resuming = self->resuming &&
                     self->earlier; /* the loaded sequence is a later one */
    if (!path)
        return GST_FLOW_OK;
    self->resume = (VaeCheckpoint) VAE_INIT(VaeCheckpoint);
    if (gst_vae_base_load_checkpoint(base, path, &self->resume, &error)) {
        if (!begin(self, path, latent))
            ret = GST_FLOW_ERROR;
        else if (!self->resuming && self->resume.latents > 0)
            ret = end_loaded(self, step);
    } else if (error) {
        gst_vae_base_post(base, error);
        ret = GST_FLOW_ERROR;
    } else {
        ret = GST_FLOW_FLUSHING;
    }
    g_free(path);
    return ret;
}

/* Counts a latent of a sequence that was finished before. (takes latent) */
static void
skip(GstVaeDecode *self, GstBuffer *latent, const GstVaeStep *step)
{
    gst_vae_item_unref(gst_vae_decode_plan_step(self, latent, step));
    self->discont = TRUE;
}

GstVaeItem *
gst_vae_decode_resume_step(GstVaeDecode *self, GstBuffer *latent,
                           GstVaeStep step)
{
    const VaeCheckpoint *c = &self->resume;
    const guint64 place = self->latent - c->before;
    guint64 first, had;
    GstVaeItem *item;

    self->earlier = self->latent < c->before;
    if (self->earlier) {
        skip(self, latent, &step);
        return NULL;
    }
    first = gst_vae_decode_frames_before(self, place);
    had = had_before(self);
    if (place == c->latents && c->carries && self->base.delay.planned == 0)
        resume_delay(self, first, step.pts);

    if (place > 0 && self->need_start) {
        /* The stream has its context from the checkpoint. */
        latent = gst_buffer_make_writable(latent);
        GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DISCONT);
        self->need_start = step.start = FALSE;
        self->discont = TRUE;
    }
    item = gst_vae_decode_plan_step(self, latent, &step);
    /* The checkpoint has set the position of the stream. */
    item->start = FALSE;
    self->resuming = place + 1 < c->latents;
    for (guint i = 0; i < item->n_out && first + i < had; i++)
        item->out[i].needed = FALSE;
    if (place >= c->begin)
        return item;
    if (c->carries) /* some of its frames may wait in the carries */
        gst_vae_delay_step(&self->base, item);
    self->discont = TRUE;
    gst_vae_item_unref(item);
    return NULL;
}

void
gst_vae_decode_mark(GstVaeDecode *self, GstVaeItem *item)
{
    GstVaeBase *base = &self->base;
    guint interval;

    if (item->start)
        self->saved = 0;
    GST_OBJECT_LOCK(base);
    interval = base->checkpoints.location ? base->checkpoints.interval : 0;
    GST_OBJECT_UNLOCK(base);
    self->saved++;
    item->checkpoint = interval > 0 && self->saved >= interval &&
                       !self->resuming && !item->backward;
    if (item->checkpoint)
        self->saved = 0;
}
