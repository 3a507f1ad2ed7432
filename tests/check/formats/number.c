/*
 * number.c: compares conversions of 16-bit floats with their definition.
 */

#include "../check.h"
#include "number.h"

/* Computes the value from sign, exponent and fraction by the definition. */
static double
value(uint32_t bits, int exponent_bits, int fraction_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int top = (1 << exponent_bits) - 1;
    const int e = (int) (bits >> fraction_bits) & top;
    const double f =
        ldexp((double) (bits & ((1u << fraction_bits) - 1)), -fraction_bits);
    const double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
    if (e == top)
        return f > 0 ? (double) NAN : sign * (double) INFINITY;
    return sign * (e ? ldexp(1 + f, e - bias) : ldexp(f, 1 - bias));
}

static bool
same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

static void
check_widen(VaeCheck *t)
{
    if (!vae_check_begin(t, "number_widen"))
        return;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t half = (uint16_t) h;
        if (!same(vae_from_f16(half), value(h, 5, 10)))
            vae_check_fail(t, "f16 %04x gives %g", h, vae_from_f16(half));
        if (!same(vae_from_bf16(half), value(h, 8, 7)))
            vae_check_fail(t, "bf16 %04x gives %g", h, vae_from_bf16(half));
    }
}

/*
 * Returns true if h is nearest to v among its neighbours, or even in a tie.
 * Infinity counts as the next number after the largest.
 */
static bool
nearest(double v, uint16_t h, int e, int f)
{
    const uint32_t sign = h & 0x8000u, rest = h & 0x7fffu;
    const uint32_t inf = ((1u << e) - 1) << f;
    if (rest > inf || !signbit(v) != !sign)
        return false;
    const double huge = ldexp(1, (1 << (e - 1)));
    const double here = rest == inf ? huge : value(rest, e, f);
    const double above = rest + 1 >= inf ? huge : value(rest + 1, e, f);
    const double below = rest ? value(rest - 1, e, f) : -value(1, e, f);
    const double a = fabs(v) < huge ? fabs(v) : huge;
    const double distance = fabs(a - here);
    const bool even = !(rest & 1);
    const double up = rest == inf ? INFINITY : fabs(above - a);
    const double down = fabs(a - below);
    return (distance < up || (distance == up && even)) &&
           (distance < down || (distance == down && even));
}

static void
narrow(VaeCheck *t, float v)
{
    const uint16_t f16 = vae_to_f16(v), bf16 = vae_to_bf16(v);
    if (isnan(v)) {
        vae_check_that(t, isnan(vae_from_f16(f16)), "a NaN is lost in f16");
        vae_check_that(t, isnan(vae_from_bf16(bf16)), "a NaN is lost in bf16");
        return;
    }
    if (!nearest(v, f16, 5, 10))
        vae_check_fail(t, "%.9g gives f16 %04x", v, f16);
    if (!nearest(v, bf16, 8, 7))
        vae_check_fail(t, "%.9g gives bf16 %04x", v, bf16);
}

static void
check_narrow(VaeCheck *t)
{
    if (!vae_check_begin(t, "number_narrow"))
        return;
    for (int i = 0; i < 1000000; i++)
        narrow(t, vae_from_bits((uint32_t) vae_check_bits(t)));
    /* Tests all f16 numbers, the numbers in the middle between them, and the
     * neighbours of these. */
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const double a = value(h, 5, 10);
        const double b = h == 0x7bff ? 65536 : value(h + 1, 5, 10);
        const float middle = (float) ((a + b) / 2);
        const float points[] = {(float) a, middle, nextafterf(middle, 0),
                                nextafterf(middle, INFINITY)};
        for (size_t i = 0; i < VAE_COUNT(points); i++) {
            narrow(t, points[i]);
            narrow(t, -points[i]);
        }
    }
    narrow(t, INFINITY);
    narrow(t, -INFINITY);
    narrow(t, NAN);
    narrow(t, vae_from_bits(0x7f800001u));
    narrow(t, vae_from_bits(0x7f7fffffu));
}

VAE_CHECK_MAIN(check_widen, check_narrow)
