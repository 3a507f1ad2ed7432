/*
 * graph.c: a convolution as a cuDNN graph.
 *
 * The graph is conv, + add, + bias, ReLU, in this order; x, weights, add, bias
 * and y have one type. Only such a graph can use the precompiled engines of
 * cuDNN. With the bias first, with a bias or a result of another type, or with
 * add and no bias, cuDNN has only engines that it compiles at run time.
 */
#include "cudnn_conv.h"

enum { MAX_OPS = 4 };

Desc
vae_cudnn_bag_new(VaeCudnnBag *b, cudnnBackendDescriptorType_t type)
{
    Desc d = NULL;
    if (b->status == CUDNN_STATUS_SUCCESS && b->n == VAE_CUDNN_MAX_DESCS)
        b->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendCreateDescriptor(type, &d);
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->desc[b->n++] = d;
    return d;
}

void
vae_cudnn_bag_free(VaeCudnnBag *b)
{
    while (b->n)
        cudnnBackendDestroyDescriptor(b->desc[--b->n]);
}

void
vae_cudnn_bag_set(VaeCudnnBag *b, Desc d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t n,
                  const void *values)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendSetAttribute(d, name, type, n, values);
}

void
vae_cudnn_bag_set_ints(VaeCudnnBag *b, Desc d, cudnnBackendAttributeName_t name,
                       int64_t n, const int64_t *values)
{
    vae_cudnn_bag_set(b, d, name, CUDNN_TYPE_INT64, n, values);
}

void
vae_cudnn_bag_set_desc(VaeCudnnBag *b, Desc d, cudnnBackendAttributeName_t name,
                       Desc value)
{
    vae_cudnn_bag_set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void
bag_set_type(VaeCudnnBag *b, Desc d, cudnnBackendAttributeName_t name,
             cudnnDataType_t type)
{
    vae_cudnn_bag_set(b, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

void
vae_cudnn_bag_finalize(VaeCudnnBag *b, Desc d, const char *doing)
{
    if (b->status != CUDNN_STATUS_SUCCESS)
        return;
    b->doing = doing;
    b->status = cudnnBackendFinalize(d);
}

VaeStatus
vae_cudnn_fail(cudnnStatus_t status, const char *doing, VaeError *error)
{
    char text[400] = "";
    /* Out of host memory or of device memory. */
    const bool memory =
        status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    cudnnGetLastErrorString(text, sizeof text);
    return vae_fail(error, memory ? VAE_ERR_MEMORY : VAE_ERR_BACKEND,
                    "cuDNN cannot %s: %s%s%s", doing,
                    cudnnGetErrorString(status), text[0] ? ": " : "", text);
}

VaeStatus
vae_cudnn_bag_status(const VaeCudnnBag *b, VaeError *error)
{
    return b->status == CUDNN_STATUS_SUCCESS
               ? VAE_OK
               : vae_cudnn_fail(b->status, b->doing ? b->doing : "describe it",
                                error);
}

/* ------------------------------------------------------------------ */
/* Graphs.                                                             */

static cudnnDataType_t
data_type(VaeType type)
{
    return type == VAE_TYPE_BF16  ? CUDNN_DATA_BFLOAT16
           : type == VAE_TYPE_F16 ? CUDNN_DATA_HALF
                                  : CUDNN_DATA_FLOAT;
}

/*
 * Dimensions for cuDNN. If the kernel has one frame, the frames are a batch of
 * pictures. If it has one pixel, the frames are the rows and the pixels the
 * columns of one picture. cuDNN has more engines for two dimensions than for
 * three.
 */
typedef struct Dims {
    int n; /* dimensions of a tensor: 4 or 5 */
    int64_t x[5], w[5], y[5], bias[5];
    int64_t stride[3], pre[3], post[3];
} Dims;

/* The zeros after the last row or column; none if a stride leaves one over. */
static int64_t
zeros_after(int in, int out, int k, int stride, int before)
{
    const int64_t n = (int64_t) (out - 1) * stride + k - before - in;
    return n > 0 ? n : 0;
}

static Dims
dims_of(const VaeCudaConvShape *s)
{
    const int64_t t_in = (int64_t) (s->t - 1) * s->st + s->kt;
    const int64_t after_h = zeros_after(s->h, s->ho, s->k, s->s, s->pad_y);
    const int64_t after_w = zeros_after(s->w, s->wo, s->k, s->s, s->pad_x);
    if (s->kt == 1)
        return (Dims){.n = 4,
                      .x = {s->t, s->c_in, s->h, s->w},
                      .w = {s->c_out, s->c_in, s->k, s->k},
                      .y = {s->t, s->c_out, s->ho, s->wo},
                      .bias = {1, s->c_out, 1, 1},
                      .stride = {s->s, s->s},
                      .pre = {s->pad_y, s->pad_x},
                      .post = {after_h, after_w}};
    if (s->k == 1 && s->s == 1)
        return (Dims){.n = 4,
                      .x = {1, s->c_in, t_in, (int64_t) s->h * s->w},
                      .w = {s->c_out, s->c_in, s->kt, 1},
                      .y = {1, s->c_out, s->t, (int64_t) s->h * s->w},
                      .bias = {1, s->c_out, 1, 1},
                      .stride = {s->st, 1}};
    return (Dims){.n = 5,
                  .x = {1, s->c_in, t_in, s->h, s->w},
                  .w = {s->c_out, s->c_in, s->kt, s->k, s->k},
                  .y = {1, s->c_out, s->t, s->ho, s->wo},
                  .bias = {1, s->c_out, 1, 1, 1},
                  .stride = {s->st, s->s, s->s},
                  .pre = {0, s->pad_y, s->pad_x},
                  .post = {0, after_h, after_w}};
}

/* Adds a packed tensor whose channels vary fastest. */
static Desc
add_tensor(VaeCudnnBag *b, int64_t uid, cudnnDataType_t type, int n,
           const int64_t *dims)
{
    const int64_t align = 16;
    int64_t strides[5];
    int64_t step = dims[1];
    const bool is_virtual = uid >= UID_VIRTUAL;
    strides[1] = 1;
    for (int i = n - 1; i > 1; i--) {
        strides[i] = step;
        step *= dims[i];
    }
    strides[0] = step;
    Desc d = vae_cudnn_bag_new(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bag_set_type(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    vae_cudnn_bag_set_ints(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, n, dims);
    vae_cudnn_bag_set_ints(b, d, CUDNN_ATTR_TENSOR_STRIDES, n, strides);
    vae_cudnn_bag_set_ints(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &uid);
    vae_cudnn_bag_set_ints(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align);
    vae_cudnn_bag_set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                      &is_virtual);
    vae_cudnn_bag_finalize(b, d, "describe a tensor");
    return d;
}

static Desc
add_conv(VaeCudnnBag *b, const Dims *dims, Desc x, Desc w, Desc y)
{
    const int64_t n = dims->n - 2, ones[3] = {1, 1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const float one = 1, zero = 0;
    Desc c = vae_cudnn_bag_new(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    bag_set_type(b, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    vae_cudnn_bag_set(b, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                      CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    vae_cudnn_bag_set_ints(b, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &n);
    vae_cudnn_bag_set_ints(b, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, n, ones);
    vae_cudnn_bag_set_ints(b, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, n,
                           dims->stride);
    vae_cudnn_bag_set_ints(b, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, n,
                           dims->pre);
    vae_cudnn_bag_set_ints(b, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, n,
                           dims->post);
    vae_cudnn_bag_finalize(b, c, "describe the convolution");
    Desc op = vae_cudnn_bag_new(
        b, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    vae_cudnn_bag_set_desc(
        b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           x);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           w);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           y);
    vae_cudnn_bag_set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_TYPE_FLOAT, 1, &one);
    vae_cudnn_bag_set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                      CUDNN_TYPE_FLOAT, 1, &zero);
    vae_cudnn_bag_finalize(b, op, "describe the convolution's place");
    return op;
}

/* operand NULL: x is the only input. */
static Desc
add_pointwise(VaeCudnnBag *b, cudnnPointwiseMode_t mode, Desc x, Desc operand,
              Desc y)
{
    Desc p = vae_cudnn_bag_new(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    vae_cudnn_bag_set(b, p, CUDNN_ATTR_POINTWISE_MODE,
                      CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    bag_set_type(b, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    vae_cudnn_bag_finalize(b, p, "describe what follows the convolution");
    Desc op =
        vae_cudnn_bag_new(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                           p);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (operand)
        vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                               operand);
    vae_cudnn_bag_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    vae_cudnn_bag_finalize(b, op, "describe the place of what follows");
    return op;
}

Desc
vae_cudnn_add_graph(VaeCudnnBag *b, const VaeCudaLibrary *c,
                    const VaeCudaConvShape *s)
{
    const Dims d = dims_of(s);
    const cudnnDataType_t xt = data_type(s->x_type), yt = data_type(s->y_type);
    Desc x = add_tensor(b, UID_X, xt, d.n, d.x);
    Desc w = add_tensor(b, UID_WEIGHT, xt, d.n, d.w);
    Desc y = add_tensor(b, UID_Y, yt, d.n, d.y);
    Desc bias = add_tensor(b, UID_BIAS, yt, d.n, d.bias);
    Desc ops[MAX_OPS];
    int64_t n = 0, uid = UID_VIRTUAL;
    Desc at = add_tensor(b, uid++, CUDNN_DATA_FLOAT, d.n, d.y);
    ops[n++] = add_conv(b, &d, x, w, at);
    if (s->add) {
        Desc add = add_tensor(b, UID_ADD, yt, d.n, d.y);
        Desc to = add_tensor(b, uid++, CUDNN_DATA_FLOAT, d.n, d.y);
        ops[n++] = add_pointwise(b, CUDNN_POINTWISE_ADD, at, add, to);
        at = to;
    }
    Desc to = s->relu ? add_tensor(b, uid++, CUDNN_DATA_FLOAT, d.n, d.y) : y;
    ops[n++] = add_pointwise(b, CUDNN_POINTWISE_ADD, at, bias, to);
    if (s->relu)
        ops[n++] = add_pointwise(b, CUDNN_POINTWISE_RELU_FWD, to, NULL, y);
    Desc graph = vae_cudnn_bag_new(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    vae_cudnn_bag_set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    if (c->handle)
        vae_cudnn_bag_set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                          CUDNN_TYPE_HANDLE, 1, &c->handle);
    vae_cudnn_bag_finalize(b, graph, "build the graph of the convolution");
    return graph;
}
