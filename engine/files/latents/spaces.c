/*
 * spaces.c: the table of the known latent spaces.
 *
 * The statistics and factors are those of the original VAEs. The last column
 * was read in ComfyUI (Comfy-Org/ComfyUI, commit 75399d7): SaveLatent writes
 * the numbers that process_out() of comfy/latent_formats.py gives. It converts
 * them to raw ones for Wan, Hunyuan, CogVideoX and the other formats of images.
 * It keeps normalized ones for LTXV, SeedVR2, MiniMaxH3Video and Flux2, whose
 * VAE classes apply the statistics themselves. ComfyUI does not have
 * Open-Sora 1.3, Sana and the demo model.
 */
#include "vae-private/spaces.h"

#include <stdio.h>
#include <string.h>

#include "distance.h"
#include "vae-private/types.h"

static const float wan21_mean[16] = {-0.7571f, -0.7089f, -0.9113f, 0.1075f,
                                     -0.1745f, 0.9653f,  -0.1517f, 1.5508f,
                                     0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                                     -0.1922f, -0.9497f, 0.2503f,  -0.2921f};
static const float wan21_std[16] = {
    2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f,
    3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f};

static const float wan22_mean[48] = {
    -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,  0.1838f,
    0.1557f,  -0.1382f, 0.0542f,  0.2813f,  0.0891f,  0.1570f,  -0.0098f,
    0.0375f,  -0.1825f, -0.2246f, -0.1207f, -0.0698f, 0.5109f,  0.2665f,
    -0.2108f, -0.2158f, 0.2502f,  -0.2055f, -0.0322f, 0.1109f,  0.1567f,
    -0.0729f, 0.0899f,  -0.2799f, -0.1230f, -0.0313f, -0.1649f, 0.0117f,
    0.0723f,  -0.2839f, -0.2083f, -0.0520f, 0.3748f,  0.0152f,  0.1957f,
    0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f};
static const float wan22_std[48] = {
    0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f, 0.5013f,
    0.8158f, 1.0344f, 0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f,
    0.5759f, 0.3523f, 0.7135f, 0.6804f, 0.5833f, 1.4146f, 0.8986f, 0.5659f,
    0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f, 0.6866f, 0.4093f,
    0.5709f, 0.6065f, 0.6415f, 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f,
    0.3971f, 1.0600f, 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f};

static const float qwenimage21_mean[64] = {
    0.5126f,  0.7721f,  -0.0631f, 1.3506f,  -0.7855f, -2.1025f, -0.3458f,
    1.3722f,  1.8873f,  -1.7177f, -0.6510f, 0.2732f,  0.7562f,  -0.6163f,
    -1.0277f, 3.8363f,  2.0210f,  0.0472f,  0.9320f,  2.0087f,  2.4954f,
    -0.1391f, -1.4249f, 1.8464f,  -0.5236f, 1.2826f,  3.7046f,  -1.3035f,
    2.7286f,  -1.4518f, -1.9036f, -1.9955f, -0.0342f, -1.0265f, -0.7636f,
    3.0555f,  0.0746f,  -3.0751f, -0.1076f, 1.7376f,  -1.0914f, -1.9435f,
    -0.2784f, -1.3680f, 0.4809f,  -0.4433f, 0.3764f,  0.5729f,  -2.0595f,
    1.0960f,  -1.3260f, -2.0211f, -5.0179f, 0.5275f,  4.0162f,  1.8505f,
    0.3026f,  1.9373f,  1.4937f,  0.2632f,  0.5547f,  -1.7121f, -0.1562f,
    0.0304f};
static const float qwenimage21_std[64] = {
    3.2001f, 3.2936f, 3.4321f, 3.0091f, 3.1061f, 4.0379f, 4.0705f, 3.7910f,
    3.0785f, 3.6500f, 3.9308f, 3.0904f, 2.8778f, 3.7675f, 3.7320f, 5.0756f,
    3.2864f, 4.0397f, 3.1317f, 4.0443f, 2.9249f, 3.9454f, 3.0988f, 4.2489f,
    3.4896f, 3.8513f, 3.9323f, 3.4719f, 3.7498f, 4.2830f, 3.5694f, 4.2467f,
    3.9037f, 3.2947f, 5.0770f, 3.5075f, 3.2700f, 3.4767f, 2.8063f, 5.1125f,
    3.5327f, 4.7833f, 3.1286f, 4.1819f, 3.8527f, 3.8312f, 3.5605f, 4.3875f,
    3.9624f, 4.0168f, 3.5643f, 4.0550f, 5.5614f, 4.2963f, 4.4080f, 3.4959f,
    3.8747f, 3.7608f, 3.5735f, 3.1490f, 3.7662f, 3.6746f, 3.4563f, 3.8161f};

/* CogVideoX-5B and CogVideoX 1.5 have the factor 0.7. CogVideoX-2B multiplies
 * the same raw latents by 1.15258426. */
static const VaeSpace spaces[] = {
    {"wan2.1", 16, 8, {4}, 16, wan21_mean, wan21_std, .comfyui = VAE_RAW},
    {"wan2.2", 48, 16, {4}, 24, wan22_mean, wan22_std, .comfyui = VAE_RAW},
    {"seedvr2", 16, 8, {4}, 16, .factor = 0.9152f, .comfyui = VAE_NORMALIZED},
    {"hunyuan", 16, 8, {4}, 24, .factor = 0.476986f, .comfyui = VAE_RAW},
    {"hunyuan1.5", 32, 16, {4}, 24, .factor = 1.03682f, .comfyui = VAE_RAW},
    {"cogvideox", 16, 8, {4}, 8, .factor = 0.7f, .comfyui = VAE_RAW},
    {"opensora1.3", 16, 8, {4}, 24, .factor = 1, .comfyui = VAE_RAW},
    {"ltx2", 128, 32, {8}, 24, .comfyui = VAE_NORMALIZED},
    {"h3", 24, 16, {4, 5}, 24, .comfyui = VAE_NORMALIZED},
    {"sd", 4, 8, {1}, 16, .factor = 0.18215f, .comfyui = VAE_RAW},
    {"sdxl", 4, 8, {1}, 16, .factor = 0.13025f, .comfyui = VAE_RAW},
    {"sd3",
     16,
     8,
     {1},
     16,
     .factor = 1.5305f,
     .shift = 0.0609f,
     .comfyui = VAE_RAW},
    {"flux1",
     16,
     8,
     {1},
     16,
     .factor = 0.3611f,
     .shift = 0.1159f,
     .comfyui = VAE_RAW},
    {"qwenimage2.1",
     64,
     16,
     {1},
     16,
     qwenimage21_mean,
     qwenimage21_std,
     .comfyui = VAE_RAW},
    {"flux2", 128, 16, {1}, 16, .comfyui = VAE_NORMALIZED},
    {"sana", 32, 32, {1}, 16, .factor = 0.41407f, .comfyui = VAE_RAW},
    {"gst-vae-demo", 16, 8, {4}, 16, .factor = 1, .comfyui = VAE_RAW},
};

enum { N_SPACES = sizeof spaces / sizeof *spaces };

const VaeSpace *
vae_space_at(size_t i)
{
    return i < N_SPACES ? &spaces[i] : NULL;
}

const VaeSpace *
vae_space_find(const char *name)
{
    for (size_t i = 0; name && i < N_SPACES; i++)
        if (strcmp(name, spaces[i].name) == 0)
            return &spaces[i];
    return NULL;
}

const VaeSpace *
vae_space_nearest(const char *name)
{
    const VaeSpace *nearest = &spaces[0];
    for (size_t i = 1; i < N_SPACES; i++)
        if (vae_distance(name, spaces[i].name) <
            vae_distance(name, nearest->name))
            nearest = &spaces[i];
    return 2 * vae_distance(name, nearest->name) < (int) strlen(name) ? nearest
                                                                      : NULL;
}

const VaeSpace *
vae_space_usual(int channels)
{
    for (size_t i = 0; i < N_SPACES; i++)
        if (channels == spaces[i].channels)
            return &spaces[i];
    return NULL;
}

void
vae_space_statistics(const char *name, int channels, float *mean, float *std)
{
    static const VaeSpace unknown = {.factor = 1};
    const VaeSpace *s = vae_space_find(name);
    if (!s || (s->std && s->channels != channels))
        s = &unknown;
    for (int i = 0; i < channels; i++) {
        mean[i] = s->mean ? s->mean[i] : s->shift;
        std[i] = s->std ? s->std[i] : 1 / (s->factor > 0 ? s->factor : 1);
    }
}

VaeNormalization
vae_space_normalization(const char *name, VaeNormalization n)
{
    const VaeSpace *s = vae_space_find(name);
    if (n != VAE_COMFYUI)
        return n;
    return s ? s->comfyui : VAE_RAW;
}

bool
vae_overrides(const char *who, const char *setting, const char *stated,
              const char *set, char *text, size_t size)
{
    if (!stated || strcmp(stated, set) == 0)
        return false;
    snprintf(text, size, "%s states %s %s; %s %s overrides it", who, setting,
             stated, setting, set);
    return true;
}

bool
vae_normalization_overrides(const char *space, const char *who,
                            VaeNormalization stated, VaeNormalization set,
                            char *text, size_t size)
{
    return vae_space_normalization(space, stated) !=
               vae_space_normalization(space, set) &&
           vae_overrides(who, "normalization", vae_normalization_name(stated),
                         vae_normalization_name(set), text, size);
}
