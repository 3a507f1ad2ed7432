/*
 * test_refused.c: vaedecode refuses wrong caps, rates, buffers and files, and
 * chooses a model if none is named.
 */
#include "vae_test.h"

#define LW 6
#define LH 4

/* The decoder refuses the caps, with an error that has both words. */
static void
check_refused(const char *caps, GQuark domain, gint code, const char *word,
              const char *other)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    vae_test_start(h, caps);
    vae_test_expect_error(h, domain, code, word, other);
}

static void
check_format_refused(const char *fields, const char *word, const char *other)
{
    g_autofree gchar *caps = g_strdup_printf("video/x-vae-latent,%s", fields);
    check_refused(caps, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, word, other);
}

static void
check_limit_refused(const char *limit, GQuark domain, gint code,
                    const char *word, const char *other)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "memory-limit", limit, NULL);
    g_autofree gchar *caps = vae_test_latent_caps(LW, LH, NULL);
    vae_test_start(h, caps);
    vae_test_expect_error(h, domain, code, word, other);
}

TEST(memory_limit)
{
    check_limit_refused("12X", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
                        "memory-limit is \"12X\"", "such as 12G");
    check_limit_refused("1M", GST_RESOURCE_ERROR,
                        GST_RESOURCE_ERROR_NO_SPACE_LEFT,
                        "the memory limit is 1.0 MiB", "per slice needs");
    check_limit_refused(
        "0.001%", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
        "MiB are free within the memory limit", "per slice needs");
}

TEST(refused)
{
    check_format_refused("type=float32,channels=48,latent-width=6,"
                         "latent-height=4",
                         "channels = 48", "expects 16");
    check_format_refused("type=float32,channels=3,latent-width=16,"
                         "latent-height=8",
                         "expects 16", "channels = 3");
    check_format_refused("type=int8,channels=16,latent-width=6,latent-height=4",
                         "int8", "float16");
    check_format_refused("type=float32,channels=16,latent-width=6,"
                         "latent-height=4,latent-space=wan2.2",
                         "wan2.2",
                         "wan2.1; use a model of wan2.2, or to override it, "
                         "set latentdemux latent-space=wan2.1");
    check_format_refused("type=float32,channels=48,latent-width=6,"
                         "latent-height=4,latent-space=wan2.2",
                         "wan2.2", "wan2.1; use a model of wan2.2");
    check_format_refused("type=float32,channels=16,latent-width=6,"
                         "latent-height=4,width=32,height=32",
                         "6x4", "4x4");
    check_format_refused("type=float32,channels=16,latent-width=6,"
                         "latent-height=4,temporal-factor=8",
                         "8", "4");
    check_format_refused("type=float32,channels=16,latent-width=6",
                         "latent-height", "nothing");
    check_format_refused("type=float32,channels=16,latent-width=6,"
                         "latent-height=4,layout=chw,frames=2",
                         "frames", "1");
}

/* Control characters of a name in a file do not reach the terminal. */
TEST(control_characters)
{
    check_format_refused("type=float32,channels=16,latent-width=6,"
                         "latent-height=4,latent-space=\"\\033[31m\"",
                         "latent-space = ?[31m", "wan2.1");
}

/* Rates at which times of frames would overflow or be equal. */
TEST(rates_refused)
{
    static const struct {
        gint n, d;
        const char *words;
    } cases[] = {{1, G_MAXINT, "1/2147483647"}, {G_MAXINT, 1, "2147483647/1"}};
    const char *latents =
        "type=float32,channels=16,latent-width=6,latent-height=4";
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", "framerate",
                                                cases[i].n, cases[i].d, NULL);
        g_autofree gchar *stated = g_strdup_printf(
            "%s,framerate=%d/%d", latents, cases[i].n, cases[i].d);
        g_autofree gchar *text =
            g_strdup_printf("video/x-vae-latent,%s", latents);
        check_format_refused(stated, cases[i].words, "1/3600 to 100000/1");
        vae_test_start(h, text);
        vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                              cases[i].words, "1/3600 to 100000/1");
    }
}

TEST(wrong_buffer)
{
    SCOPED GstHarness *h = vae_test_decoder(NULL, LW, LH, NULL);
    /* The frames before the wrong buffer leave first. */
    vae_test_push_latents(h, LW, LH, 0, 6);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH + 1, 0)),
              GST_FLOW_ERROR);
    CHECK_INT(gst_harness_buffers_received(h), 21);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "1920",
                          "1536");
}

TEST(wrong_caps_later)
{
    SCOPED GstHarness *h = vae_test_decoder(NULL, LW, LH, NULL);
    g_autofree gchar *text =
        vae_test_latent_caps(LW, LH, ",latent-space=wan2.2");
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    vae_test_push_latents(h, LW, LH, 0, 6);
    gst_harness_push_event(h, gst_event_new_caps(caps));
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                          "wan2.2", "wan2.1");
    CHECK_INT(gst_harness_buffers_received(h), 21);
}

/* Returns the details of the next error. (transfer full) */
static GstStructure *
details_of(GstBus *bus)
{
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_ERROR);
    const GstStructure *details = NULL;
    gst_message_parse_error_details(message, &details);
    CHECK(details != NULL);
    return gst_structure_copy(details);
}

static void
check_detail(const GstStructure *details, const char *field,
             const char *expected)
{
    const char *found = gst_structure_get_string(details, field);
    if (g_strcmp0(found, expected) != 0)
        g_printerr("%s is %s, expected %s\n", field, found, expected);
    CHECK(g_strcmp0(found, expected) == 0);
}

/* The details of an error have its parts. */
TEST(details)
{
    GstHarness *h = vae_test_decoder(NULL, LW, LH, NULL);
    g_autofree gchar *text =
        g_strdup_printf("filesrc location=%s ! latentdemux tensor=no "
                        "! fakesink",
                        vae_test_weights());
    gst_harness_push(h, gst_buffer_new_allocate(NULL, 10, NULL));
    GstStructure *details = details_of(GST_ELEMENT_BUS(h->element));
    check_detail(details, "field", "size");
    check_detail(details, "found", "10 bytes");
    check_detail(details, "expected", "1536 bytes");
    check_detail(details, "model", vae_test_weights());
    check_detail(details, "latent-space", "wan2.1");
    gst_structure_free(details);
    g_autoptr(GstCaps) caps =
        gst_caps_from_string("video/x-vae-latent,type=float32,channels=48,"
                             "latent-width=2,latent-height=2");
    gst_harness_push_event(h, gst_event_new_caps(caps));
    details = details_of(GST_ELEMENT_BUS(h->element));
    check_detail(details, "field", "channels");
    check_detail(details, "found", "48");
    check_detail(details, "expected", "16");
    check_detail(details, "model", vae_test_weights());
    gst_structure_free(details);
    vae_test_teardown(h);

    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    details = details_of(GST_ELEMENT_BUS(pipeline));
    check_detail(details, "file", vae_test_weights());
    check_detail(details, "tensor", "no");
    gst_structure_free(details);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* Returns the path of a copy of the test's weights, with `from` in the header
 * replaced by `to` of the same length. */
static const gchar *
damaged_weights(const char *from, const char *to)
{
    const gchar *path = vae_test_path("damaged.safetensors");
    g_autofree gchar *bytes = NULL;
    gsize size;
    CHECK(g_file_get_contents(vae_test_weights(), &bytes, &size, NULL));
    gchar *at = memmem(bytes, size, from, strlen(from));
    CHECK(at && strlen(to) == strlen(from));
    memcpy(at, to, strlen(to));
    CHECK(g_file_set_contents(path, bytes, (gssize) size, NULL));
    return path;
}

/* Returns a bus with the error of an element that cannot pause with this model
 * and property. */
static GstBus *
refused_bus(const char *name, const char *model, const char *property,
            const char *value)
{
    g_autoptr(GstElement) element = gst_element_factory_make(name, NULL);
    GstBus *bus = gst_bus_new();
    g_object_set(element, "model", model, property, value, NULL);
    gst_element_set_bus(element, bus);
    CHECK_INT(gst_element_set_state(element, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    CHECK_INT(gst_element_set_state(element, GST_STATE_PAUSED),
              GST_STATE_CHANGE_FAILURE);
    CHECK_INT(gst_element_set_state(element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    gst_element_set_bus(element, NULL);
    return bus;
}

static void
check_property(const gchar *element, const gchar *property, const gchar *value,
               const gchar *found, const gchar *expected)
{
    g_autoptr(GstBus) bus =
        refused_bus(element, vae_test_weights(), property, value);
    g_autoptr(GstStructure) details = details_of(bus);
    check_detail(details, "model", vae_test_weights());
    check_detail(details, "found", found);
    check_detail(details, "expected", expected);
}

/* A wrong limit is found when the stream is opened: the element refuses a wrong
 * word, the engine a wrong size. */
static void
check_limit_details(const gchar *limit, const gchar *field,
                    const gchar *expected)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "memory-limit", limit, NULL);
    GstBus *bus = vae_test_bus(h);
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, NULL);
    vae_test_start(h, text);
    g_autoptr(GstStructure) details = details_of(bus);
    check_detail(details, field, expected);
    check_detail(details, "model", vae_test_weights());
    check_detail(details, "latent-space", "wan2.1");
}

TEST(setting_details)
{
    check_property("vaedecode", "variant", "taehv", "wan2.1", "taehv");
    check_property("vaeencode", "variant", "nonsense", "wan2.1", "nonsense");
    check_limit_details("12X", "found", "12X");
    check_limit_details("12X", "field", "memory-limit");
    check_limit_details("1M", "expected", "1.0 MiB");
    check_limit_details("1K", "expected", "1024 bytes");
}

/* Faults that the engine finds in a file of weights. */
static void
check_engine_details(const char *from, const char *to, const char *tensor,
                     const char *found, const char *expected)
{
    const gchar *path = damaged_weights(from, to);
    g_autoptr(GstBus) bus = refused_bus("vaedecode", path, NULL, NULL);
    g_autoptr(GstStructure) details = details_of(bus);
    check_detail(details, "model", path);
    check_detail(details, "tensor", tensor);
    check_detail(details, "found", found);
    check_detail(details, "expected", expected);
}

TEST(engine_details)
{
    check_engine_details("decoder.conv1.bias", "decoder.conv1.bios",
                         "decoder.conv1.bias", "no such tensor", "32");
    check_engine_details("\"F32\"", "\"I32\"", "encoder.conv1.weight", "int32",
                         "float32, float16, bfloat16 or float64");
}

/* A network without an encoder or a decoder. */
TEST(side_details)
{
    const gchar *path = vae_test_network("ltx2_0_timestep");
    SCOPED GstHarness *h = vae_test_harness("vaeencode", "model", path, NULL);
    GstBus *bus = vae_test_bus(h);
    vae_test_start(h, "video/x-raw,format=RGB,width=64,height=64");
    g_autoptr(GstStructure) details = details_of(bus);
    check_detail(details, "field", "model");
    check_detail(details, "found", "only a decoder");
    check_detail(details, "expected", "an encoder");
}

/* Reads a file of latents with these bytes, with settings of the demuxer. */
static void
check_file_details(const char *settings, const char *bytes, gsize size,
                   const char *found, const char *expected)
{
    const gchar *path = vae_test_path("bad.latents");
    g_autofree gchar *text = g_strdup_printf(
        "filesrc location=%s ! latentdemux %s ! fakesink", path, settings);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    CHECK(g_file_set_contents(path, bytes, (gssize) size, NULL));
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    g_autoptr(GstStructure) details = details_of(bus);
    check_detail(details, "found", found);
    check_detail(details, "expected", expected);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

#define NPY(version, header) "\x93NUMPY" version header
#define CHECK_FILE(bytes, found, expected)                                     \
    check_file_details("", bytes, sizeof bytes - 1, found, expected)

TEST(file_details)
{
    CHECK_FILE("GGUF not latents", "a GGUF file",
               "safetensors, npy or PyTorch file");
    CHECK_FILE(NPY("\4\0", "\2\0{}"), "4.0", "1.0, 2.0 or 3.0");
    CHECK_FILE(NPY("\1\0", "\4\0{x}\n"), "x}",
               "a key: 'descr', 'fortran_order' or 'shape'");
    CHECK_FILE(NPY("\1\0", "\20\0{'descr': '>f4'}"), "big-endian float32",
               "float32, float16 or float64, or uint8 for frames, in "
               "little-endian order");
    CHECK_FILE(NPY("\1\0", "\27\0{'fortran_order': True}"), "fortran_order",
               "C order");
}

/* A good file, with wrong settings of the demuxer. */
TEST(clip_details)
{
    static const char good[] =
        NPY("\1\0", "\77\0{'descr': '<f4', 'fortran_order': False, 'shape': "
                    "(4,1,1,1)}  \n") "123412341234123";
    g_autofree gchar *name = g_strnfill(64, 'x');
    g_autofree gchar *space = g_strdup_printf("latent-space=%s", name);
    check_file_details("framerate=1000000/1", good, sizeof good, "1000000/1",
                       "1/3600 to 100000/1");
    check_file_details(space, good, sizeof good, name,
                       "a name of 1 to 63 bytes of UTF-8");
}

/* Without the property, the latent space selects the model. The error comes at
 * the first buffer, because decodebin hides an error at the caps. */
static void
check_late(const char *more, GQuark domain, gint code, const char *word,
           const char *other)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "model", NULL, NULL);
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, more);
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    gst_harness_push_event(h, gst_event_new_stream_start("none"));
    CHECK(gst_harness_push_event(h, gst_event_new_caps(caps)));
    vae_test_push_segment(h);
    vae_test_none(h, GST_MESSAGE_ERROR);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, 0)),
              GST_FLOW_NOT_NEGOTIATED);
    vae_test_expect_error(h, domain, code, word, other);
}

static void
check_no_model(const char *more, const char *word, const char *other)
{
    check_late(more, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, word,
               other);
}

TEST(no_model)
{
    check_no_model(NULL, "latent-space", "model=");
    check_no_model(",latent-space=wan9", "wan9.safetensors", "model=");
    check_no_model(",latent-space=\"../wan2.1\"", "../wan2.1", "model=");
}

static void
check_bad_file(const char *path, gint code, const char *word)
{
    g_autoptr(GstBus) bus = refused_bus("vaedecode", path, NULL, NULL);
    vae_test_bus_error(bus, GST_RESOURCE_ERROR, code, word, "");
}

TEST(bad_file)
{
    g_autofree gchar *latents =
        g_build_filename(g_getenv("VAE_TEST_VECTORS"), "wan21",
                         "decode_t1_6x10.safetensors", NULL);
    check_bad_file("/nowhere/at/all.safetensors", GST_RESOURCE_ERROR_NOT_FOUND,
                   "/nowhere/at/all.safetensors");
    vae_test_weights();
    check_bad_file(latents, GST_RESOURCE_ERROR_OPEN_READ,
                   "decode_t1_6x10.safetensors");
}

/* Writes the model of wan2.1 into the XDG data folder. Returns its path. */
static gchar *
install(const gchar *bytes, gsize size)
{
    g_autofree gchar *folder =
        g_build_filename(g_get_user_data_dir(), "gst-vae", "models", NULL);
    gchar *path = g_build_filename(folder, "wan2.1.safetensors", NULL);
    CHECK(g_mkdir_with_parents(folder, 0700) == 0);
    CHECK(g_file_set_contents(path, bytes, (gssize) size, NULL));
    return path;
}

static gchar *
install_copy(const gchar *weights)
{
    g_autofree gchar *bytes = NULL;
    gsize size;
    CHECK(g_file_get_contents(weights, &bytes, &size, NULL));
    return install(bytes, size);
}

/* An installed model is found by its latent space. */
TEST(installed)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", NULL, NULL);
    g_autofree gchar *path = install_copy(vae_test_weights());
    vae_test_set_latents(h, LW, LH, ",latent-space=wan2.1");
    vae_test_push_latents(h, LW, LH, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    vae_test_teardown(h);
    CHECK(remove(path) == 0);
}

/* Of an installed model that does not open, or is of another network. */
TEST(installed_wrong)
{
    static const gchar *const files[][2] = {
        {"GGUF\3______________________", "is a GGUF file"},
        {"version https://git-lfs.github.com/spec/v1\n", "git LFS"}};
    g_autofree gchar *path = NULL;
    for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
        g_free(path);
        path = install(files[i][0], strlen(files[i][0]));
        check_late(",latent-space=wan2.1", GST_RESOURCE_ERROR,
                   GST_RESOURCE_ERROR_OPEN_READ, files[i][1], path);
    }
    g_free(path);
    path = install_copy(vae_test_network("taehv/taehv"));
    check_late(",latent-space=wan2.1", GST_STREAM_ERROR,
               GST_STREAM_ERROR_FORMAT, path, "expects hunyuan");
    CHECK(remove(path) == 0);
}

int
main(int argc, char **argv)
{
    gchar *home = vae_test_home_new();
    const int status = vae_test_main(argc, argv);
    vae_test_home_free(home);
    return status;
}
