/*
 * bytes.c: reads the bytes of a latent file: it pulls them, or keeps those that
 * are pushed.
 */
#include "bytes.h"

#include "source.h"
#include "vae-private/tensors.h"

/* Maximum size of one pull, because upstream allocates this much at once. */
#define PULL_MAX (4u << 20)

/* Enlarges the memory to `room` bytes. Returns FALSE with VAE_ERR_MEMORY if
 * there is not enough memory. */
static gboolean
reserve(GstLatentBytes *bytes, gsize room, VaeError *error)
{
    if (room <= bytes->room)
        return TRUE;
    guint8 *data = g_try_realloc(bytes->data, room);
    if (!data) {
        vae_fail(error, VAE_ERR_MEMORY,
                 "no memory for %" G_GSIZE_FORMAT " bytes of a latent file",
                 room);
        return FALSE;
    }
    bytes->data = data;
    bytes->room = room;
    return TRUE;
}

gboolean
gst_latent_bytes_append(GstLatentBytes *bytes, GstBuffer *buffer, gsize max,
                        VaeError *error)
{
    const gsize size = gst_buffer_get_size(buffer);
    const gsize need = bytes->size + size;
    if (need > bytes->room &&
        !reserve(bytes, MIN(MAX(need, 2 * bytes->room), max), error))
        return FALSE;
    gst_buffer_extract(buffer, 0, bytes->data + bytes->size, size);
    bytes->size = need;
    return TRUE;
}

void
gst_latent_bytes_clear(GstLatentBytes *bytes)
{
    g_free(bytes->data);
    *bytes = (GstLatentBytes){0};
}

/* Window ---------------------------------------------------------------- */

void
gst_latent_window_begin(GstLatentWindow *window, guint64 at, const guint8 *data,
                        gsize size)
{
    window->adapter = gst_adapter_new();
    window->at = at;
    if (size > 0)
        gst_adapter_push(window->adapter, gst_buffer_new_memdup(data, size));
}

void
gst_latent_window_push(GstLatentWindow *window, GstBuffer *buffer)
{
    gst_adapter_push(window->adapter, buffer);
}

guint64
gst_latent_window_end(const GstLatentWindow *window)
{
    return window->at + gst_adapter_available(window->adapter);
}

void
gst_latent_window_copy(GstLatentWindow *window, guint64 offset, guint8 *dst,
                       gsize size)
{
    gst_adapter_copy(window->adapter, dst, offset - window->at, size);
}

void
gst_latent_window_drop(GstLatentWindow *window, guint64 offset)
{
    const guint64 end = MIN(offset, gst_latent_window_end(window));
    if (end <= window->at)
        return;
    gst_adapter_flush(window->adapter, end - window->at);
    window->at = end;
}

void
gst_latent_window_clear(GstLatentWindow *window)
{
    g_clear_object(&window->adapter);
    window->at = 0;
}

/* Pulling --------------------------------------------------------------- */

guint64
gst_latent_length(GstPad *pad)
{
    gint64 bytes;
    return gst_pad_peer_query_duration(pad, GST_FORMAT_BYTES, &bytes) &&
                   bytes >= 0
               ? (guint64) bytes
               : G_MAXUINT64;
}

/* TRUE if the file is known to have bytes up to `end`. */
static gboolean
has_bytes(GstPad *pad, guint64 end)
{
    const guint64 total = gst_latent_length(pad);
    return total != G_MAXUINT64 && total >= end;
}

static void
fail_short(GstPad *pad, guint64 end, guint64 size, VaeError *error)
{
    g_autofree gchar *name = gst_latent_source_name(pad);
    vae_mismatch(error, VAE_ERR_READ, NULL,
                 "%s: the file got shorter while it was read: it ends at byte "
                 "{%" G_GUINT64_FORMAT "}, expected {=%" G_GUINT64_FORMAT "}",
                 name, end, size);
}

GstFlowReturn
gst_latent_pull(GstPad *pad, guint64 offset, guint8 *dst, guint64 size,
                VaeError *error)
{
    while (size > 0) {
        const guint want = MIN(size, PULL_MAX);
        GstBuffer *buffer = NULL;
        gsize got = 0;
        const GstFlowReturn ret =
            gst_pad_pull_range(pad, offset, want, &buffer);
        if (ret == GST_FLOW_OK) {
            got = gst_buffer_extract(buffer, 0, dst, want);
            gst_buffer_unref(buffer);
        } else if (ret != GST_FLOW_EOS || has_bytes(pad, offset + want)) {
            return ret; /* EOS: upstream was asked to end */
        }
        if (got < want) {
            fail_short(pad, offset + got, offset + size, error);
            return GST_FLOW_CUSTOM_ERROR;
        }
        offset += want;
        dst += want;
        size -= want;
    }
    return GST_FLOW_OK;
}

gchar *
gst_latent_source_name(GstPad *pad)
{
    gchar *path = gst_vae_source_path(pad);
    return path ? path : g_strdup("latent file");
}

GstFlowReturn
gst_latent_pull_header(GstPad *pad, const gchar *name, GstLatentBytes *bytes,
                       guint64 *total, VaeError *error)
{
    guint8 head[16];
    guint64 need;
    *total = gst_latent_length(pad);
    if (*total == G_MAXUINT64) {
        vae_fail(error, VAE_ERR_READ, "%s: its length is not known", name);
        return GST_FLOW_CUSTOM_ERROR;
    }
    const gsize n_head = MIN(*total, sizeof head);
    GstFlowReturn ret = gst_latent_pull(pad, 0, head, n_head, error);
    if (ret != GST_FLOW_OK)
        return ret;
    if (vae_tensor_header_size(head, n_head, *total, name, &need, error) !=
        VAE_OK)
        return GST_FLOW_CUSTOM_ERROR;
    need = MIN(need, *total);
    if (!reserve(bytes, need, error))
        return GST_FLOW_CUSTOM_ERROR;
    ret = gst_latent_pull(pad, 0, bytes->data, need, error);
    bytes->size = ret == GST_FLOW_OK ? need : 0;
    return ret;
}
