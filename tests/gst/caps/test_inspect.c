/*
 * test_inspect.c: the output of gst-inspect-1.0: names, blurbs and flags of
 * all properties, and the description of the elements. With VAE_TEST_WRITE=1 it
 * writes the pages of docs/elements.
 */
#include "vae_test.h"

#include "vae-private/settings.h"

#define MUTABLE (GST_PARAM_MUTABLE_READY | GST_PARAM_MUTABLE_PLAYING)

/* Returns TRUE if the text is a sentence without a full stop. */
static gboolean
is_sentence(const char *text)
{
    const gsize n = text ? strlen(text) : 0;
    return n >= 15 && g_ascii_isupper(text[0]) && text[n - 1] != '.';
}

static void
check_property(const char *element, GParamSpec *spec)
{
    const char *nick = g_param_spec_get_nick(spec);
    if (!is_sentence(g_param_spec_get_blurb(spec)))
        g_printerr("%s %s: \"%s\"\n", element, spec->name,
                   g_param_spec_get_blurb(spec));
    CHECK(is_sentence(g_param_spec_get_blurb(spec)));
    CHECK(nick && strcmp(nick, spec->name) != 0);
    CHECK((spec->flags & G_PARAM_STATIC_STRINGS) == G_PARAM_STATIC_STRINGS);
    if (spec->flags & G_PARAM_WRITABLE)
        CHECK(spec->flags & MUTABLE);
    /* No property is controllable, because none changes along the timeline of a
     * clip. */
    CHECK(!(spec->flags & GST_PARAM_CONTROLLABLE));
    if (G_IS_PARAM_SPEC_ENUM(spec)) {
        const GEnumClass *values = G_PARAM_SPEC_ENUM(spec)->enum_class;
        for (guint i = 0; i < values->n_values; i++)
            CHECK(strlen(values->values[i].value_name) > 3);
    }
}

static void
check_element(const char *name, const char *klass, guint rank,
              const char *const *words)
{
    g_autoptr(GstElement) element = gst_element_factory_make(name, NULL);
    GstElementFactory *factory = gst_element_get_factory(element);
    const char *text = gst_element_factory_get_metadata(
        factory, GST_ELEMENT_METADATA_DESCRIPTION);
    guint n, own = 0;
    CHECK(strcmp(gst_element_factory_get_metadata(factory,
                                                  GST_ELEMENT_METADATA_KLASS),
                 klass) == 0);
    CHECK_INT(gst_plugin_feature_get_rank(GST_PLUGIN_FEATURE(factory)), rank);
    for (; *words; words++)
        CHECK(strstr(text, *words));
    GParamSpec **specs =
        g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &n);
    for (guint i = 0; i < n; i++)
        if (g_type_is_a(specs[i]->owner_type, GST_TYPE_ELEMENT)) {
            check_property(name, specs[i]);
            own++;
        }
    g_print("%s: %u properties\n", name, own);
    g_free(specs);
}

/* The texts that gst-inspect-1.0 prints for a property. */
static gchar *
texts_of(GParamSpec *spec)
{
    GString *texts = g_string_new(g_param_spec_get_blurb(spec));
    if (G_IS_PARAM_SPEC_ENUM(spec)) {
        const GEnumClass *values = G_PARAM_SPEC_ENUM(spec)->enum_class;
        for (guint i = 0; i < values->n_values; i++)
            g_string_append_printf(texts, "; %s", values->values[i].value_name);
    }
    return g_string_free(texts, FALSE);
}

/* Words that the texts must have, and words that would mislead. */
TEST(words)
{
    static const struct {
        const char *element, *property, *has, *has_not;
    } expected[] = {
        {"vaedecode", "precision", "bf16 where it is faster", NULL},
        {"vaeencode", "precision", "encodes in tf32 on cuda, else in fp32",
         NULL},
        {"vaeencode", "model", "next start of a sequence", "vaedecode"},
        {"vaedecode", "model", "folder", NULL},
        {"vaedecode", "slice-size", "output is the same", NULL},
        {"vaedecode", "memory-limit", "12G, or a part", NULL},
        {"vaedecode", "idle-release", "in nanoseconds", NULL},
        {"vaedecode", "resume-timeout", "in nanoseconds", NULL},
        {"vaedecode", "stats-interval", "in nanoseconds", NULL},
        {"vaedecode", "checkpoint-location", "replaces", NULL},
        {"vaedecode", "qos", "drops frames", "vaeencode"},
        {"vaeencode", "qos", "upstream", "vaedecode"},
        {"vaedecode", "nan-policy", "overflow", NULL},
        {"vaeencode", "tail", "do not fill a latent", "group"},
        {"vaeencode", "key-int-max", "latents", NULL},
        {"vaeencode", "key-int-max-time", "in nanoseconds", NULL},
        {"vaedecode", "spill", "between two latents", "step"},
        {"vaedecode", "checkpoint-carries", "between two latents", NULL},
        {"vaedecode", "normalization", "deviation + mean", NULL},
        {"latentdemux", "normalization", "deviation + mean", NULL},
        {"latentdemux", "max-push-size", "in bytes", NULL},
        {"latentmux", "max-kept-size", "in bytes", NULL},
        {"latentdemux", "warm-up", "-1 = as many as", NULL},
    };
    for (guint i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_autoptr(GstElement) element =
            gst_element_factory_make(expected[i].element, NULL);
        GParamSpec *spec = g_object_class_find_property(
            G_OBJECT_GET_CLASS(element), expected[i].property);
        g_autofree gchar *texts = texts_of(spec);
        g_print("%s %s: %s\n", expected[i].element, spec->name, texts);
        CHECK(strstr(texts, expected[i].has));
        CHECK(!expected[i].has_not || !strstr(texts, expected[i].has_not));
    }
}

/* Each setting of a stream that names a property is one, with its sentence. */
TEST(settings)
{
    g_autoptr(GstElement) decode = gst_element_factory_make("vaedecode", NULL);
    g_autoptr(GstElement) encode = gst_element_factory_make("vaeencode", NULL);
    const VaeSetting *s;
    for (int i = 0; (s = vae_setting_at(i)); i++) {
        GstElement *const elements[] = {decode, encode};
        const gboolean has_not[] = {s->only_encode, s->only_decode};
        for (int k = 0; k < 2 && s->property; k++) {
            GParamSpec *found = g_object_class_find_property(
                G_OBJECT_GET_CLASS(elements[k]), s->property);
            CHECK_INT(found == NULL, has_not[k]);
            CHECK(!found ||
                  g_str_equal(g_param_spec_get_blurb(found), s->sentence));
        }
    }
}

TEST(inspect)
{
    static const char *const decode[] = {"latents", "raw video",
                                         "first: model, precision", NULL};
    static const char *const files[] = {"safetensors", "npy", ".latent",
                                        ".pt of PyTorch", NULL};
    static const char *const file[] = {"latents", "safetensors", NULL};
    check_element("vaedecode", "Codec/Decoder/Video", GST_RANK_MARGINAL,
                  decode);
    check_element("vaeencode", "Codec/Encoder/Video", GST_RANK_MARGINAL,
                  decode);
    check_element("latentdemux", "Codec/Demuxer/Video", GST_RANK_PRIMARY,
                  files);
    check_element("latentmux", "Codec/Muxer/Video", GST_RANK_PRIMARY, file);
}

/* The section comment of an element's source describes it, with examples. */
TEST(sections)
{
    static const struct {
        const char *element, *source;
    } sections[] = {
        {"vaedecode", "decode/decode.c"},
        {"vaeencode", "encode/encode.c"},
        {"latentdemux", "latent/demux/demux.c"},
        {"latentmux", "latent/mux/mux.c"},
    };
    for (guint i = 0; i < G_N_ELEMENTS(sections); i++) {
        g_autofree gchar *path = g_build_filename(
            g_getenv("VAE_TEST_SOURCE"), "gst", sections[i].source, NULL);
        g_autofree gchar *begin = g_strdup_printf(
            "/**\n * SECTION:element-%s\n", sections[i].element);
        gchar *text = NULL, *section, *end;
        guint examples = 0;
        CHECK(g_file_get_contents(path, &text, NULL, NULL));
        section = strstr(text, begin);
        CHECK(section);
        end = strstr(section, " */");
        CHECK(end);
        *end = '\0';
        CHECK(strstr(section, "@short_description: "));
        while ((section = strstr(section, "\n * gst-launch-1.0 "))) {
            examples++;
            section++;
        }
        g_print("%s: %u examples\n", sections[i].element, examples);
        CHECK(examples >= 2);
        g_free(text);
    }
}

/* Templates ------------------------------------------------------------- */

static const struct {
    const char *element, *pad;
} latent_pads[] = {{"vaedecode", "sink"},
                   {"vaeencode", "src"},
                   {"latentdemux", "src"},
                   {"latentmux", "sink"}};

#define REQUIRED                                                               \
    "video/x-vae-latent,type=float32,channels=16,latent-width=6,"              \
    "latent-height=4"
#define OPTIONAL                                                               \
    REQUIRED ",layout=tchw,frames=2,layout-guessed=true,latent-space=wan2.1,"  \
             "normalization=raw,temporal-factor=4,first-frames=1,"             \
             "framerate=30000/"                                                \
             "1001,framerate-assumed=true,width=48,height=32,pixel-aspect-"    \
             "ratio=4/3"

/* Checks that a pad takes the caps, as an event and as a filter, and that the
 * filter adds no field to them. */
static void
check_taken(GstElement *element, const char *pad_name, const char *text)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text), both = NULL;
    g_autoptr(GstPad) pad = gst_element_get_static_pad(element, pad_name);
    g_autoptr(GstCaps) template = gst_pad_get_pad_template_caps(pad);
    CHECK(gst_caps_is_subset(caps, template));
    CHECK(gst_pad_query_accept_caps(pad, caps));
    both = gst_pad_query_caps(pad, caps);
    CHECK(gst_caps_is_equal(both, caps));
    gst_clear_caps(&both);
    both = gst_caps_intersect(template, caps);
    CHECK(gst_caps_is_equal(both, caps));
}

/* The templates tell the ranges of optional fields, and require none of them.
 */
TEST(templates)
{
    static const char *const taken[] = {REQUIRED, OPTIONAL,
                                        REQUIRED ",latent-space=mine",
                                        REQUIRED ",colorimetry=bt709"};
    g_autoptr(GstCaps) optional = gst_caps_from_string(OPTIONAL);
    for (guint i = 0; i < G_N_ELEMENTS(latent_pads); i++) {
        g_autoptr(GstElement) element =
            gst_element_factory_make(latent_pads[i].element, NULL);
        g_autoptr(GstPad) pad =
            gst_element_get_static_pad(element, latent_pads[i].pad);
        g_autoptr(GstCaps) template = gst_pad_get_pad_template_caps(pad);
        g_autoptr(GstCaps) ranges = gst_caps_copy_nth(template, 1);
        g_autoptr(GstCaps) bare = gst_caps_from_string(REQUIRED);
        CHECK(gst_caps_is_subset(optional, ranges));
        CHECK(!gst_caps_is_subset(bare, ranges));
        for (guint k = 0; k < G_N_ELEMENTS(taken); k++)
            check_taken(element, latent_pads[i].pad, taken[k]);
    }
}

/* Pages ----------------------------------------------------------------- */

/* Appends "`value`", or nothing if there is no default. */
static void
append_default(GString *page, GParamSpec *spec)
{
    const GValue *value = g_param_spec_get_default_value(spec);
    g_autofree gchar *text =
        G_VALUE_HOLDS_STRING(value) ? g_value_dup_string(value)
        : G_VALUE_HOLDS_BOXED(value) || !(spec->flags & G_PARAM_WRITABLE)
            ? NULL
            : gst_value_serialize(value);
    if (text)
        g_string_append_printf(page, "`%s`", text);
}

static void
append_row(GString *page, GParamSpec *spec)
{
    const gchar *when = spec->flags & GST_PARAM_MUTABLE_PLAYING ? "always"
                        : spec->flags & G_PARAM_WRITABLE ? "in NULL, READY"
                                                         : "read only";
    g_string_append_printf(page, "| `%s` | ", spec->name);
    append_default(page, spec);
    g_string_append_printf(page, " | %s | %s", when,
                           g_param_spec_get_blurb(spec));
    if (G_IS_PARAM_SPEC_ENUM(spec)) {
        const GEnumClass *values = G_PARAM_SPEC_ENUM(spec)->enum_class;
        for (guint i = 0; i < values->n_values; i++)
            g_string_append_printf(page, "%s`%s`: %s", i ? "; " : ". ",
                                   values->values[i].value_nick,
                                   values->values[i].value_name);
    }
    g_string_append(page, " |\n");
}

static void
append_pads(GString *page, GstElement *element)
{
    const GList *l =
        gst_element_class_get_pad_template_list(GST_ELEMENT_GET_CLASS(element));
    g_string_append(page, "\n| pad | caps |\n|---|---|\n");
    for (; l; l = l->next) {
        GstPadTemplate *pad = l->data;
        GstCaps *caps = gst_pad_template_get_caps(pad);
        for (guint i = 0; i < gst_caps_get_size(caps); i++) {
            GstCapsFeatures *features = gst_caps_get_features(caps, i);
            GstCaps *one = gst_caps_copy_nth(caps, i);
            if (gst_caps_features_is_equal(
                    features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY)) {
                g_autofree gchar *text = gst_caps_to_string(one);
                g_string_append_printf(page, "| `%s` | `%s` |\n",
                                       GST_PAD_TEMPLATE_NAME_TEMPLATE(pad),
                                       text);
            }
            gst_caps_unref(one);
        }
        gst_caps_unref(caps);
    }
}

/* A row for a signal: "`gboolean load-checkpoint (gchararray)`". */
static void
append_signal(GString *page, guint id)
{
    GSignalQuery q;
    g_signal_query(id, &q);
    g_string_append_printf(page, "| `%s` | `%s %s (", q.signal_name,
                           g_type_name(q.return_type), q.signal_name);
    for (guint i = 0; i < q.n_params; i++)
        g_string_append_printf(page, "%s%s", i ? ", " : "",
                               g_type_name(q.param_types[i]));
    g_string_append_printf(page, ")` | %s |\n",
                           q.signal_flags & G_SIGNAL_ACTION ? "emit"
                                                            : "connect");
}

/* The signals of the element and of its parents in this plugin. */
static void
append_signals(GString *page, GType type)
{
    g_autoptr(GString) rows = g_string_new(NULL);
    for (; type != GST_TYPE_ELEMENT; type = g_type_parent(type)) {
        guint n;
        g_autofree guint *ids = g_signal_list_ids(type, &n);
        for (guint i = 0; i < n; i++)
            append_signal(rows, ids[i]);
    }
    if (rows->len > 0)
        g_string_append_printf(
            page, "\n| signal | form | use |\n|---|---|---|\n%s", rows->str);
}

/* docs/elements has a page for each element. GStreamer 1.22 does not know the
 * format GBR_16LE. */
TEST(pages)
{
    static const char *const names[] = {"vaedecode", "vaeencode", "latentdemux",
                                        "latentmux"};
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GstElement) element =
            gst_element_factory_make(names[i], NULL);
        g_autofree gchar *path = g_strdup_printf(
            "%s/docs/elements/%s.md", g_getenv("VAE_TEST_SOURCE"), names[i]);
        g_autofree gchar *found = NULL;
        g_autoptr(GString) page = g_string_new(NULL);
        guint n;
        g_string_append_printf(
            page,
            "# %s\n\n%s.\n\n"
            "[caps.md](../caps.md) explains all fields of the caps, also those "
            "that "
            "may be any\nword, which the pad templates leave out.\n\n"
            "| property | default | may be set | meaning "
            "|\n|---|---|---|---|\n",
            names[i],
            gst_element_class_get_metadata(GST_ELEMENT_GET_CLASS(element),
                                           GST_ELEMENT_METADATA_DESCRIPTION));
        GParamSpec **specs =
            g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &n);
        for (guint k = 0; k < n; k++)
            if (g_type_is_a(specs[k]->owner_type, GST_TYPE_ELEMENT))
                append_row(page, specs[k]);
        g_free(specs);
        append_signals(page, G_OBJECT_TYPE(element));
        append_pads(page, element);
        g_string_replace(page, ", GBR_16LE", "", 0);
        if (g_getenv("VAE_TEST_WRITE"))
            CHECK(g_file_set_contents(path, page->str, -1, NULL));
        CHECK(g_file_get_contents(path, &found, NULL, NULL));
        CHECK_SAYS(strcmp(found, page->str) == 0,
                   "%s is of another element; VAE_TEST_WRITE=1 writes it",
                   path);
    }
}
