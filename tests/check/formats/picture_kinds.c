/*
 * picture_kinds.c: see picture_kinds.h.
 */
#include <math.h>
#include <string.h>

#include "picture_kinds.h"

const VaeKind vae_kinds[VAE_PIXELS_KINDS] = {
    [VAE_PIXELS_RGB_F32] = {"floats", {"RGB"}, 32, 0, 0, 0},
    [VAE_PIXELS_RGB] = {"rgb", {"RGB"}, 8, 0, 0, 0},
    [VAE_PIXELS_RGBA] = {"rgba", {"RGBA"}, 8, 0, 0, 0},
    [VAE_PIXELS_BGRX] = {"bgrx", {"BGRx"}, 8, 0, 0, 0},
    [VAE_PIXELS_I420] = {"i420", {"Y", "U", "V"}, 8, 0, 1, 1},
    [VAE_PIXELS_NV12] = {"nv12", {"Y", "UV"}, 8, 0, 1, 1},
    [VAE_PIXELS_BGR] = {"bgr", {"BGR"}, 8, 0, 0, 0},
    [VAE_PIXELS_GBR] = {"gbr", {"G", "B", "R"}, 8, 0, 0, 0},
    [VAE_PIXELS_GBR_10] = {"gbr10", {"G", "B", "R"}, 10, 0, 0, 0},
    [VAE_PIXELS_GBR_12] = {"gbr12", {"G", "B", "R"}, 12, 0, 0, 0},
    [VAE_PIXELS_GBR_16] = {"gbr16", {"G", "B", "R"}, 16, 0, 0, 0},
    [VAE_PIXELS_YV12] = {"yv12", {"Y", "V", "U"}, 8, 0, 1, 1},
    [VAE_PIXELS_Y42B] = {"y42b", {"Y", "U", "V"}, 8, 0, 1, 0},
    [VAE_PIXELS_Y444] = {"y444", {"Y", "U", "V"}, 8, 0, 0, 0},
    [VAE_PIXELS_I420_10] = {"i420-10", {"Y", "U", "V"}, 10, 0, 1, 1},
    [VAE_PIXELS_P010] = {"p010", {"Y", "UV"}, 10, 6, 1, 1},
    [VAE_PIXELS_RGBX] = {"rgbx", {"RGBx"}, 8, 0, 0, 0},
    [VAE_PIXELS_BGRA] = {"bgra", {"BGRA"}, 8, 0, 0, 0},
    [VAE_PIXELS_RGBA_F32] = {"floats4", {"RGBA"}, 32, 0, 0, 0},
};

bool
vae_kind_yuv(VaePixels pixels)
{
    return vae_kinds[pixels].plane[0][0] == 'Y';
}

bool
vae_kind_alpha(VaePixels pixels)
{
    return strchr(vae_kinds[pixels].plane[0], 'A') != NULL;
}

int
vae_kind_bytes(VaePixels pixels)
{
    return (vae_kinds[pixels].bits + 7) / 8;
}

int
vae_kind_most(VaePixels pixels)
{
    return (1 << vae_kinds[pixels].bits) - 1;
}

int
vae_kind_columns(const VaePicture *p, int c)
{
    return c && vae_kinds[p->pixels].sub_x ? (p->width + 1) / 2 : p->width;
}

int
vae_kind_rows(const VaePicture *p, int c)
{
    return c && vae_kinds[p->pixels].sub_y ? (p->height + 1) / 2 : p->height;
}

int
vae_kind_row(const VaePicture *p, int i)
{
    const char *what = vae_kinds[p->pixels].plane[i];
    return what ? vae_kind_columns(p, i && vae_kind_yuv(p->pixels)) *
                      (int) strlen(what) * vae_kind_bytes(p->pixels)
                : 0;
}

uint8_t *
vae_kind_sample(const VaePicture *p, int c, int x, int y)
{
    const VaeKind *k = &vae_kinds[p->pixels];
    const char letter = (vae_kind_yuv(p->pixels)     ? "YUVx"
                         : vae_kind_alpha(p->pixels) ? "RGBA"
                                                     : "RGBx")[c];
    for (int i = 0; i < 3 && k->plane[i]; i++) {
        const char *what = k->plane[i], *at = strchr(what, letter);
        if (at)
            return p->data[i] + y * p->stride[i] +
                   (x * (int) strlen(what) + (at - what)) *
                       vae_kind_bytes(p->pixels);
    }
    return NULL;
}

int
vae_kind_code(const VaePicture *p, int c, int x, int y)
{
    const uint8_t *at = vae_kind_sample(p, c, x, y);
    uint16_t v = *at;
    if (vae_kind_bytes(p->pixels) == 2)
        memcpy(&v, at, 2);
    const int code = v >> vae_kinds[p->pixels].below;
    return code < vae_kind_most(p->pixels) ? code : vae_kind_most(p->pixels);
}

VaeExact
vae_exact(const VaePicture *p)
{
    static const double red_blue[][2] = {
        [VAE_MATRIX_BT601] = {0.299, 0.114},
        [VAE_MATRIX_BT709] = {0.2126, 0.0722},
        [VAE_MATRIX_BT2020] = {0.2627, 0.0593},
    };
    const double all = vae_kind_most(p->pixels), unit = (all + 1) / 256;
    VaeExact k = {.kr = red_blue[p->matrix][0], .kb = red_blue[p->matrix][1]};
    const bool full = vae_kind_yuv(p->pixels) ? p->full_range : !p->limited_rgb;
    k.kg = 1 - k.kr - k.kb;
    k.black = full ? 0 : 16 * unit;
    k.luma = full ? all : 219 * unit;
    k.chroma = full ? all : 224 * unit;
    k.zero = 128 * unit;
    return k;
}

void
vae_exact_yuv(const VaeExact *k, const double *rgb, double *yuv)
{
    const double y = k->kr * rgb[0] + k->kg * rgb[1] + k->kb * rgb[2];
    yuv[0] = k->black + k->luma * y;
    yuv[1] = k->zero + k->chroma * (rgb[2] - y) / (2 * (1 - k->kb));
    yuv[2] = k->zero + k->chroma * (rgb[0] - y) / (2 * (1 - k->kr));
}

double
vae_exact_unit(double v)
{
    return v > 0 ? fmin(v, 1) : 0; /* NaN gives 0 */
}

void
vae_exact_rgb(const VaeExact *k, const double *yuv, double *rgb)
{
    const double y = (yuv[0] - k->black) / k->luma;
    const double u = (yuv[1] - k->zero) / k->chroma;
    const double v = (yuv[2] - k->zero) / k->chroma;
    rgb[0] = vae_exact_unit(y + 2 * (1 - k->kr) * v);
    rgb[2] = vae_exact_unit(y + 2 * (1 - k->kb) * u);
    rgb[1] = vae_exact_unit(
        y -
        (2 * (1 - k->kb) * k->kb * u + 2 * (1 - k->kr) * k->kr * v) / k->kg);
}
