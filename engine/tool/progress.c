/*
 * progress.c: the progress of a long run, for a terminal.
 */
#include <time.h>
#include <unistd.h>

#include "tool.h"

enum { WIDTH = 30 };

double
now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

bool
progress_is_shown(void)
{
    return isatty(STDERR_FILENO);
}

static const char *
seconds_text(double seconds, char *buffer, size_t size)
{
    if (seconds < 100)
        snprintf(buffer, size, "%.1f s", seconds);
    else if (seconds < 7200)
        snprintf(buffer, size, "%.0f min", seconds / 60);
    else
        snprintf(buffer, size, "%.1f h", seconds / 3600);
    return buffer;
}

void
progress_begin(Progress *p, const char *unit, int64_t total)
{
    *p = (Progress){.shown = progress_is_shown(),
                    .unit = unit,
                    .total = total,
                    .start = now_seconds()};
}

void
progress_show(const Progress *p, int64_t done)
{
    char bar[WIDTH + 1], left[32];
    if (!p->shown || done < 1)
        return;
    const double spent = now_seconds() - p->start;
    const double share = (double) done / (double) p->total;
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < share * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r[%s] %lld/%lld %s, %.2f/s, %s left ", bar,
            (long long) done, (long long) p->total, p->unit,
            (double) done / spent,
            seconds_text(spent * (1 / share - 1), left, sizeof left));
    fputs("\033[K", stderr); /* clears the end of a longer line */
    fflush(stderr);
}

void
progress_end(const Progress *p)
{
    if (p->shown)
        fputc('\n', stderr);
}

void
progress_expect(const VaePlan *plan, double first_seconds, int64_t later_steps)
{
    char text[32];
    if (!progress_is_shown() || plan->flop_first <= 0 || first_seconds <= 0)
        return;
    const double rate = plan->flop_first / first_seconds;
    const double rest = plan->flop_step * (double) later_steps / rate;
    if (rest < 10)
        return;
    fprintf(stderr, "first step: %.1f GFLOP at %.1f GFLOP/s; about %s left\n",
            plan->flop_first * 1e-9, rate * 1e-9,
            seconds_text(rest, text, sizeof text));
}
