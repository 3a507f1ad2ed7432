/*
 * window.c: attention over a window of frames, rows and columns, one query at a
 * time.
 */
#include <math.h>
#include <string.h>

#include "number.h"
#include "ref.h"

enum { HEAD = VAE_WINDOW_HEAD, PAIRS = HEAD / 2 };

/* The cosine and the sine of the angle of a pair. */
typedef struct Turn {
    float cos, sin;
} Turn;

/* Memory of one call: the keys, and the turns of each frame, row and column. */
typedef struct Room {
    float *keys; /* (tx, h, w, c) */
    Turn *time, *rows, *columns;
} Room;

enum { TIME_PAIRS = VAE_WINDOW_TIME / 2, SPACE_PAIRS = VAE_WINDOW_SPACE / 2 };

size_t
vae_ref_window_scratch(int tx, int h, int w, int c)
{
    const size_t turns = (size_t) tx * TIME_PAIRS + (size_t) h * SPACE_PAIRS +
                         (size_t) w * SPACE_PAIRS;
    return (size_t) tx * h * w * c * sizeof(float) + turns * sizeof(Turn);
}

/* The turns of n positions from `first` on. */
static Turn *
fill_turns(Turn *to, double first, int n, int pairs)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < pairs; j++, to++) {
            const double angle =
                (first + i) * (float) pow(10000, -(double) j / pairs);
            *to = (Turn){(float) cos(angle), (float) sin(angle)};
        }
    return to;
}

static Room
make_room(const VaeWindowArgs *a)
{
    Room r = {.keys = a->scratch};
    r.time = (Turn *) (r.keys + (size_t) a->tx * a->h * a->w * a->c);
    r.rows = fill_turns(r.time, (double) a->place->frame, a->tx, TIME_PAIRS);
    r.columns = fill_turns(r.rows, 0, a->h, SPACE_PAIRS);
    fill_turns(r.columns, 0, a->w, SPACE_PAIRS);
    return r;
}

/* A pixel of qkv. */
typedef struct Pixel {
    int f, y, x;
} Pixel;

static size_t
index_of(const VaeWindowArgs *a, Pixel p)
{
    return ((size_t) p.f * a->h + p.y) * a->w + p.x;
}

/* Writes q or k of one head of a pixel, from element `at` of qkv on: normed,
 * scaled and turned. */
static void
prepare(const VaeWindowArgs *a, const Room *r, Pixel p, size_t at,
        const float *gain, float *out)
{
    float sum = 0;
    for (int i = 0; i < HEAD; i++) {
        out[i] = vae_load(a->qkv, a->x_type, at + (size_t) i);
        sum += out[i] * out[i];
    }
    const float scale = 1 / sqrtf(sum / HEAD + a->eps);
    const Turn *const turns[] = {r->time + (size_t) p.f * TIME_PAIRS,
                                 r->rows + (size_t) p.y * SPACE_PAIRS,
                                 r->columns + (size_t) p.x * SPACE_PAIRS};
    for (int i = 0; i < PAIRS; i++) {
        const int j = i - TIME_PAIRS;
        const Turn t =
            j < 0 ? turns[0][i] : turns[1 + j / SPACE_PAIRS][j % SPACE_PAIRS];
        const float even = out[2 * i] * scale * gain[2 * i];
        const float odd = out[2 * i + 1] * scale * gain[2 * i + 1];
        out[2 * i] = even * t.cos - odd * t.sin;
        out[2 * i + 1] = even * t.sin + odd * t.cos;
    }
}

/* The first position of the window around i, of those from first to end - 1. */
static int
start_of(int i, int k, int first, int end)
{
    const int start = i - k / 2;
    return start < first ? first : start > end - k ? end - k : start;
}

typedef struct Sums {
    float most, y[HEAD];
    double weight;
} Sums;

/* Adds the keys of a frame: kh rows and kw columns from p on. */
static void
add_frame(const VaeWindowArgs *a, const Room *r, Pixel p, int head,
          const float *q, Sums *s)
{
    float score[VAE_WINDOW_KEYS], most = s->most;
    const size_t c = (size_t) a->c, from = (size_t) head * HEAD;
    const int n = a->kh * a->kw;
    for (int i = 0; i < n; i++) {
        const Pixel at = {p.f, p.y + i / a->kw, p.x + i % a->kw};
        const float *k = r->keys + index_of(a, at) * c + from;
        score[i] = 0;
        for (int l = 0; l < HEAD; l++)
            score[i] += q[l] * k[l];
        most = score[i] > most ? score[i] : most;
    }
    const float shrink = expf(s->most - most);
    s->most = most;
    s->weight *= shrink;
    for (int l = 0; l < HEAD; l++)
        s->y[l] *= shrink;
    for (int i = 0; i < n; i++) {
        const Pixel at = {p.f, p.y + i / a->kw, p.x + i % a->kw};
        const size_t v = index_of(a, at) * 3 * c + 2 * c + from;
        const float weight = expf(score[i] - most);
        s->weight += weight;
        for (int l = 0; l < HEAD; l++)
            s->y[l] += weight * vae_load(a->qkv, a->x_type, v + (size_t) l);
    }
}

/* Computes all heads of the query p. y: index of the first result. start: first
 * frame of the window. */
static void
query(const VaeWindowArgs *a, const Room *r, Pixel p, int start, size_t y)
{
    Pixel corner = {start, start_of(p.y, a->kh, 0, a->h),
                    start_of(p.x, a->kw, 0, a->w)};
    for (int head = 0; head < a->c / HEAD; head++) {
        const size_t from = (size_t) head * HEAD;
        float q[HEAD];
        Sums s = {.most = -INFINITY};
        prepare(a, r, p, index_of(a, p) * 3 * (size_t) a->c + from, a->q_gain,
                q);
        for (int l = 0; l < HEAD; l++)
            q[l] *= 0.125f;
        for (int f = 0; f < a->kt; f++) {
            corner.f = start + f;
            add_frame(a, r, corner, head, q, &s);
        }
        for (int l = 0; l < HEAD; l++)
            vae_store(a->y, a->y_type, y + from + (size_t) l,
                      (float) (s.y[l] / s.weight));
    }
}

static void
prepare_keys(const VaeWindowArgs *a, const Room *r, const VaeQueue *q)
{
    const size_t c = (size_t) a->c;
    float *to = r->keys;
    for (int f = 0; f < a->tx && !vae_ref_cancelled(q); f++)
        for (int i = 0; i < a->h * a->w; i++) {
            const Pixel p = {f, i / a->w, i % a->w};
            const size_t at = index_of(a, p) * 3 * c + c;
            for (size_t l = 0; l < c; l += HEAD, to += HEAD)
                prepare(a, r, p, at + l, a->k_gain, to);
        }
}

void
vae_ref_window(const VaeQueue *q, const VaeWindowArgs *a)
{
    const Room r = make_room(a);
    const int first = a->place->first > 0 ? a->place->first : 0;
    const int end = a->place->end;
    prepare_keys(a, &r, q);
    for (int f = 0; f < a->t && !vae_ref_cancelled(q); f++) {
        const int at = f + a->shift;
        const int start = start_of(at, a->kt, a->place->first, end);
        const bool there = at >= first && at < end && at < a->tx &&
                           start >= 0 && start >= a->place->first &&
                           start + a->kt <= a->tx;
        for (int i = 0; i < a->h * a->w; i++) {
            const Pixel p = {at, i / a->w, i % a->w};
            const size_t y =
                ((size_t) f * a->h * a->w + (size_t) i) * (size_t) a->c;
            if (there)
                query(a, &r, p, start, y);
            else
                for (size_t l = 0; l < (size_t) a->c; l++)
                    vae_store(a->y, a->y_type, y + l, 0);
        }
    }
}
