/*
 * misuse.c: wrong arguments and calls in a wrong order get an error, and change
 * nothing.
 *
 * misuse MODEL BACKEND PRECISION
 */
#include "streams.h"

enum { W = 40, H = 24, T = 4 };
static VaeError error;

/* Checks the error of one refused call. */
static void
refused(const char *what, VaeStatus status)
{
    expect_misuse(status, VAE_ERR_ARGUMENT, &error, what);
    error = (VaeError){0};
}
#define REFUSED(call) refused(#call, call)

static VaePicture
picture(const TestClip *clip, int i)
{
    return (VaePicture){
        .pixels = VAE_PIXELS_RGB_F32,
        .width = W,
        .height = H,
        .data = {(uint8_t *) (clip->video + (size_t) i * W * H * 3)},
        .stride = {W * 3 * sizeof(float)}};
}

/* Passes NULL for each pointer that must not be NULL. */
static void
null_files(const VaeModel *model)
{
    VaeTensorFile *file = (VaeTensorFile *) 1;
    VaeModel *opened = (VaeModel *) 1;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    int steps;
    REFUSED(vae_model_open(NULL, NULL, &opened, &error));
    REFUSED(vae_tensor_file_open(NULL, &file, &error));
    expect(!opened && !file, "the result of a refused call is NULL");
    REFUSED(vae_model_open("", NULL, &opened, &error));
    REFUSED(vae_tensor_file_open("", &file, &error));
    REFUSED(vae_model_open("none", NULL, NULL, &error));
    REFUSED(vae_tensor_file_open("none", NULL, &error));
    REFUSED(vae_tensor_file_open_memory(NULL, 9, 9, NULL, &file, &error));
    REFUSED(vae_tensor_file_open_memory("", 0, 0, NULL, NULL, &error));
    REFUSED(vae_latent_clip_find(NULL, NULL, &clip, &error));
    REFUSED(vae_model_history(NULL, VAE_DECODE, &steps, &error));
    REFUSED(vae_model_history(model, VAE_DECODE, NULL, &error));
    REFUSED(vae_model_history(model, (VaeDirection) 2, &steps, &error));
    expect(vae_model_open(NULL, NULL, &opened, NULL) == VAE_ERR_ARGUMENT,
           "a refused call without a VaeError");
}

static void
null_streams(VaeModel *model)
{
    const VaeStreamParams params = {
        .struct_size = sizeof params, .width = W, .height = H};
    VaeCheckpointParams at = VAE_INIT(VaeCheckpointParams);
    VaePlan plan = VAE_INIT(VaePlan);
    VaeStream *s = (VaeStream *) 1;
    REFUSED(vae_stream_plan(NULL, &params, &plan, &error));
    REFUSED(vae_stream_plan(model, NULL, &plan, &error));
    REFUSED(vae_stream_plan(model, &params, NULL, &error));
    REFUSED(vae_stream_new(NULL, &params, &s, &error));
    expect(!s, "no stream after an error");
    REFUSED(vae_stream_new(model, NULL, &s, &error));
    REFUSED(vae_stream_new(model, &params, NULL, &error));
    REFUSED(vae_stream_restart(NULL, 0, &error));
    REFUSED(vae_stream_send_latent(NULL, NULL, &error));
    REFUSED(vae_stream_send_clip(NULL, NULL, 0, &error));
    REFUSED(vae_stream_send_picture(NULL, NULL, &error));
    REFUSED(vae_stream_receive_picture(NULL, NULL, &error));
    REFUSED(vae_stream_receive_latent(NULL, NULL, &error));
    REFUSED(vae_stream_decode(NULL, NULL, 1, NULL, 1, &error));
    REFUSED(vae_stream_encode(NULL, NULL, 1, NULL, 1, &error));
    REFUSED(vae_stream_drain(NULL, 0, NULL, 0, &error));
    REFUSED(vae_stream_wait(NULL, 0, &error));
    REFUSED(vae_stream_release(NULL, &error));
    REFUSED(vae_stream_resume(NULL, &error));
    REFUSED(vae_stream_save(NULL, &at, &error));
}

static void
wrong_params(VaeModel *model)
{
    const VaeStreamParams good = {
        .struct_size = sizeof good, .width = W, .height = H};
    VaeStreamParams p = good;
    VaeStream *s;
    p.backend = VAE_BACKEND_KINDS;
    REFUSED(vae_stream_new(model, &p, &s, &error));
    p = good;
    p.precision = (VaePrecision) 5;
    REFUSED(vae_stream_new(model, &p, &s, &error));
    p = good;
    p.pictures_on_device = 2;
    REFUSED(vae_stream_new(model, &p, &s, &error));
    p = good;
    p.width = p.height = 0;
    expect_misuse(vae_stream_new(model, &p, &s, &error), VAE_ERR_SIZE, &error,
                  "no size");
    expect(strstr(error.message, "a file of latents that states no size"),
           "the error says where the size comes from: %s", error.message);
}

/* Passes wrong arguments to the calls that run whole steps. */
static void
wrong_steps(const Bed *bed, const TestClip *clip)
{
    VaeStream *s = bed_slices(bed, VAE_DECODE, W, H, 2);
    VaePicture p = picture(clip, 0);
    VaeLatentIn in = {VAE_TYPE_F32, clip->latents};
    VaeLatentOut out = {.type = VAE_TYPE_U8, .data = clip->latents};
    int units, most;
    vae_stream_count(s, -1, &units, &most);
    expect(units == 0 && most == 0, "no step takes and gives no unit");
    vae_stream_count(s, INT32_MAX, &units, &most);
    expect(units > 0 && most > 0, "many steps take %d and give %d units", units,
           most);
    REFUSED(vae_stream_receive_picture(s, NULL, &error));
    REFUSED(vae_stream_decode(s, NULL, 1, &p, 1, &error));
    REFUSED(vae_stream_decode(s, &in, 1, NULL, 1, &error));
    REFUSED(vae_stream_decode(s, &in, INT32_MAX, &p, 1, &error));
    in.type = VAE_TYPE_U8;
    REFUSED(vae_stream_decode(s, &in, 1, &p, 1, &error));
    in = (VaeLatentIn){VAE_TYPE_F32, NULL};
    REFUSED(vae_stream_decode(s, &in, 1, &p, 1, &error));
    in.data = clip->latents;
    p.matrix = (VaeMatrix) 3;
    REFUSED(vae_stream_decode(s, &in, 1, &p, 1, &error));
    expect(vae_stream_at_start(s), "nothing ran");
    vae_stream_free(&s);

    s = bed_slices(bed, VAE_ENCODE, W, 1, 1);
    p = picture(clip, 0);
    p.height = 1;
    p.stride[0]--;
    REFUSED(vae_stream_send_picture(s, &p, &error)); /* one short row */
    p.stride[0]++;
    expect(vae_stream_send_picture(s, &p, &error) == VAE_OK, "a whole row");
    vae_stream_free(&s);

    const int n = bed->info->encode.first_in;
    VaePicture *pictures = test_alloc((size_t) n * sizeof *pictures);
    for (int i = 0; i < n; i++)
        pictures[i] = picture(clip, 0);
    s = bed_slices(bed, VAE_ENCODE, W, H, 2);
    REFUSED(vae_stream_receive_latent(s, NULL, &error));
    REFUSED(vae_stream_encode(s, NULL, n, &out, 1, &error));
    REFUSED(vae_stream_encode(s, pictures, n, NULL, 1, &error));
    REFUSED(vae_stream_encode(s, pictures, n, &out, 1, &error));
    out = (VaeLatentOut){.type = VAE_TYPE_F32};
    REFUSED(vae_stream_encode(s, pictures, n, &out, 1, &error));
    expect(vae_stream_at_start(s), "nothing ran");
    vae_stream_free(&s);
    free(pictures);
}

/* Sends the first latent and two more, and receives the first of their frames.
 * The other frames wait in the stream. */
static VaeStream *
half_received(const Bed *bed, const TestClip *clip)
{
    VaeStream *s = bed_slices(bed, VAE_DECODE, W, H, 2);
    const VaeLatentIn in = {VAE_TYPE_F32, clip->latents};
    const VaePicture p = picture(clip, 0);
    for (int i = 0; i < 3; i++) {
        must(vae_stream_send_latent(s, &in, &error), &error);
        if (i != 1)
            must(vae_stream_receive_picture(s, &p, &error), &error);
    }
    return s;
}

static void
wrong_order(const Bed *bed, const TestClip *clip)
{
    VaeStream *s = half_received(bed, clip);
    VaePicture p[16];
    const VaeLatentIn in = {VAE_TYPE_F32, clip->latents};
    int n_in, n_out;
    for (int i = 0; i < 16; i++)
        p[i] = picture(clip, 0);
    vae_stream_count(s, 1, &n_in, &n_out);
    REFUSED(vae_stream_decode(s, &in, n_in, p, n_out, &error));
    REFUSED(vae_stream_drain(s, 0, NULL, 0, &error));
    while (vae_stream_receive_picture(s, p, &error) == VAE_OK)
        ;
    expect(vae_stream_decode(s, &in, n_in, p, n_out, &error) == VAE_OK,
           "a whole step after all units");
    must(vae_stream_send_latent(s, &in, &error), &error);
    REFUSED(vae_stream_decode(s, &in, n_in, p, n_out, &error));
    vae_stream_reset(s);
    vae_stream_count(s, 1, &n_in, &n_out);
    expect(vae_stream_decode(s, &in, n_in, p, n_out, &error) == VAE_OK,
           "a whole step after a reset");
    vae_stream_free(&s);
}

/* Checks that a call for a checkpoint is refused, with an error that has the
 * word. */
static void
not_saved(VaeStream *s, VaeCheckpointParams at, const char *word)
{
    const VaeStatus status = vae_stream_save(s, &at, &error);
    expect(status == VAE_ERR_ARGUMENT && strstr(error.message, word), "%s: %s",
           vae_status_name(status), error.message);
}

static void
wrong_checkpoints(const Bed *bed, const TestClip *clip)
{
    char path[] = "/tmp/vae-misuse-XXXXXX";
    VaeStream *s = half_received(bed, clip);
    const VaePicture p = picture(clip, 0);
    VaeMetadata own = {"vae.latents", "3"};
    const VaeMetadata twice[] = {{"file", "a"}, {"mine", "1"}, {"file", "b"}};
    VaeCheckpointParams at = VAE_INIT(VaeCheckpointParams);
    close(mkstemp(path));
    REFUSED(vae_stream_save(s, NULL, &error));
    REFUSED(vae_stream_save(s, &at, &error));
    REFUSED(vae_stream_load(s, &at, NULL, &error));
    at.path = "";
    not_saved(s, at, "the path is empty");
    at.path = vae_model_info(bed->model)->path;
    not_saved(s, at, "is the model");
    at.path = path;
    not_saved(s, at, "receive them first");
    while (vae_stream_receive_picture(s, &p, &error) == VAE_OK)
        ;
    at.n_own = 1;
    REFUSED(vae_stream_save(s, &at, &error));
    at.own = &own;
    REFUSED(vae_stream_save(s, &at, &error));
    own = (VaeMetadata){"mine", NULL};
    REFUSED(vae_stream_save(s, &at, &error));
    own.value = "3";
    REFUSED(vae_stream_load(s, &at, NULL, &error));
    expect(vae_stream_save(s, &at, &error) == VAE_OK, "a right call");
    VaeCheckpointParams many = at;
    many.own = twice;
    many.n_own = 3;
    not_saved(s, many, "the name \"file\" appears twice");
    must(vae_stream_send_latent(s, NULL, &error), &error);
    not_saved(s, at, "the sequence has ended");
    vae_stream_free(&s);
    unlink(path);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    {
        SCOPED_CLIP TestClip clip = bed_clip(&bed, T, W, H, 0);
        null_files(bed.model);
        null_streams(bed.model);
        wrong_params(bed.model);
        wrong_steps(&bed, &clip);
        wrong_order(&bed, &clip);
        wrong_checkpoints(&bed, &clip);
    }
    return bed_close(&bed);
}
