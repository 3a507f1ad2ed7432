/*
 * vae_test.h: shared functions of the tests of vaedecode and vaeencode.
 *
 * A test program runs all its TESTs in the order of the file, or those named on
 * the command line, and fails at the first CHECK that does not hold. Under
 * GST_TRACERS=leaks it also fails if objects are alive at the end. A program
 * without a main() gets that of vae_test_main.c.
 */
#ifndef VAE_TEST_H
#define VAE_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#define CHECK(condition)                                                       \
    ((condition) ? (void) 0 : vae_test_fail(#condition, __FILE__, __LINE__))
#define CHECK_INT(found, expected)                                             \
    vae_test_check_int((gint64) (found), (gint64) (expected), #found,          \
                       __FILE__, __LINE__)

/* CHECK() that also prints a message. */
#define CHECK_SAYS(condition, ...)                                             \
    ((condition) ? (void) 0                                                    \
                 : (g_printerr(__VA_ARGS__), g_printerr("\n"),                 \
                    vae_test_fail(#condition, __FILE__, __LINE__)))
#define CHECK_STR(found, expected)                                             \
    vae_test_check_str(found, expected, #found, __FILE__, __LINE__)

G_NORETURN void vae_test_fail(const char *what, const char *file, int line);
void vae_test_check_int(gint64 found, gint64 expected, const char *what,
                        const char *file, int line);

void vae_test_check_str(const char *found, const char *expected,
                        const char *what, const char *file, int line);

typedef struct VaeTest VaeTest;
struct VaeTest {
    const char *name;
    void (*run)(void);
    int line;
    VaeTest *next;
};

/* TEST(name) { ... } defines a test and adds it to the program. */
#define TEST(id)                                                               \
    static void test_##id(void);                                               \
    static void __attribute__((constructor)) add_test_##id(void)               \
    {                                                                          \
        static VaeTest test = {#id, test_##id, __LINE__, NULL};                \
                                                                               \
        vae_test_add(&test);                                                   \
    }                                                                          \
    static void test_##id(void)

void vae_test_add(VaeTest *test);
/* Called after each test, if set. */
extern void (*vae_test_after)(void);
/* Returns the exit status. */
int vae_test_main(int argc, char **argv);

/* Returns the small Wan 2.1 model: 16 channels, factor 8, 1 then 4 frames,
 * 16/1. Exits with 77 if it is missing. */
const char *vae_test_weights(void);
/* Returns the weights of another small network. */
const gchar *vae_test_network(const char *folder);

/* Returns the path of a file in the folder of the program. The path stays
 * valid; the file is removed after the test. */
const gchar *vae_test_path(const gchar *name);

/* Replaces the XDG data folders by an empty one, so that no installed model is
 * found. */
gchar *vae_test_home_new(void);
void vae_test_home_free(gchar *home);

/* Returns an element in a harness, with the model, threads=1, the named
 * properties and a bus. */
GstHarness *vae_test_harness(const char *element, const char *property, ...);
/* Returns vaedecode with a model (NULL: the small one), and the caps of a
 * grid. */
GstHarness *vae_test_decoder(const char *model, int width, int height,
                             const char *more);
/* Pushes a stream-start and caps, which may be refused. */
void vae_test_start(GstHarness *h, const char *caps);
/* Sets the caps of vae_test_latent_caps() before vaedecode. */
void vae_test_set_latents(GstHarness *h, int width, int height,
                          const char *more);
/* Sets caps of float32 latents with these fields and further ones. */
void vae_test_set_grid(GstHarness *h, int channels, int width, int height,
                       const char *more);
/* Sets caps of I420 at 16/1 before vaeencode; fills info. */
void vae_test_set_video(GstHarness *h, GstVideoInfo *info, int width,
                        int height);
void vae_test_set_format(GstHarness *h, GstVideoInfo *info,
                         GstVideoFormat format, int width, int height);
/* Pushes a segment of all times, and a whole flush with one. */
void vae_test_push_segment(GstHarness *h);
void vae_test_flush(GstHarness *h);
/* Tears down the harness and its bus. The element must have no other owner. */
void vae_test_teardown(GstHarness *h);
void vae_test_teardown_scoped(GstHarness **h);
/* SCOPED GstHarness *h = ...; tears down at the end of the block. */
#define SCOPED __attribute__((cleanup(vae_test_teardown_scoped), unused))

#define VAE_TEST_FPS 16
/* Returns the time of frame n at 16/1. */
GstClockTime vae_test_time(guint64 n);

/* Returns caps of float32 latents of a grid, at 16/1. more: further fields or
 * NULL. */
gchar *vae_test_latent_caps(int width, int height, const char *more);
/* Sets OFFSET, DELTA_UNIT and the times of latent k, whose frames are first ..
 * end - 1. */
void vae_test_stamp(GstBuffer *latent, guint k, guint first, guint end);
/* Returns latent k of a clip, with 1 and then 4 frames. The numbers depend only
 * on k and the size. */
GstBuffer *vae_test_latent(int width, int height, guint k);
/* Pushes latents k0 .. k1 - 1 and expects GST_FLOW_OK. */
void vae_test_push_latents(GstHarness *h, int width, int height, guint k0,
                           guint k1);

/* Returns frame n of a moving picture, with its times. */
GstBuffer *vae_test_frame(const GstVideoInfo *info, guint n);
/* Pushes frames from .. to - 1 and expects GST_FLOW_OK. */
void vae_test_push_frames(GstHarness *h, const GstVideoInfo *info, guint from,
                          guint to);
/* Pushes latent k of a grid, or its frames. Stops at the first one that is
 * refused. */
GstFlowReturn vae_test_push_step(GstHarness *h, gboolean frames, int width,
                                 int height, guint k);

/* Pulls the next latent. It must be number k of its sequence and have the times
 * of frames from .. to - 1. (transfer full) */
GstBuffer *vae_test_pull_latent(GstHarness *h, guint k, guint from, guint to);

/* Pulls n buffers. Checks OFFSET and the times of frames from first on, without
 * gaps. Returns their MD5. */
gchar *vae_test_pull_frames(GstHarness *h, guint first, guint n);
/* Pushes EOS first, and checks that no more buffers come. */
gchar *vae_test_last_frames(GstHarness *h, guint first, guint n);
/* Adds the bytes of a buffer to the checksum. */
void vae_test_sum(GChecksum *sum, GstBuffer *buffer);
/* Checks that no buffer is left. Call it after EOS or a drain. */
void vae_test_no_more(GstHarness *h);
/* Returns the next downstream event of a type, and drops earlier ones. NULL:
 * there is none. */
GstEvent *vae_test_event(GstHarness *h, GstEventType type);

/* Checks the next GAP event: the time of frame first, and the length in frames.
 * Returns its flags. */
GstGapFlags vae_test_expect_gap(GstHarness *h, guint first, guint frames);
/* Returns the least latency that the element answers. */
GstClockTime vae_test_latency(GstHarness *h);

/* Waits for the next buffer. (transfer full) */
GstBuffer *vae_test_pull(GstHarness *h);
/* Waits for the EOS event and drops events before it. */
void vae_test_wait_eos(GstHarness *h);
/* Pushes EOS, and waits for it in the same way. */
void vae_test_push_eos(GstHarness *h);
/* Pushes EOS, checks that all buffers were pulled, and tears down. */
void vae_test_end(GstHarness *h);
/* Changes to PLAYING and waits for EOS. An error fails. */
void vae_test_play(GstElement *pipeline);
/* The same with a pipeline of this text, which ends in NULL. */
void vae_test_run(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
/* Checks that the texts are equal, and frees both. */
void vae_test_same(gchar *found, gchar *expected);

/* Returns the bus of an element in a harness, which vae_test_teardown() frees.
 * Before the first call an element not made by vae_test_harness() has none. */
GstBus *vae_test_bus(GstHarness *h);
/* Checks that the details of an error have the expected value of its text. */
void vae_test_check_expected(GstMessage *message);
/* Checks the next error: its domain and code, and that it has both words. */
void vae_test_expect_error(GstHarness *h, GQuark domain, gint code,
                           const char *word, const char *other);
void vae_test_bus_error(GstBus *bus, GQuark domain, gint code, const char *word,
                        const char *other);
/* Checks that the next warning of the bus has these words. */
void vae_test_warning(GstHarness *h, const char *words);
/* Checks that the bus has one warning, with these words. */
void vae_test_one_warning(GstHarness *h, const char *words);
/* Checks that the bus has no message of these types. */
void vae_test_none(GstHarness *h, GstMessageType types);

/* Returns a number of the property stats. */
guint64 vae_test_stat(GstHarness *h, const char *field);

/* Returns a function of the emulated device. */
void *vae_test_emulated(const gchar *name);

#endif
