/*
 * docs.h: the folder of the plugin, that of its source, and the pages about the
 * elements.
 */
#ifndef GST_VAE_DOCS_H
#define GST_VAE_DOCS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The folder this plugin was loaded from, or NULL. */
gchar *gst_vae_plugin_folder(void);
/* For a plugin in its build tree: the folder of the source. Else NULL. */
gchar *gst_vae_source_folder(void);
/* Sets the page about an element: a file of the source in the build tree, else
 * a page at the address of the option docs-uri. */
void gst_vae_set_page(GstElementClass *klass, const gchar *page);

G_END_DECLS

#endif
