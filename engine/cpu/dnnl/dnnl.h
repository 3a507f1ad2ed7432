/*
 * dnnl.h: the part of oneDNN that the cpu backend uses. Only this folder
 * includes the library's headers. dnnl.c hides the differences between the C
 * interfaces of 2.6 to 3.x.
 *
 * All objects of a VaeDnnl are made, run and freed on one thread. The OpenMP
 * thread count of that thread is set before. Functions return VAE_DNNL_OK or
 * the library's error number.
 */
#ifndef VAE_DNNL_H
#define VAE_DNNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vae-private/types.h"

typedef int VaeDnnlStatus;
enum { VAE_DNNL_OK = 0, VAE_DNNL_NO_MEMORY = 1 };

/* Describes a status: "out of memory", for example. */
const char *vae_dnnl_word(VaeDnnlStatus status);

/* True if the loaded library can be used. Otherwise `why` says why not. */
bool vae_dnnl_usable(char *why, size_t size);
/* Writes the name and version to `out`: "oneDNN 3.7.2". */
void vae_dnnl_version(char *out, size_t size);
/* True if the processor has AVX512_BF16, and if it has AMX. */
bool vae_dnnl_has_bf16(void);
bool vae_dnnl_has_amx(void);

typedef struct VaeDnnl {
    void *engine, *stream;
    struct VaeDnnlPlanned *planned; /* convolutions, see vae_dnnl_conv() */
    int n_planned;
} VaeDnnl;

VaeDnnlStatus vae_dnnl_open(VaeDnnl *out);
/* Must also be called after a failed open. */
void vae_dnnl_close(VaeDnnl *dnnl);
VaeDnnlStatus vae_dnnl_wait(const VaeDnnl *dnnl);

/* ------------------------------------------------------------------ */
/* Layouts: type, dimensions and strides of a tensor. Immutable.       */

enum { VAE_DNNL_DIMS = 5 };

typedef struct VaeDnnlLayout VaeDnnlLayout;

/* Two layouts are equal if their keys are equal byte for byte. */
typedef struct VaeDnnlKey {
    int32_t type, n, n_blocks, zero;
    int64_t dims[VAE_DNNL_DIMS], padded[VAE_DNNL_DIMS], strides[VAE_DNNL_DIMS];
    int64_t block[12], index[12];
} VaeDnnlKey;

VaeDnnlStatus vae_dnnl_key(const VaeDnnlLayout *layout, VaeDnnlKey *out);
size_t vae_dnnl_bytes(const VaeDnnlLayout *layout);

/* A dense or strided matrix; strides in elements. Free its layout with
 * vae_dnnl_layout_free(). */
typedef struct VaeDnnlMatrix {
    VaeType type;
    int rows, columns, row_stride, column_stride;
} VaeDnnlMatrix;

VaeDnnlStatus vae_dnnl_matrix(const VaeDnnlMatrix *matrix, VaeDnnlLayout **out);
/* Makes the layout of `n` entries of the outermost dimension, starting at
 * `first`. Fails if this would divide a block of the layout. */
VaeDnnlStatus vae_dnnl_part(const VaeDnnlLayout *layout, int first, int n,
                            VaeDnnlLayout **out);
void vae_dnnl_layout_free(VaeDnnlLayout **layout);

/* ------------------------------------------------------------------ */
/* Primitives.                                                         */

typedef enum VaeDnnlSlot {
    VAE_DNNL_SRC,
    VAE_DNNL_WEIGHTS,
    VAE_DNNL_DST,
    VAE_DNNL_BIAS,
    VAE_DNNL_ADD, /* added to the result, laid out like it */
    VAE_DNNL_SCRATCH,
    VAE_DNNL_SLOTS
} VaeDnnlSlot;

/* A primitive, and a memory object for each argument. Empty if zeroed. */
typedef struct VaeDnnlPrimitive {
    void *primitive; /* NULL if only planned */
    bool borrowed;   /* another VaeDnnlPrimitive owns it */
    void *memory[VAE_DNNL_SLOTS];
    VaeDnnlLayout *layout[VAE_DNNL_SLOTS]; /* NULL: no such argument */
    size_t scratch;                        /* bytes */
    char impl[40];                         /* the implementation's name */
} VaeDnnlPrimitive;

/*
 * Each of these makes a primitive that uses a scratchpad of the caller. plan:
 * only layouts and sizes. The caller calls vae_dnnl_free(), also after an
 * error.
 */

/* A convolution of one output frame. Arrays of three are (t, h, w); t is 1 for
 * a two-dimensional convolution. Tensors have channels last; the weights are
 * (out, in, [t,] h, w). */
typedef struct VaeDnnlConv {
    bool flat; /* two-dimensional */
    VaeType x_type, y_type;
    int x_c, y_c;
    int x[3], y[3], k[3], stride[3], begin[3], end[3]; /* begin, end: padding */
    bool bias;                                         /* F32 */
    bool add_slot; /* adds VAE_DNNL_ADD, of type add_type, to the result */
    bool add_dst;  /* adds the result to VAE_DNNL_DST */
    bool relu;     /* applied last */
    VaeType add_type;
    /* Skips implementations whose names begin so; NULL: none. */
    const char *avoid;
    /* Uses only an implementation whose name begins so; NULL: any. */
    const char *only;
    const VaeDnnlLayout *weights; /* NULL: the library chooses */
} VaeDnnlConv;

/* dnnl keeps each plan. The library takes milliseconds to describe a
 * convolution, and the ladder plans the same ones for each rung. */
VaeDnnlStatus vae_dnnl_conv(VaeDnnl *dnnl, const VaeDnnlConv *conv, bool plan,
                            VaeDnnlPrimitive *out);

/* (m, k) x (k, n) * scale -> (m, n); (m, k) and (m, n) are dense. */
typedef struct VaeDnnlProduct {
    int m, k, n;
    VaeType type, dst_type; /* type: of both operands */
    float scale;
} VaeDnnlProduct;

VaeDnnlStatus vae_dnnl_product(VaeDnnl *dnnl, const VaeDnnlProduct *product,
                               bool plan, VaeDnnlPrimitive *out);

/* Softmax of each row of a dense F32 matrix; the result has type `type`. */
VaeDnnlStatus vae_dnnl_softmax(VaeDnnl *dnnl, int rows, int columns,
                               VaeType type, bool plan, VaeDnnlPrimitive *out);

VaeDnnlStatus vae_dnnl_reorder(VaeDnnl *dnnl, const VaeDnnlLayout *src,
                               const VaeDnnlLayout *dst, bool plan,
                               VaeDnnlPrimitive *out);
/* vae_dnnl_reorder() from a source with dst's dimensions in row-major order,
 * and elements of `type`. */
VaeDnnlStatus vae_dnnl_reorder_plain(VaeDnnl *dnnl, VaeType type,
                                     const VaeDnnlLayout *dst, bool plan,
                                     VaeDnnlPrimitive *out);

/* Makes memory objects like p's, so that another thread can execute p. p must
 * outlive them. */
VaeDnnlStatus vae_dnnl_share(VaeDnnl *dnnl, const VaeDnnlPrimitive *p,
                             VaeDnnlPrimitive *out);
void vae_dnnl_free(VaeDnnlPrimitive *p);

/* Sets the address of an argument. Has no effect if p has no such argument. */
VaeDnnlStatus vae_dnnl_set(VaeDnnlPrimitive *p, VaeDnnlSlot slot,
                           const void *address);
VaeDnnlStatus vae_dnnl_execute(const VaeDnnl *dnnl, const VaeDnnlPrimitive *p);

#endif
