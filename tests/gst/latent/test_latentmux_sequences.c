/*
 * test_latentmux_sequences.c: files of several sequences.
 */
#include "mux_test.h"

TEST(restart_warns)
{
    mux_open(small_caps);
    for (gint k = 0; k < 4; k++)
        CHECK(push_timed(&small, k, GST_CLOCK_TIME_NONE, GST_CLOCK_TIME_NONE,
                         TRUE) == GST_FLOW_OK);
    mux_end();
    assert_posted(GST_MESSAGE_WARNING, "Latent 1 begins a new sequence");
    assert_quiet();
    mux_close();
    assert_file(OUT, &small, 4, 13);
}

static void
push_at(const Clip *clip, gint k, gint frame, gint frames, gboolean start)
{
    CHECK(push_timed(clip, k, frame_time(frame), frame_time(frames), start) ==
          GST_FLOW_OK);
}

/* Several sequences keep their starts and their numbers of frames. */
TEST(sequences)
{
    static const struct {
        gint frame, frames;
        gboolean start;
    } latents[] = {{0, 1, TRUE},  {1, 4, FALSE}, {5, 2, FALSE}, {7, 1, TRUE},
                   {8, 4, FALSE}, {12, 1, TRUE}, {13, 1, TRUE}, {14, 3, FALSE}};
    const Clip clip = {VAE_TYPE_F16, G_N_ELEMENTS(latents), 16, 3, 5};
    mux_open(small_caps);
    for (gint k = 0; k < clip.t; k++)
        push_at(&clip, k, latents[k].frame, latents[k].frames,
                latents[k].start);
    mux_finish();
    assert_file(OUT, &clip, clip.t, 17);
    Run *run = run_all(PLAY_FILE, OUT);
    CHECK_SAYS(run->warning == NULL, "%s", run->warning);
    CHECK_INT(run->buffers->len, clip.t);
    for (gint k = 0; k < clip.t; k++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, k);
        const guint64 end = latents[k].frame + latents[k].frames;
        CHECK_INT(GST_BUFFER_PTS(b), frame_time(latents[k].frame));
        CHECK_INT(GST_BUFFER_PTS(b) + GST_BUFFER_DURATION(b), frame_time(end));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT),
                  !latents[k].start);
    }

    /* The warm-up of a seek begins no earlier than its sequence. */
    run = run_preroll(OUT, "", "");
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek_simple(run->pipeline, GST_FORMAT_DEFAULT,
                                  GST_SEEK_FLAG_FLUSH, 9));
    run_play(run);
    const GstBuffer *begin = g_ptr_array_index(run->buffers, 0);
    CHECK_INT(GST_BUFFER_OFFSET(begin), 3);
}

/* Many sequences, of 1, 2 and 3 latents: each latent has the right frames, and
 * a seek to a frame finds its latent. */
TEST(many_sequences)
{
    const Clip clip = {VAE_TYPE_F16, 300, 16, 1, 1};
    gint frame[301], start[300];
    mux_open("video/x-vae-latent, type=float16, channels=16, "
             "latent-width=1, latent-height=1, "
             "latent-space=wan2.1, normalization=normalized, "
             "framerate=24/1");
    frame[0] = 0;
    for (gint k = 0, next = 0, n = 0; k < clip.t; k++) {
        const gboolean begins = k == next;
        if (begins)
            next += 1 + n++ % 3;
        start[k] = begins ? k : start[k - 1];
        frame[k + 1] = frame[k] + (begins ? 1 : 4);
        push_at(&clip, k, frame[k], frame[k + 1] - frame[k], begins);
    }
    mux_finish();
    Run *run = run_all(PLAY_FILE, OUT);
    CHECK_SAYS(run->eos && !run->error && !run->warning, "%s", run->error);
    CHECK_INT(run->buffers->len, clip.t);
    for (gint k = 0; k < clip.t; k++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, k);
        CHECK_INT(GST_BUFFER_PTS(b), frame_time(frame[k]));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT),
                  start[k] != k);
    }
    run = run_preroll(OUT, "", "");
    for (gint k = 1; k < clip.t; k += 23) {
        g_ptr_array_set_size(run->buffers, 0);
        CHECK(gst_element_seek_simple(run->pipeline, GST_FORMAT_DEFAULT,
                                      GST_SEEK_FLAG_FLUSH, frame[k + 1] - 1));
        CHECK(gst_element_get_state(run->pipeline, NULL, NULL,
                                    GST_CLOCK_TIME_NONE) !=
              GST_STATE_CHANGE_FAILURE);
        const GstBuffer *b = g_ptr_array_index(run->buffers, 0);
        CHECK_INT(GST_BUFFER_OFFSET(b), start[k]);
    }
}

/* Plays the small clip with a table of sequences. */
static Run *
play_with_table(const VaeTensorOut *table)
{
    g_autofree guint8 *data = clip_data(&small, TCHW);
    const gchar *path = vae_test_path("bad");
    const VaeTensorOut out[] = {{.name = "latent",
                                 .type = small.type,
                                 .data = data,
                                 .n_dims = 4,
                                 .dims = {small.t, small.c, small.h, small.w}},
                                *table};
    const VaeMetadata metadata[] = {{"vae.layout", "tchw"}};
    VaeError error;
    CHECK(vae_tensor_file_write(path, out, 2, metadata, 1, &error) == VAE_OK);
    Run *run = run_all(PLAY_FILE, path);
    return run;
}

/* An impossible table of sequences is an error, as in vaetool. */
TEST(bad_sequences)
{
    static const gint64 bad[][4] = {
        {1, 2, 2, 5},          {0, 1, 0, 9}, {0, 9, 2, 5},
        {0, 5, 4, 1},          {0, 5, 2, 0}, {0, 5, 2, -1},
        {0, 5, G_MAXINT64, 1}, {0, 5, 2, 1}, {0, 1, 2, 5}};
    static const struct {
        VaeType type;
        gint n_dims;
        gint64 dims[2];
        const gchar *found;
    } shapes[] = {{VAE_TYPE_F32, 2, {2, 4}, "F32 2x4"},
                  {VAE_TYPE_F32, 2, {1, 16}, "F32 1x16"},
                  {VAE_TYPE_U8, 2, {2, 15}, "U8 2x15"},
                  {VAE_TYPE_U8, 1, {32}, "U8 32"},
                  {VAE_TYPE_U8, 2, {5, 16}, "U8 5x16"},
                  {VAE_TYPE_U8, 2, {0, 16}, "U8 0x16"}};
    static const gint64 rows[10] = {0, 5, 2, 5};
    VaeTensorOut table = {.name = "latent_sequences",
                          .type = VAE_TYPE_U8,
                          .n_dims = 2,
                          .dims = {2, 16}};
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        table.data = bad[i];
        Run *run = play_with_table(&table);
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                     "latent_sequences");
    }
    for (guint i = 0; i < G_N_ELEMENTS(shapes); i++) {
        table = (VaeTensorOut){.name = "latent_sequences",
                               .type = shapes[i].type,
                               .data = rows,
                               .n_dims = shapes[i].n_dims,
                               .dims = {shapes[i].dims[0], shapes[i].dims[1]}};
        Run *run = play_with_table(&table);
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                     "latent_sequences");
        CHECK_SAYS(strstr(run->error, shapes[i].found) != NULL, "%s",
                   run->error);
    }
}

/* Without temporal-factor in the caps, latents of LTX have eight frames. */
TEST(usual_frames)
{
    const Clip clip = {VAE_TYPE_F16, 4, 128, 1, 1};
    mux_open("video/x-vae-latent, type=float16, channels=128, "
             "latent-width=1, latent-height=1, "
             "latent-space=ltx2, normalization=normalized, "
             "framerate=24/1");
    for (gint k = 0; k < clip.t; k++)
        push_at(&clip, k,
                k == 0  ? 0
                : k < 3 ? 8 * k - 7
                        : 17,
                k % 3 == 0 ? 1 : 8, k % 3 == 0);
    mux_finish();
    assert_file(OUT, &clip, clip.t, 18);
    Run *run = run_all(PLAY_FILE, OUT);
    CHECK_SAYS(run->eos && !run->error && !run->warning, "%s", run->error);
}
