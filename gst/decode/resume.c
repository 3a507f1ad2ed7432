/*
 * resume.c: continues a stream from a checkpoint.
 *
 * The input may begin at the start of the clip, or at any later latent that is
 * early enough. The element drops the latents that the stream does not need. It
 * does not output frames from before the checkpoint.
 */
#include "decode.h"

#include "error.h"
#include "switch.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* Frames before latent k of a clip. */
static guint64
frames_before(GstVaeDecode *self, guint64 k)
{
    const VaeSteps *steps = &self->base.choice.info->decode;

    return k == 0 ? 0
                  : (guint64) steps->first_out +
                        (k - 1) * (guint64) steps->step_out;
}

/* Frames that had left when the checkpoint was written. */
static guint64
had_before(GstVaeDecode *self)
{
    const guint64 all = frames_before(self, self->resume.latents);
    const guint delay = gst_vae_decode_delay_of(self->base.queue.session);

    return all - MIN(all, delay);
}

/* The latents begin behind the one that the checkpoint goes on with. */
static void
refuse_late(GstVaeDecode *self, const gchar *path)
{
    gchar *found = g_strdup_printf("%" G_GUINT64_FORMAT, self->place);
    gchar *wanted =
        g_strdup_printf("%" G_GUINT64_FORMAT, (guint64) self->resume.begin);

    GST_ELEMENT_ERROR_WITH_DETAILS(
        self, STREAM, FORMAT,
        ("The latents begin with number %s, the checkpoint %s wants them from "
         "%s on",
         found, path, wanted),
        (NULL),
        ("file", G_TYPE_STRING, path, "field", G_TYPE_STRING, "first latent",
         "found", G_TYPE_STRING, found, "wanted", G_TYPE_STRING, wanted, NULL));
    g_free(found);
    g_free(wanted);
}

/* FALSE: the latents begin too late. */
static gboolean
begin(GstVaeDecode *self, const gchar *path, const GstBuffer *latent)
{
    const VaeCheckpoint *c = &self->resume;

    self->place = GST_BUFFER_OFFSET_IS_VALID(latent) ? GST_BUFFER_OFFSET(latent)
                  : c->carries                       ? c->latents
                                                     : 0;
    if (self->place > c->begin) {
        refuse_late(self, path);
        return FALSE;
    }
    GST_INFO_OBJECT(self,
                    "going on behind latent %" G_GUINT64_FORMAT
                    ", computing from %" G_GUINT64_FORMAT " on",
                    (guint64) c->latents, (guint64) c->begin);
    self->resuming = c->latents > self->place || self->place > 0;
    self->frame = frames_before(self, self->place);
    return TRUE;
}

/* The file of load-checkpoint. (transfer full) */
static gchar *
take_wish(GstVaeBase *base)
{
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_steal_pointer(&base->checkpoints.load);
    GST_OBJECT_UNLOCK(base);
    return path;
}

GstFlowReturn
gst_vae_decode_load(GstVaeDecode *self, const GstBuffer *latent)
{
    GstVaeBase *base = &self->base;
    gchar *path = take_wish(base);
    GstFlowReturn ret = GST_FLOW_OK;
    GError *error = NULL;

    self->resuming = FALSE; /* of a sequence before */
    if (!path)
        return GST_FLOW_OK;
    self->resume = (VaeCheckpoint) VAE_INIT(VaeCheckpoint);
    if (gst_vae_base_load_checkpoint(base, path, &self->resume, &error)) {
        if (!begin(self, path, latent))
            ret = GST_FLOW_ERROR;
    } else if (error) {
        gst_vae_base_post(base, error);
        ret = GST_FLOW_ERROR;
    } else {
        ret = GST_FLOW_FLUSHING;
    }
    g_free(path);
    return ret;
}

GstVaeItem *
gst_vae_decode_resume_step(GstVaeDecode *self, GstBuffer *latent,
                           GstVaeStep step)
{
    const VaeCheckpoint *c = &self->resume;
    const guint64 place = self->place++;
    const guint64 first = frames_before(self, place), had = had_before(self);
    GstVaeItem *item;

    if (place == c->latents && c->carries && self->planned == 0)
        gst_vae_decode_delay_resume(self, first, step.pts);

    if (place > 0 && self->need_start) {
        /* The stream has its context. */
        latent = gst_buffer_make_writable(latent);
        GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DISCONT);
        self->need_start = step.start = FALSE;
        self->discont = TRUE;
    }
    item = gst_vae_decode_plan_step(self, latent, &step);
    /* The stream was put where it has to be. */
    item->start = FALSE;
    self->resuming = place + 1 < c->latents;
    for (guint i = 0; i < item->n_out && first + i < had; i++)
        item->out[i].wanted = FALSE;
    if (place >= c->begin)
        return item;
    if (c->carries) /* some of its frames may wait in the carries */
        gst_vae_decode_delay(self, item);
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
