/*
 * typefind.c: recognises safetensors and npy files by their content.
 */
#include "demux.h"

#include <string.h>

#include "vae-private/tensors.h"

/* The first tensor's entry begins within so many bytes unless its name is
 * absurd. */
#define SAFETENSORS_PEEK 4096

static gboolean
contains(const guint8 *data, gsize size, const gchar *word)
{
    return g_strstr_len((const gchar *) data, (gssize) size, word) != NULL;
}

/* The format has no magic: a plausible header length, then JSON with one of
 * the keys that every such header has. */
static void
find_safetensors(GstTypeFind *find, gpointer data)
{
    const guint8 *head = gst_type_find_peek(find, 0, 9);
    if (!head || head[8] != '{')
        return;
    const guint64 length = GST_READ_UINT64_LE(head);
    if (length < 2 || length > VAE_MAX_HEADER)
        return;
    gsize n = MIN(8 + length, SAFETENSORS_PEEK);
    const guint64 total = gst_type_find_get_length(find);
    if (total > 0)
        n = MIN(n, total);
    /* Without a known length fewer bytes than expected may be at hand. */
    while (!(head = gst_type_find_peek(find, 0, n)) && n > 32)
        n /= 2;
    if (head && (contains(head + 8, n - 8, "\"dtype\"") ||
                 contains(head + 8, n - 8, "\"__metadata__\"")))
        gst_type_find_suggest_empty_simple(find, GST_TYPE_FIND_LIKELY,
                                           "application/x-safetensors");
}

static void
find_npy(GstTypeFind *find, gpointer data)
{
    const guint8 *head = gst_type_find_peek(find, 0, 6);
    if (head && memcmp(head, "\x93NUMPY", 6) == 0)
        gst_type_find_suggest_empty_simple(find, GST_TYPE_FIND_MAXIMUM,
                                           "application/x-npy");
}

gboolean
gst_vae_latent_typefind_register(GstPlugin *plugin)
{
    GstCaps *safetensors =
        gst_caps_new_empty_simple("application/x-safetensors");
    GstCaps *npy = gst_caps_new_empty_simple("application/x-npy");
    const gboolean ok =
        gst_type_find_register(plugin, "application/x-safetensors",
                               GST_RANK_PRIMARY, find_safetensors,
                               "safetensors,latent", safetensors, NULL, NULL) &&
        gst_type_find_register(plugin, "application/x-npy", GST_RANK_PRIMARY,
                               find_npy, "npy", npy, NULL, NULL);
    gst_caps_unref(safetensors);
    gst_caps_unref(npy);
    return ok;
}
