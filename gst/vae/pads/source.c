/*
 * source.c: asks upstream for the path of the file that it reads.
 */
#include "source.h"

gchar *
gst_vae_source_path(GstPad *pad)
{
    gchar *uri = NULL, *path = NULL;
    GstQuery *query = gst_query_new_uri();

    if (gst_pad_peer_query(pad, query))
        gst_query_parse_uri(query, &uri);
    gst_query_unref(query);
    if (uri)
        path = g_filename_from_uri(uri, NULL, NULL);
    if (!path)
        return uri;
    g_free(uri);
    return path;
}
