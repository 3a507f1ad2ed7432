/*
 * glib.c: reports GLib's synchronisation to ThreadSanitizer.
 *
 * GMutex and GCond are futexes. GOnce and GAsyncQueue synchronise inside GLib,
 * which is not compiled with the sanitizer. Without this file, the sanitizer
 * would report accesses that they order as races. A program that contains this
 * file calls GLib through it, and so do the libraries that it loads. GRecMutex
 * and GRWLock use pthread, which the sanitizer knows. race.c tests each of
 * them.
 *
 * A GStreamer pool also synchronises: the last user of a buffer comes before
 * the next one.
 */
#include <dlfcn.h>
#include <gst/gst.h>
#include <sanitizer/tsan_interface.h>

#undef g_once_init_enter
#undef g_once_init_leave

/* Returns GLib's own function of this name. */
#define REAL(name) ((__typeof__(&(name))) real(&found_##name, #name))
#define FOUND(name) static gpointer found_##name

/* Calls that GLib makes from inside one of these functions are not reported. */
static __thread int inside;

static gpointer
real(gpointer *found, const char *name)
{
    gpointer f = __atomic_load_n(found, __ATOMIC_RELAXED);
    if (!f) {
        f = dlsym(RTLD_NEXT, name);
        if (!f)
            g_error("no %s in GLib", name);
        __atomic_store_n(found, f, __ATOMIC_RELAXED);
    }
    return f;
}

FOUND(g_mutex_clear);
FOUND(g_mutex_lock);
FOUND(g_mutex_trylock);
FOUND(g_mutex_unlock);
FOUND(g_cond_wait);
FOUND(g_cond_wait_until);
FOUND(g_once_impl);
FOUND(g_once_init_enter);
FOUND(g_once_init_leave);
FOUND(g_async_queue_push);
FOUND(g_async_queue_pop);
FOUND(g_async_queue_try_pop);
FOUND(g_async_queue_timeout_pop);
FOUND(gst_mini_object_unref);
FOUND(gst_buffer_pool_acquire_buffer);

void
g_mutex_clear(GMutex *mutex)
{
    __tsan_mutex_destroy(mutex, 0);
    REAL(g_mutex_clear)(mutex);
}

void
g_mutex_lock(GMutex *mutex)
{
    if (inside) {
        REAL(g_mutex_lock)(mutex);
        return;
    }
    __tsan_mutex_pre_lock(mutex, 0);
    REAL(g_mutex_lock)(mutex);
    __tsan_mutex_post_lock(mutex, 0, 0);
}

gboolean
g_mutex_trylock(GMutex *mutex)
{
    gboolean locked;
    if (inside)
        return REAL(g_mutex_trylock)(mutex);
    __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
    locked = REAL(g_mutex_trylock)(mutex);
    __tsan_mutex_post_lock(mutex,
                           locked ? __tsan_mutex_try_lock
                                  : __tsan_mutex_try_lock |
                                        __tsan_mutex_try_lock_failed,
                           0);
    return locked;
}

void
g_mutex_unlock(GMutex *mutex)
{
    if (inside) {
        REAL(g_mutex_unlock)(mutex);
        return;
    }
    __tsan_mutex_pre_unlock(mutex, 0);
    REAL(g_mutex_unlock)(mutex);
    __tsan_mutex_post_unlock(mutex, 0);
}

/* The mutex is released during a wait. */
static void
wait_begin(GMutex *mutex)
{
    __tsan_mutex_pre_unlock(mutex, 0);
    __tsan_mutex_post_unlock(mutex, 0);
    inside++;
}

static void
wait_end(GMutex *mutex)
{
    inside--;
    __tsan_mutex_pre_lock(mutex, 0);
    __tsan_mutex_post_lock(mutex, 0, 0);
}

void
g_cond_wait(GCond *cond, GMutex *mutex)
{
    wait_begin(mutex);
    REAL(g_cond_wait)(cond, mutex);
    wait_end(mutex);
}

gboolean
g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time)
{
    gboolean in_time;
    wait_begin(mutex);
    in_time = REAL(g_cond_wait_until)(cond, mutex, end_time);
    wait_end(mutex);
    return in_time;
}

/* ------------------------------------------------------------------ */

typedef struct OnceCall {
    GOnce *once;
    GThreadFunc func;
    gpointer arg;
} OnceCall;

static gpointer
once_call(gpointer data)
{
    const OnceCall *call = data;
    gpointer result = call->func(call->arg);
    __tsan_release(call->once);
    return result;
}

gpointer
g_once_impl(GOnce *once, GThreadFunc func, gpointer arg)
{
    OnceCall call = {once, func, arg};
    REAL(g_once_impl)(once, once_call, &call);
    __tsan_acquire(once);
    return once->retval;
}

gboolean
g_once_init_enter(volatile void *location)
{
    const gboolean first = REAL(g_once_init_enter)(location);
    if (!first)
        __tsan_acquire((void *) location);
    return first;
}

void
g_once_init_leave(volatile void *location, gsize result)
{
    __tsan_release((void *) location);
    REAL(g_once_init_leave)(location, result);
}

/* ------------------------------------------------------------------ */

void
g_async_queue_push(GAsyncQueue *queue, gpointer data)
{
    __tsan_release(queue);
    REAL(g_async_queue_push)(queue, data);
}

static gpointer
popped(GAsyncQueue *queue, gpointer data)
{
    if (data)
        __tsan_acquire(queue);
    return data;
}

gpointer
g_async_queue_pop(GAsyncQueue *queue)
{
    return popped(queue, REAL(g_async_queue_pop)(queue));
}

gpointer
g_async_queue_try_pop(GAsyncQueue *queue)
{
    return popped(queue, REAL(g_async_queue_try_pop)(queue));
}

gpointer
g_async_queue_timeout_pop(GAsyncQueue *queue, guint64 timeout)
{
    return popped(queue, REAL(g_async_queue_timeout_pop)(queue, timeout));
}

/* ------------------------------------------------------------------ */

void
gst_mini_object_unref(GstMiniObject *object)
{
    __tsan_release(object);
    REAL(gst_mini_object_unref)(object);
}

GstFlowReturn
gst_buffer_pool_acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                               GstBufferPoolAcquireParams *params)
{
    const GstFlowReturn ret =
        REAL(gst_buffer_pool_acquire_buffer)(pool, buffer, params);
    if (ret == GST_FLOW_OK)
        __tsan_acquire(*buffer);
    return ret;
}
