/*
 * test_layers.c: VAEs of Wan2.1's latents with another last or first layer. The
 * weights of a layer are rows of the usual layer, so each result is a result of
 * the usual network.
 */
#include <math.h>

#include "weights_set.h"

/* Replaces a tensor by n of its rows, data. */
static void
take_rows(const char *name, const int *rows, int n, uint8_t *data)
{
    VaeTensorOut *t = find(name);
    size_t row = vae_type_size(t->type);
    for (int d = 1; d < t->n_dims; d++)
        row *= (size_t) t->dims[d];
    for (int i = 0; i < n; i++)
        memcpy(data + (size_t) i * row,
               (const uint8_t *) t->data + (size_t) rows[i] * row, row);
    t->dims[0] = n;
    t->data = data;
}

/* torch's pixel_shuffle: channel 4 c + 2 y + x is colour c of pixel (x, y). */
static void
test_shuffle(void)
{
    enum { H = 16, W = 24 };
    static const int colour[4][3] = {
        {0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}};
    static uint8_t weight[1 << 16], bias[64];
    VaeError error = {0};
    int rows[12], wrong = 0;
    for (int i = 0; i < 12; i++)
        rows[i] = colour[i % 4][i / 4];
    load("wan21");
    SCOPED_BLOCK float *usual = decode(write_set(), 1, &error);
    take_rows("decoder.head.2.weight", rows, 12, weight);
    take_rows("decoder.head.2.bias", rows, 12, bias);
    SCOPED_BLOCK float *twice = decode(write_set(), 2, &error);
    for (int i = 0; usual && twice && i < 5 * 2 * H * 2 * W * 3; i++) {
        const int c = i % 3, x = i / 3 % (2 * W), y = i / 3 / (2 * W);
        const float *pixel = usual + (y / 2 * W + x / 2) * 3;
        wrong += twice[i] != pixel[colour[y % 2 * 2 + x % 2][c]];
    }
    check(usual && twice && !wrong, "12 channels are 2x2 pixels",
          error.message);
    SCOPED_MODEL VaeModel *model = NULL;
    vae_model_open(write_set(), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(
        info && info->scale == 2 && info->spatial == 16 && !info->has_encoder &&
            strcmp(info->space, "wan2.1") == 0 &&
            strstr(info->reason, "to encode, use the usual weights of wan2.1"),
        "  of a decoder alone", info ? info->reason : error.message);
    VaeStreamParams params = VAE_INIT(VaeStreamParams);
    VaeStream *stream = NULL;
    params.direction = VAE_ENCODE;
    params.width = params.height = 16;
    check(model &&
              vae_stream_new(model, &params, &stream, &error) ==
                  VAE_ERR_MODEL &&
              strstr(error.message, "to encode, use the usual weights"),
          "  and an encoder tells what to use", error.message);
    vae_stream_free(&stream);
}

/* No known network has pictures of so many channels. */
static void
test_other_channels(void)
{
    static const int rows[5] = {0, 1, 2, 0, 1};
    static uint8_t weight[1 << 16], bias[64];
    load("wan21");
    take_rows("decoder.head.2.weight", rows, 5, weight);
    take_rows("decoder.head.2.bias", rows, 5, bias);
    expect_error("5 channels", VAE_ERR_MODEL,
                 WORDS("decoder.head.2.weight", "5 channels", "or 12"));
}

/* A decoder opens, and fails when its weights are read. */
static void
test_nan(void)
{
    static float values[1 << 16];
    VaeError error = {0};
    load("wan21");
    VaeTensorOut *t = find("decoder.conv1.weight");
    size_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        n *= (size_t) t->dims[d];
    memcpy(values, t->data, n * sizeof *values);
    values[n - 1] = NAN;
    t->data = values;
    const char *path = write_set();
    float *none = decode(path, 1, &error);
    check(!none && error.status == VAE_ERR_MODEL &&
              strstr(error.message, path) && strstr(error.message, "NaN") &&
              strstr(error.message, "\"decoder.conv1.weight\""),
          "a weight of NaN is refused", error.message);
    free(none);
}

enum { N_PIXELS = 5 * 16 * 24, N_LATENT = 2 * 16 * 2 * 3 };

/* The fourth channel is alpha; here its weights are those of red. */
static void
test_alpha_decoder(void)
{
    static const int rows[4] = {0, 1, 2, 0};
    static uint8_t weight[1 << 16], bias[64], bytes[N_PIXELS * 4];
    static float all[N_PIXELS * 4];
    VaeError error = {0};
    int wrong = 0;
    load("wan21");
    SCOPED_BLOCK float *usual = decode(write_set(), 1, &error);
    take_rows("decoder.head.2.weight", rows, 4, weight);
    take_rows("decoder.head.2.bias", rows, 4, bias);
    SCOPED_BLOCK float *colours = decode(write_set(), 1, &error);
    check(usual && colours && strstr(warned, "makes alpha, which is lost"),
          "pictures that have no place for alpha are told", warned);
    warned[0] = '\0';
    const bool good =
        usual && colours &&
        decode_to(write_set(), 1, VAE_PIXELS_RGBA_F32, 16, all, &error) &&
        decode_to(write_set(), 1, VAE_PIXELS_BGRA, 4, bytes, &error);
    for (int i = 0; good && i < N_PIXELS; i++) {
        const float *v = usual + 3 * i, *a = all + 4 * i;
        const uint8_t *b = bytes + 4 * i;
        wrong += memcmp(v, colours + 3 * i, 3 * sizeof *v) != 0 ||
                 memcmp(v, a, 3 * sizeof *v) != 0 || a[3] != v[0] ||
                 b[3] != b[2];
    }
    check(good && !wrong && !strstr(warned, "alpha"), "4 channels are RGBA",
          error.message);
    load("wan21");
    check(!decode_to(write_set(), 1, VAE_PIXELS_RGBA_F32, 16, all, &error) &&
              strstr(error.message, "the network has no alpha"),
          "  and without alpha floats are 3", error.message);
}

/* Writes wan21, whose encoder reads only channel `at` of n, with the weights of
 * red. */
static const char *
one_colour(int n, int at)
{
    static uint8_t data[1 << 16];
    load("wan21");
    VaeTensorOut *t = find("encoder.conv1.weight");
    const size_t area = 27 * vae_type_size(t->type);
    memset(data, 0, sizeof data);
    for (int o = 0; o < (int) t->dims[0]; o++)
        memcpy(data + (size_t) (o * n + at) * area,
               (const uint8_t *) t->data + (size_t) (o * 3) * area, area);
    t->dims[1] = n;
    t->data = data;
    return write_set();
}

static void
test_alpha_encoder(void)
{
    static float rgb[N_PIXELS * 3], rgba[N_PIXELS * 4];
    static float a[N_LATENT], b[N_LATENT], opaque[N_LATENT];
    static uint8_t bytes[N_PIXELS * 4];
    const int64_t dims[1] = {N_PIXELS * 3};
    VaeError error = {0};
    vae_generate("frames", dims, 1, rgb);
    for (int i = 0; i < N_PIXELS; i++) {
        memcpy(rgba + 4 * i, rgb + 3 * i, 3 * sizeof *rgb);
        rgba[4 * i] = 9;
        rgba[4 * i + 3] = rgb[3 * i];
    }
    check(
        encode_from(one_colour(3, 0), VAE_PIXELS_RGB_F32, 12, rgb, a, &error) &&
            encode_from(one_colour(4, 3), VAE_PIXELS_RGBA_F32, 16, rgba, b,
                        &error) &&
            memcmp(a, b, sizeof a) == 0,
        "an encoder of 4 channels reads alpha", error.message);
    for (int i = 0; i < N_PIXELS * 4; i++)
        rgba[i] = i % 4 == 3 ? -1 : fabsf(rgba[i]) / 9;
    warned[0] = '\0';
    check(encode_from(one_colour(4, 3), VAE_PIXELS_RGBA_F32, 16, rgba, b,
                      &error) &&
              strstr(warned, "convert the values to -1 to 1"),
          "  and the range of colours is checked without alpha", warned);
    memset(bytes, 255, sizeof bytes);
    check(encode_from(one_colour(4, 3), VAE_PIXELS_RGBA, 4, bytes, a, &error) &&
              encode_from(one_colour(4, 3), VAE_PIXELS_RGB_F32, 12, rgb, opaque,
                          &error) &&
              memcmp(a, opaque, sizeof a) == 0,
          "  and a picture without alpha is opaque", error.message);
    bytes[3] = 0;
    check(encode_from(one_colour(4, 3), VAE_PIXELS_RGBA, 4, bytes, b, &error) &&
              memcmp(a, b, sizeof a) != 0 &&
              encode_from(one_colour(4, 3), VAE_PIXELS_BGRX, 4, bytes, b,
                          &error) &&
              memcmp(a, b, sizeof a) == 0,
          "  also if its fourth byte is no alpha", error.message);
    warned[0] = '\0';
    bytes[0] = 0; /* the frames have two colours */
    check(encode_from(one_colour(3, 0), VAE_PIXELS_BGRX, 4, bytes, b, &error) &&
              !strstr(warned, "alpha") &&
              encode_from(one_colour(3, 0), VAE_PIXELS_RGBA, 4, bytes, b,
                          &error) &&
              strstr(warned, "have transparent pixels"),
          "  and alpha that an encoder does not read is told", warned);
}

void
test_layers(void)
{
    test_shuffle();
    test_other_channels();
    test_nan();
    test_alpha_decoder();
    test_alpha_encoder();
}
