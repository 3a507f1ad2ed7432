/*
 * test_layers.c: VAEs of Wan2.1's latents with another last or first layer. The
 * weights of a layer are rows of the usual layer, so each result is a result of
 * the usual network.
 */
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
    check(info && info->scale == 2 && info->spatial == 16 &&
              !info->has_encoder && strcmp(info->space, "wan2.1") == 0 &&
              strstr(info->reason, "encoder is ignored"),
          "  of a decoder alone", info ? info->reason : error.message);
}

void
test_layers(void)
{
    test_shuffle();
}
