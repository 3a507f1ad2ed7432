/*
 * docs.c: see docs.h.
 */
#include "docs.h"

#include <stdlib.h>

#include "vae-private/os.h"

gchar *
gst_vae_plugin_folder(void)
{
    static gint here;
    char *plugin = vae_os_module_of(&here);
    gchar *folder = plugin ? g_path_get_dirname(plugin) : NULL;

    free(plugin);
    return folder;
}

/* In the build tree, a file beside the plugin names the folder of the source.
 * It is not installed. */
gchar *
gst_vae_source_folder(void)
{
    gchar *folder = gst_vae_plugin_folder();
    gchar *note = folder ? g_build_filename(folder, "source.path", NULL) : NULL;
    gchar *source = NULL;

    if (note && g_file_get_contents(note, &source, NULL, NULL))
        g_strstrip(source);
    g_free(note);
    g_free(folder);
    return source;
}

void
gst_vae_set_page(GstElementClass *klass, const gchar *page)
{
    gchar *source = gst_vae_source_folder();
    gchar *path = source ? g_build_filename(source, "docs", page, NULL) : NULL;
    gchar *uri = path && g_str_has_prefix(GST_VAE_DOCS, "file://")
                     ? g_filename_to_uri(path, NULL, NULL)
                     : NULL;

    if (!uri)
        uri = g_strconcat(GST_VAE_DOCS "/", page, NULL);
    gst_element_class_add_metadata(klass, GST_ELEMENT_METADATA_DOC_URI, uri);
    g_free(uri);
    g_free(path);
    g_free(source);
}
