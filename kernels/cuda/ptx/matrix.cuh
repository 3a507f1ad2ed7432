/*
 * matrix.cuh: the PTX instructions of the matrix units, as in ptx.cuh.
 */
#ifndef VAE_MATRIX_CUH
#define VAE_MATRIX_CUH

#include "ptx.cuh"

/* --------------------------------------------------------------- warps */

/*
 * Loads four 8x8 matrices of 16-bit values from shared memory. Lane 8j + i has
 * the address of row i of matrix j, a multiple of 16. From each matrix a lane
 * receives elements 2(lane % 4) and the next of row lane / 4; if TRANSPOSED,
 * of column lane / 4.
 */
template <bool TRANSPOSED>
VAE_DEVICE void
vae_ptx_load_matrices(uint32_t *r, const void *shared)
{
#ifdef __CUDACC__
    const unsigned from = (unsigned) __cvta_generic_to_shared(shared);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                     "{%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
#else
    const void *rows[32];
    memcpy(rows, vae_emu_exchange(VAE_EMU_HERE, ~0u, &shared, sizeof shared),
           sizeof rows);
    const unsigned lane = vae_emu_lane(), slow = lane / 4, fast = lane % 4 * 2;
    for (unsigned j = 0; j < 4; j++) {
        uint16_t low[8], high[8];
        vae_emu_load16(low, rows[8 * j + (TRANSPOSED ? fast : slow)]);
        vae_emu_load16(high, rows[8 * j + (TRANSPOSED ? fast + 1 : slow)]);
        r[j] = low[TRANSPOSED ? slow : fast] |
               (uint32_t) high[TRANSPOSED ? slow : fast + 1] << 16;
    }
#endif
}

#ifndef __CUDACC__
template <int T>
static float
vae_ptx_half(uint32_t pair, unsigned which)
{
    const uint16_t bits = (uint16_t) (pair >> which % 2 * 16);
    return T == VAE_TYPE_BF16 ? vae_from_bf16(bits) : vae_from_f16(bits);
}

/* Multiplies a and b of all lanes, six words each, to double [16][8]. */
template <int T>
static void
vae_ptx_product(const void *all, void *result)
{
    const uint32_t(*word)[6] = static_cast<const uint32_t(*)[6]>(all);
    double(*d)[8] = static_cast<double(*)[8]>(result);
    double b[16][8];
    for (unsigned k = 0; k < 16; k++)
        for (unsigned j = 0; j < 8; j++)
            b[k][j] = vae_ptx_half<T>(word[j * 4 + k % 8 / 2][4 + k / 8], k);
    for (unsigned i = 0; i < 16; i++) {
        double sum[8] = {0};
        for (unsigned k = 0; k < 16; k++) {
            const double a = vae_ptx_half<T>(
                word[i % 8 * 4 + k % 8 / 2][k / 8 * 2 + i / 8], k);
#pragma GCC unroll 8 /* keeps the sums in registers */
            for (unsigned j = 0; j < 8; j++)
                sum[j] += a * b[k][j];
        }
        memcpy(d[i], sum, sizeof sum);
    }
}
#endif

/*
 * d += a b; a is 16 x 16 and b 16 x 8 of 16-bit T, d is 16 x 8 of F32. With g
 * = lane / 4 and p = 2(lane % 4), the lane has of d rows g, g + 8 and columns
 * p, p + 1, in this order; of a, columns p, p + 1 of rows g, g + 8, then
 * columns p + 8, p + 9 of both; of b, rows p, p + 1, then p + 8, p + 9 of
 * column g. The hardware decides the order of the sum over 16.
 */
template <int T>
VAE_DEVICE void
vae_ptx_multiply(float *d, const uint32_t *a, const uint32_t *b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    (void) d, (void) a, (void) b;
    asm volatile("trap;");
#elif defined(__CUDACC__)
#define VAE_PTX_MULTIPLY(type)                                                 \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type        \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "         \
                 "{%0, %1, %2, %3};"                                           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),      \
                   "r"(b[1]))
    if (T == VAE_TYPE_BF16)
        VAE_PTX_MULTIPLY("bf16");
    else
        VAE_PTX_MULTIPLY("f16");
#undef VAE_PTX_MULTIPLY
#else
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const double(*sum)[8] = static_cast<const double(*)[8]>(
        vae_emu_combine(VAE_EMU_HERE, mine, sizeof mine, vae_ptx_product<T>));
    const unsigned lane = vae_emu_lane();
    for (unsigned i = 0; i < 4; i++)
        d[i] = (float) (d[i] + sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
#endif
}

/* d += a b, all of F16; a lane has the elements that vae_ptx_multiply() names.
 * Word 0 of d has row g, word 1 row g + 8. The sum is rounded to F16, and to an
 * infinity if it is too large. */
VAE_DEVICE void
vae_ptx_multiply_f16(uint32_t *d, const uint32_t *a, const uint32_t *b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    (void) d, (void) a, (void) b;
    asm volatile("trap;");
#elif defined(__CUDACC__)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const double(*sum)[8] = static_cast<const double(*)[8]>(vae_emu_combine(
        VAE_EMU_HERE, mine, sizeof mine, vae_ptx_product<VAE_TYPE_F16>));
    const unsigned lane = vae_emu_lane();
    for (unsigned i = 0; i < 2; i++) {
        const double *const row = sum[lane / 4 + i * 8] + lane % 4 * 2;
        d[i] = vae_ptx_f16x2(
            (float) (vae_from_f16((uint16_t) d[i]) + row[0]),
            (float) (vae_from_f16((uint16_t) (d[i] >> 16)) + row[1]));
    }
#endif
}

#ifndef __CUDACC__
/* Multiplies a and b of all lanes in TF32, six words each, to double [16][8]. A
 * value that is not TF32 was not rounded, which is an error. */
static void
vae_ptx_product_tf32(const void *all, void *result)
{
    const uint32_t(*word)[6] = static_cast<const uint32_t(*)[6]>(all);
    double(*d)[8] = static_cast<double(*)[8]>(result);
    for (unsigned i = 0; i < 32 * 6; i++)
        if (word[i / 6][i % 6] & 0x1fffu)
            vae_emu_fail("%08x is no TF32", word[i / 6][i % 6]);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 8; j++) {
            double sum = 0;
            for (unsigned k = 0; k < 8; k++) {
                const uint32_t a = word[i % 8 * 4 + k % 4][k / 4 * 2 + i / 8];
                const uint32_t b = word[j * 4 + k % 4][4 + k / 4];
                sum += (double) vae_from_bits(a) * vae_from_bits(b);
            }
            d[i][j] = sum;
        }
}
#endif

/*
 * d += a b; a is 16 x 8 and b 8 x 8 of TF32, d is 16 x 8 of F32. With g = lane
 * / 4 and p = lane % 4, the lane has the same elements of d as in
 * vae_ptx_multiply(); of a, column p of rows g, g + 8, then column p + 4 of
 * both; of b, rows p, p + 4 of column g. The hardware decides the order of the
 * sum over 8.
 */
VAE_DEVICE void
vae_ptx_multiply_tf32(float *d, const uint32_t *a, const uint32_t *b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    (void) d, (void) a, (void) b;
    asm volatile("trap;");
#elif defined(__CUDACC__)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const double(*sum)[8] = static_cast<const double(*)[8]>(
        vae_emu_combine(VAE_EMU_HERE, mine, sizeof mine, vae_ptx_product_tf32));
    const unsigned lane = vae_emu_lane();
    for (unsigned i = 0; i < 4; i++)
        d[i] = (float) (d[i] + sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
#endif
}

/* ------------------------------------------------- groups of four warps */

/* True where the group's instructions are: compute capability 9.0 only. */
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VAE_PTX_GROUPS 1
#else
#define VAE_PTX_GROUPS 0
#endif

/* An address in shared memory, as the group's instructions count. */
VAE_DEVICE uint32_t
vae_ptx_shared_address(const void *shared)
{
#ifdef __CUDACC__
    return (uint32_t) __cvta_generic_to_shared(shared);
#else
    return (uint32_t) (static_cast<const char *>(shared) -
                       static_cast<char *>(vae_emu_shared()));
#endif
}

/*
 * Describes a matrix in shared memory, of 16-bit values, 16 of them in a row,
 * to the group's multiplication. Its rows are parts of longer ones: eight of
 * these follow each other, then the next eight begin `down` bytes further on.
 * `down` is a multiple of 16. The sum with bytes / 16 describes a matrix so
 * many bytes further on.
 *
 * The longer rows have 64 bytes and begin at multiples of 64. The 16 bytes at
 * 16i of the row at address 64r are at 16(i ^ r / 2 % 4).
 */
VAE_DEVICE uint64_t
vae_ptx_describe64(const void *shared, int down)
{
    return (vae_ptx_shared_address(shared) & 0x3ffff) >> 4 |
           (uint64_t) (down >> 4) << 32 | (uint64_t) 2 << 62;
}

/*
 * Describes a matrix as vae_ptx_describe64() does. Its longer rows have 128
 * bytes, and eight of them are at a multiple of 1024. The 16 bytes at 16i of
 * row r are at 16(i ^ r). In a row of a matrix for
 * vae_ptx_group_multiply_held(), every 128 bytes are `right` bytes from those
 * before.
 */
VAE_DEVICE uint64_t
vae_ptx_describe128(const void *shared, int right, int down)
{
    return (vae_ptx_shared_address(shared) & 0x3ffff) >> 4 |
           (uint64_t) (right >> 4) << 16 | (uint64_t) (down >> 4) << 32 |
           (uint64_t) 1 << 62;
}

/* Makes what this thread wrote to shared memory, and copies that it has waited
 * for, visible to the group's multiplications. */
VAE_DEVICE void
vae_ptx_group_visible(void)
{
#if defined(__CUDACC__) && VAE_PTX_GROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Separates the other uses of sums from multiplications that follow. */
VAE_DEVICE void
vae_ptx_group_begin(void)
{
#if defined(__CUDACC__) && VAE_PTX_GROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* Ends a batch of multiplications. */
VAE_DEVICE void
vae_ptx_group_commit(void)
{
#if defined(__CUDACC__) && VAE_PTX_GROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Waits for all batches except the latest LEFT. */
template <int LEFT>
VAE_DEVICE void
vae_ptx_group_wait(void)
{
#if defined(__CUDACC__) && VAE_PTX_GROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}

/* Separates multiplications that were waited for from other uses of a sum,
 * which the compiler must not move before the wait. */
VAE_DEVICE void
vae_ptx_group_end(float *sum)
{
#if defined(__CUDACC__) && VAE_PTX_GROUPS
    asm volatile("" : "+f"(*sum)::"memory");
#else
    (void) sum;
#endif
}

#ifdef __CUDACC__
/* Lists of operands; OUT_n: n sums. */
#define VAE_PTX_0_TO_31                                                        \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "   \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "   \
    "%30, %31"
#define VAE_PTX_32_TO_47                                                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
    "%46, %47"
#define VAE_PTX_32_TO_63                                                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "   \
    "%60, %61, %62, %63"
#define VAE_PTX_64_TO_95                                                       \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "   \
    "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "   \
    "%92, %93, %94, %95"
#define VAE_PTX_96_TO_127                                                      \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "     \
    "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "       \
    "%119, %120, %121, %122, %123, %124, %125, %126, %127"
#define VAE_PTX_LIST_64 VAE_PTX_0_TO_31
#define VAE_PTX_LIST_96 VAE_PTX_0_TO_31 ", " VAE_PTX_32_TO_47
#define VAE_PTX_LIST_128 VAE_PTX_0_TO_31 ", " VAE_PTX_32_TO_63
#define VAE_PTX_LIST_192 VAE_PTX_LIST_128 ", " VAE_PTX_64_TO_95
#define VAE_PTX_LIST_256 VAE_PTX_LIST_192 ", " VAE_PTX_96_TO_127
#define VAE_PTX_OUT_4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define VAE_PTX_OUT_16(d)                                                      \
    VAE_PTX_OUT_4(d), VAE_PTX_OUT_4(d + 4), VAE_PTX_OUT_4(d + 8),              \
        VAE_PTX_OUT_4(d + 12)
#define VAE_PTX_OUT_64(d) VAE_PTX_OUT_16(d), VAE_PTX_OUT_16(d + 16)
#define VAE_PTX_OUT_96(d)                                                      \
    VAE_PTX_OUT_16(d), VAE_PTX_OUT_16(d + 16), VAE_PTX_OUT_16(d + 32)
#define VAE_PTX_OUT_128(d) VAE_PTX_OUT_96(d), VAE_PTX_OUT_16(d + 48)
#define VAE_PTX_OUT_192(d) VAE_PTX_OUT_96(d), VAE_PTX_OUT_96(d + 48)
#define VAE_PTX_OUT_256(d) VAE_PTX_OUT_128(d), VAE_PTX_OUT_128(d + 64)
/* first, second: the operands after the sums */
#define VAE_PTX_GROUP_MULTIPLY(n, type, first, second)                         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type        \
                 "." type " {" VAE_PTX_LIST_##n "}, %" #first ", %" #second    \
                                                ", 1, 1, 1, 0, 0;"             \
                 : VAE_PTX_OUT_##n(d)                                          \
                 : "l"(a), "l"(b))
/* a: the list of its operands */
#define VAE_PTX_GROUP_MULTIPLY_HELD(n, type, list, second)                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type        \
                 "." type " {" VAE_PTX_LIST_##n "}, {" list "}, %" #second     \
                                                ", 1, 1, 1, 1;"                \
                 : VAE_PTX_OUT_##n(d)                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#else
/*
 * Element i of the octet at (row, octet) of a described matrix. longer: its
 * rows have more than two octets.
 */
template <int T>
static float
vae_ptx_element(uint64_t matrix, unsigned row, unsigned octet, unsigned i,
                bool longer)
{
    const uint64_t right = matrix >> 16 & 0x3fff, down = matrix >> 32 & 0x3fff;
    const bool narrow = matrix >> 62 == 2;
    uint64_t at = (matrix & 0x3fff) + row / 8 * down;
    at += row % 8 * (narrow ? 4 : 8);
    at += longer ? octet / 8 * right + octet % 8 : octet;
    if (narrow && longer)
        vae_emu_fail("a row of more than 16 values needs rows of 128 bytes");
    at ^= at >> 3 & (narrow ? 3 : 7);
    uint16_t bits;
    memcpy(&bits, static_cast<const char *>(vae_emu_shared()) + 16 * at + 2 * i,
           sizeof bits);
    return T == VAE_TYPE_BF16 ? vae_from_bf16(bits) : vae_from_f16(bits);
}

/* Adds to the lane's sums the products of its two rows x and the n columns
 * b(column, k). */
template <typename B>
static void
vae_ptx_group_add(float *d, unsigned n, const float (*x)[16], B b)
{
    for (unsigned j = 0; j < n / 4; j++) {
        const unsigned column = j / 2 * 8 + vae_emu_lane() % 4 * 2 + j % 2;
        double sum[2] = {0, 0};
        for (unsigned k = 0; k < 16; k++) {
            const float w = b(column, k);
            sum[0] += (double) x[0][k] * w;
            sum[1] += (double) x[1][k] * w;
        }
        for (unsigned i = 0; i < 2; i++) {
            float *to = d + j / 2 * 4 + 2 * i + j % 2;
            *to = (float) (*to + sum[i]);
        }
    }
}
#endif

/*
 * Starts d += a b on four warps that follow each other, the first one a
 * multiple of four. a is described as 64 x 16 of 16-bit T, b as the rows of the
 * transposed N x 16; d is 64 x N of F32. Warp i of the four has rows 16i to 16i
 * + 15 of d, and of each eight columns the same as in vae_ptx_multiply(). The
 * hardware decides the order of the sum over 16.
 */
template <int T, int N>
VAE_DEVICE void
vae_ptx_group_multiply(float *d, uint64_t a, uint64_t b)
{
    static_assert(N == 64 || N == 96 || N == 128 || N == 192 || N == 256,
                  "columns");
#if defined(__CUDACC__) && !VAE_PTX_GROUPS
    (void) d, (void) a, (void) b;
    asm volatile("trap;");
#elif defined(__CUDACC__)
    const bool bf16 = T == VAE_TYPE_BF16;
    if constexpr (N == 64 && bf16)
        VAE_PTX_GROUP_MULTIPLY(64, "bf16", 32, 33);
    else if constexpr (N == 64 && !bf16)
        VAE_PTX_GROUP_MULTIPLY(64, "f16", 32, 33);
    else if constexpr (N == 96 && bf16)
        VAE_PTX_GROUP_MULTIPLY(96, "bf16", 48, 49);
    else if constexpr (N == 96 && !bf16)
        VAE_PTX_GROUP_MULTIPLY(96, "f16", 48, 49);
    else if constexpr (N == 128 && bf16)
        VAE_PTX_GROUP_MULTIPLY(128, "bf16", 64, 65);
    else if constexpr (N == 128 && !bf16)
        VAE_PTX_GROUP_MULTIPLY(128, "f16", 64, 65);
    else if constexpr (N == 192 && bf16)
        VAE_PTX_GROUP_MULTIPLY(192, "bf16", 96, 97);
    else if constexpr (N == 192 && !bf16)
        VAE_PTX_GROUP_MULTIPLY(192, "f16", 96, 97);
    else if constexpr (N == 256 && bf16)
        VAE_PTX_GROUP_MULTIPLY(256, "bf16", 128, 129);
    else if constexpr (N == 256 && !bf16)
        VAE_PTX_GROUP_MULTIPLY(256, "f16", 128, 129);
#else
    const unsigned lane = vae_emu_lane(), warp = threadIdx.x / 32 % 4;
    const auto at = [](uint64_t matrix, unsigned row, unsigned k) {
        return vae_ptx_element<T>(matrix, row, k / 8, k % 8, false);
    };
    float x[2][16];
    for (unsigned k = 0; k < 16; k++)
        for (unsigned i = 0; i < 2; i++)
            x[i][k] = at(a, 16 * warp + 8 * i + lane / 4, k);
    vae_ptx_group_add(
        d, N, x, [=](unsigned column, unsigned k) { return at(b, column, k); });
#endif
}

/*
 * Starts d += a b with a in registers: of 16 rows each warp of the group has
 * the elements of vae_ptx_multiply(). b is described as swizzled, as 16 rows of
 * N.
 */
template <int T, int N>
VAE_DEVICE void
vae_ptx_group_multiply_held(float *d, const uint32_t *a, uint64_t b)
{
    static_assert(N == 64 || N == 128, "columns");
#if defined(__CUDACC__) && !VAE_PTX_GROUPS
    (void) d, (void) a, (void) b;
    asm volatile("trap;");
#elif defined(__CUDACC__)
    const bool bf16 = T == VAE_TYPE_BF16;
    if constexpr (N == 64 && bf16)
        VAE_PTX_GROUP_MULTIPLY_HELD(64, "bf16", "%32, %33, %34, %35", 36);
    else if constexpr (N == 64 && !bf16)
        VAE_PTX_GROUP_MULTIPLY_HELD(64, "f16", "%32, %33, %34, %35", 36);
    else if constexpr (N == 128 && bf16)
        VAE_PTX_GROUP_MULTIPLY_HELD(128, "bf16", "%64, %65, %66, %67", 68);
    else if constexpr (N == 128 && !bf16)
        VAE_PTX_GROUP_MULTIPLY_HELD(128, "f16", "%64, %65, %66, %67", 68);
#else
    uint32_t all[32][4];
    memcpy(all, vae_emu_exchange(VAE_EMU_HERE, ~0u, a, sizeof all[0]),
           sizeof all);
    const unsigned lane = vae_emu_lane();
    float x[2][16];
    for (unsigned k = 0; k < 16; k++)
        for (unsigned i = 0; i < 2; i++)
            x[i][k] = vae_ptx_half<T>(
                all[lane / 4 * 4 + k % 8 / 2][k / 8 * 2 + i], k);
    vae_ptx_group_add(d, N, x, [=](unsigned column, unsigned k) {
        return vae_ptx_element<T>(b, k, column / 8, column % 8, true);
    });
#endif
}

#endif
