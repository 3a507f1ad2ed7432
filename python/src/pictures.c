/*
 * pictures.c: tensors as pictures of the engine.
 */
#include "python.h"

#include <string.h>

/* Of each format: bytes of a sample, and the planes: samples of a pixel, and by
 * how much the plane is smaller than the picture. */
typedef struct Format {
    const char *name;
    VaePixels pixels;
    const char *dtype;
    int n_planes;
    struct {
        int samples, x, y;
    } planes[3];
} Format;

static const Format formats[] = {
    {"rgb_f32", VAE_PIXELS_RGB_F32, "float32", 1, {{3, 1, 1}}},
    {"rgba_f32", VAE_PIXELS_RGBA_F32, "float32", 1, {{4, 1, 1}}},
    {"rgb", VAE_PIXELS_RGB, "uint8", 1, {{3, 1, 1}}},
    {"rgba", VAE_PIXELS_RGBA, "uint8", 1, {{4, 1, 1}}},
    {"bgr", VAE_PIXELS_BGR, "uint8", 1, {{3, 1, 1}}},
    {"bgrx", VAE_PIXELS_BGRX, "uint8", 1, {{4, 1, 1}}},
    {"nv12", VAE_PIXELS_NV12, "uint8", 2, {{1, 1, 1}, {2, 2, 2}}},
    {"p010", VAE_PIXELS_P010, "uint16", 2, {{1, 1, 1}, {2, 2, 2}}},
    {"i420", VAE_PIXELS_I420, "uint8", 3, {{1, 1, 1}, {1, 2, 2}, {1, 2, 2}}},
    {"y444", VAE_PIXELS_Y444, "uint8", 3, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
};
enum { FORMATS = sizeof formats / sizeof *formats };

bool
vae_py_pixels(const char *word, VaePixels *out)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, word) == 0) {
            *out = formats[i].pixels;
            return true;
        }
    return false;
}

static const Format *
format_of(VaePixels pixels)
{
    int i = 0;
    while (formats[i].pixels != pixels)
        i++;
    return &formats[i];
}

/* The pixels of an object that a stream with such pixels takes: an encoder that
 * reads alpha also takes frames without alpha. */
static VaePixels
pixels_of(PyObject *object, VaePixels pixels)
{
    const VaePyTensor *t = (VaePyTensor *) object;
    if (!vae_py_is_tensor(object) || t->n_dims != 3 || t->shape[2] != 3)
        return pixels;
    return pixels == VAE_PIXELS_RGBA       ? VAE_PIXELS_RGB
           : pixels == VAE_PIXELS_RGBA_F32 ? VAE_PIXELS_RGB_F32
                                           : pixels;
}

static bool
set_plane(PyObject *object, const Format *f, int plane, bool writable,
          VaePicture *out)
{
    char found[160], dims[128], expected[96];
    const int rows =
        (out->height + f->planes[plane].y - 1) / f->planes[plane].y;
    const int columns =
        (out->width + f->planes[plane].x - 1) / f->planes[plane].x;
    const int samples = f->planes[plane].samples;
    if (!object || !vae_py_is_tensor(object)) {
        PyErr_SetString(PyExc_TypeError, "expected a Tensor for each plane");
        return false;
    }
    const VaePyTensor *t = (VaePyTensor *) object;
    const bool flat = t->n_dims == 2;
    if (strcmp(t->dtype, f->dtype) != 0 || t->n_dims < 2 || t->n_dims > 3 ||
        t->shape[0] != rows ||
        t->shape[1] != (flat ? columns * samples : columns) ||
        (!flat && t->shape[2] != samples)) {
        snprintf(found, sizeof found, "%s %s", t->dtype,
                 vae_py_dims(t, dims, sizeof dims));
        snprintf(expected, sizeof expected, "%s %dx%dx%d", f->dtype, rows,
                 columns, samples);
        vae_py_fail(found, expected, "plane %d of a picture is %s, expected %s",
                    plane, found, expected);
        return false;
    }
    if (!vae_py_packed(t, t->n_dims - 1) || t->strides[0] < 0) {
        vae_py_fail("gaps between pixels", "packed rows",
                    "the rows of a picture have gaps between pixels, expected "
                    "packed rows");
        return false;
    }
    if (writable && t->readonly) {
        vae_py_fail("read-only memory", "memory that can be written",
                    "the memory for frames is read only");
        return false;
    }
    out->data[plane] = (uint8_t *) t->data;
    out->stride[plane] =
        rows > 1 ? (ptrdiff_t) t->strides[0]
                 : (ptrdiff_t) columns * samples * vae_py_item_size(t);
    out->on_device = t->device.type == VAE_PY_DL_CUDA;
    return true;
}

bool
vae_py_picture(PyObject *object, const VaePicture *like, bool writable,
               VaePicture *out)
{
    *out = *like;
    if (object == Py_None)
        return true;
    out->pixels = writable ? like->pixels : pixels_of(object, like->pixels);
    const Format *f = format_of(out->pixels);
    if (f->n_planes == 1)
        return set_plane(object, f, 0, writable, out);
    if (!PyTuple_Check(object) || PyTuple_Size(object) != f->n_planes) {
        PyErr_Format(PyExc_TypeError, "expected %d planes for %s", f->n_planes,
                     f->name);
        return false;
    }
    for (int i = 0; i < f->n_planes; i++)
        if (!set_plane(PyTuple_GetItem(object, i), f, i, writable, out))
            return false;
    return true;
}
