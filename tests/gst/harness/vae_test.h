/*
 * vae_test.h: what the tests of vaedecode and vaeencode share.
 *
 * A test program runs all its TESTs in the order of the file, or those named on
 * the command line, and fails at the first CHECK that does not hold. Under
 * GST_TRACERS=leaks it also fails on what is still alive at the end. A program
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

/* CHECK() that prints more. */
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

/* The small Wan 2.1 model: 16 channels, factor 8, 1 then 4 frames, 16/1.
 * Exits with 77 where it is not there. */
const char *vae_test_weights(void);
/* The weights of another small network. (transfer full) */
gchar *vae_test_network(const char *folder);

/* An empty folder in place of the XDG data folders, so that nothing that is
 * installed on this machine is found. */
gchar *vae_test_home_new(void);
void vae_test_home_free(gchar *home);

/* An element with the model and threads=1 set, then the named properties, in
 * a harness. */
GstHarness *vae_test_harness(const char *element, const char *property, ...);
/* vaedecode with a model, NULL for the small one, and the caps of a grid. */
GstHarness *vae_test_decoder(const char *model, int width, int height,
                             const char *more);
/* Pushes a stream-start and caps, which may be refused. */
void vae_test_start(GstHarness *h, const char *caps);
/* Sets the caps of vae_test_latent_caps() in front of vaedecode. */
void vae_test_set_latents(GstHarness *h, int width, int height,
                          const char *more);
/* Sets caps of float32 latents with these fields and further ones. */
void vae_test_set_grid(GstHarness *h, int channels, int width, int height,
                       const char *more);
/* Sets caps of I420 at 16/1 in front of vaeencode; fills info. */
void vae_test_set_video(GstHarness *h, GstVideoInfo *info, int width,
                        int height);
void vae_test_set_format(GstHarness *h, GstVideoInfo *info,
                         GstVideoFormat format, int width, int height);
/* Pushes a segment of all times, and a whole flush with one. */
void vae_test_push_segment(GstHarness *h);
void vae_test_flush(GstHarness *h);
/* Tears down, with the bus; the element must have no other owner. */
void vae_test_teardown(GstHarness *h);
void vae_test_teardown_scoped(GstHarness **h);
/* SCOPED GstHarness *h = ...; is torn down at the end of its block. */
#define SCOPED __attribute__((cleanup(vae_test_teardown_scoped), unused))

#define VAE_TEST_FPS 16
/* The time of frame n at 16/1. */
GstClockTime vae_test_time(guint64 n);

/* float32 latents of a grid, at 16/1. more: further fields or NULL. */
gchar *vae_test_latent_caps(int width, int height, const char *more);
/* Sets the offset and the flag of latent k, whose frames are first to end - 1,
 * and their time. */
void vae_test_stamp(GstBuffer *latent, guint k, guint first, guint end);
/* Latent k of a clip, times and flags by the law 1 then 4; the numbers depend
 * on k and the size only. */
GstBuffer *vae_test_latent(int width, int height, guint k);
/* Pushes latents k0 .. k1 - 1 and expects GST_FLOW_OK. */
void vae_test_push_latents(GstHarness *h, int width, int height, guint k0,
                           guint k1);

/* Frame n of a moving picture, with times. */
GstBuffer *vae_test_frame(const GstVideoInfo *info, guint n);
/* Pushes frames from .. to - 1 and expects GST_FLOW_OK. */
void vae_test_push_frames(GstHarness *h, const GstVideoInfo *info, guint from,
                          guint to);
/* Pushes latent k of a grid, or the frames that it stands for, until one is
 * refused. */
GstFlowReturn vae_test_push_step(GstHarness *h, gboolean frames, int width,
                                 int height, guint k);

/* The next latent, which must be number k of its sequence and stand for frames
 * from .. to - 1. (transfer full) */
GstBuffer *vae_test_pull_latent(GstHarness *h, guint k, guint from, guint to);

/* Pulls n buffers and expects times of frames from first on, without gap, and
 * OFFSET. Returns their MD5. */
gchar *vae_test_pull_frames(GstHarness *h, guint first, guint n);
/* The same behind an EOS event, which comes next; there are no more buffers. */
gchar *vae_test_last_frames(GstHarness *h, guint first, guint n);
/* Adds the bytes of a buffer. */
void vae_test_sum(GChecksum *sum, GstBuffer *buffer);
/* No buffer may be left. Call after EOS or a drain. */
void vae_test_no_more(GstHarness *h);
/* The next downstream event of a type; others in front are dropped. NULL:
 * none came. */
GstEvent *vae_test_event(GstHarness *h, GstEventType type);

/* The next buffer, however long it takes; gst_buffer_unref() it. */
GstBuffer *vae_test_pull(GstHarness *h);
/* Waits for the EOS event and drops events before it. */
void vae_test_wait_eos(GstHarness *h);
/* Pushes EOS and does so. */
void vae_test_push_eos(GstHarness *h);
/* Pushes EOS, expects no buffer that was not pulled, and tears down. */
void vae_test_end(GstHarness *h);
/* Sets to PLAYING and waits for EOS; an error fails. */
void vae_test_play(GstElement *pipeline);
/* Expects equal texts and frees both. */
void vae_test_same(gchar *found, gchar *expected);

/* A bus for an element in a harness; vae_test_teardown() frees it. */
GstBus *vae_test_bus(GstHarness *h);
/* The expected value of an error's text is one of its details, too. */
void vae_test_check_expected(GstMessage *message);
/* The next error, which must be of that kind and hold both words. */
void vae_test_expect_error(GstBus *bus, GQuark domain, gint code,
                           const char *word, const char *other);
/* One warning lies on the bus, with these words in it, and no other. */
void vae_test_one_warning(GstBus *bus, const char *words);

/* A number of the property stats. */
guint64 vae_test_stat(GstHarness *h, const char *field);

#endif
