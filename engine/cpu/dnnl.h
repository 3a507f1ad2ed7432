/*
 * dnnl.h: what the cpu backend uses of oneDNN. Only dnnl.c sees the library,
 * whose C interfaces of 2.6 to 3.x differ.
 *
 * All objects of a VaeDnnl are made, run and freed on one thread, whose OpenMP
 * thread count is set before. Functions return VAE_DNNL_OK or the library's
 * error number.
 */
#ifndef VAE_DNNL_H
#define VAE_DNNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vae-private/types.h"

typedef int VaeDnnlStatus;
enum { VAE_DNNL_OK = 0, VAE_DNNL_NO_MEMORY = 1 };

/* "out of memory" and the like. */
const char *vae_dnnl_word(VaeDnnlStatus status);

/* Whether the library that is loaded can be used; else a sentence. */
bool vae_dnnl_usable(char *why, size_t size);
/* "oneDNN 3.7.2", into `out`. */
void vae_dnnl_version(char *out, size_t size);
/* Whether the processor multiplies bf16, and whether it does so in tiles. */
bool vae_dnnl_has_bf16(void);
bool vae_dnnl_has_amx(void);

typedef struct VaeDnnl {
    void *engine, *stream;
} VaeDnnl;

VaeDnnlStatus vae_dnnl_open(VaeDnnl *out);
/* After a failed open, too. */
void vae_dnnl_close(VaeDnnl *dnnl);
VaeDnnlStatus vae_dnnl_wait(const VaeDnnl *dnnl);

/* ------------------------------------------------------------------ */
/* Layouts: type, dimensions and placement of a tensor's numbers. Immutable. */

enum { VAE_DNNL_DIMS = 5 };

typedef struct VaeDnnlLayout VaeDnnlLayout;

/* Two layouts are equal where their keys are, as bytes. */
typedef struct VaeDnnlKey {
    int32_t type, n, n_blocks, zero;
    int64_t dims[VAE_DNNL_DIMS], padded[VAE_DNNL_DIMS], strides[VAE_DNNL_DIMS];
    int64_t block[12], index[12];
} VaeDnnlKey;

VaeDnnlStatus vae_dnnl_key(const VaeDnnlLayout *layout, VaeDnnlKey *out);
size_t vae_dnnl_bytes(const VaeDnnlLayout *layout);

/* A dense or strided matrix; strides in numbers. Free with
 * vae_dnnl_layout_free(). */
typedef struct VaeDnnlMatrix {
    VaeType type;
    int rows, columns, row_stride, column_stride;
} VaeDnnlMatrix;

VaeDnnlStatus vae_dnnl_matrix(const VaeDnnlMatrix *matrix, VaeDnnlLayout **out);
/* `n` of the outermost dimension, from `first` on; fails where blocks of the
 * layout would be cut. */
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

/* A primitive with one memory object for each argument. Zeroed, it has none. */
typedef struct VaeDnnlPrimitive {
    void *primitive; /* NULL when only planned */
    bool borrowed;   /* the primitive is another's */
    void *memory[VAE_DNNL_SLOTS];
    VaeDnnlLayout *layout[VAE_DNNL_SLOTS]; /* NULL: no such argument */
    size_t scratch;                        /* bytes */
    char impl[40];                         /* the implementation's name */
} VaeDnnlPrimitive;

/*
 * Each of these makes a primitive with the user's scratchpad. plan: layouts and
 * sizes only. On failure, too, the caller calls vae_dnnl_free().
 */

/* A convolution of one frame; (t, h, w) of which t is 1 for two-dimensional
 * ones. Tensors have channels last; the weights are (out, in, [t,] h, w). */
typedef struct VaeDnnlConv {
    bool flat; /* two-dimensional */
    VaeType x_type, y_type;
    int x_c, y_c;
    int x[3], y[3], k[3], stride[3], begin[3], end[3]; /* begin, end: padding */
    bool bias;                                         /* F32 */
    bool add_slot; /* the result is added to VAE_DNNL_ADD, of type add_type */
    bool add_dst;  /* the result is added to VAE_DNNL_DST */
    bool relu;     /* last */
    VaeType add_type;
    const char *avoid; /* no implementation whose name begins so; NULL: any */
    const VaeDnnlLayout *weights; /* NULL: the library's choice */
} VaeDnnlConv;

VaeDnnlStatus vae_dnnl_conv(VaeDnnl *dnnl, const VaeDnnlConv *conv, bool plan,
                            VaeDnnlPrimitive *out);

/* (m, k) x (k, n) * scale -> (m, n), the first and the last dense. */
typedef struct VaeDnnlProduct {
    int m, k, n;
    VaeType type, dst_type; /* of both operands; of the result */
    float scale;
} VaeDnnlProduct;

VaeDnnlStatus vae_dnnl_product(VaeDnnl *dnnl, const VaeDnnlProduct *product,
                               bool plan, VaeDnnlPrimitive *out);

/* Of the rows of a dense F32 matrix, into one of `type`. */
VaeDnnlStatus vae_dnnl_softmax(VaeDnnl *dnnl, int rows, int columns,
                               VaeType type, bool plan, VaeDnnlPrimitive *out);

VaeDnnlStatus vae_dnnl_reorder(VaeDnnl *dnnl, const VaeDnnlLayout *src,
                               const VaeDnnlLayout *dst, bool plan,
                               VaeDnnlPrimitive *out);
/* The same from numbers of `type` in row-major order of dst's dimensions. */
VaeDnnlStatus vae_dnnl_reorder_plain(VaeDnnl *dnnl, VaeType type,
                                     const VaeDnnlLayout *dst, bool plan,
                                     VaeDnnlPrimitive *out);

/* Memory objects like p's, for another thread that executes p; p must outlive
 * them. */
VaeDnnlStatus vae_dnnl_share(VaeDnnl *dnnl, const VaeDnnlPrimitive *p,
                             VaeDnnlPrimitive *out);
void vae_dnnl_free(VaeDnnlPrimitive *p);

/* The address of an argument; one without that argument ignores it. */
VaeDnnlStatus vae_dnnl_set(VaeDnnlPrimitive *p, VaeDnnlSlot slot,
                           const void *address);
VaeDnnlStatus vae_dnnl_execute(const VaeDnnl *dnnl, const VaeDnnlPrimitive *p);

#endif
