/* SPDX-License-Identifier: MIT */
/* Feed: libtombola's, with waits that Ctrl-C ends. */
#include "loader/python/core.h"

#include <string.h>
#include <time.h>

#define SLICE_MS 50

/* Bytes, borrowed from the arguments, or None. */
static int take_path(PyObject *path, void *ret_path)
{
    return path == Py_None || PyBytes_AsStringAndSize(path, ret_path, NULL) == 0;
}

static int feed_init(struct feed_object *self, PyObject *args, PyObject *words)
{
    static char *names[] = {
        "sampler",  "store",       "batch_size",     "device",        "stream",      "pull",
        "bad_rows", "first_index", "batches",        "expand",        "scale",       "slots",
        "fetchers", "cache_bytes", "patience_ms",    "trust_labels",  "rank",        "world",
        "pad",      "state",       "worker",         "token",         "authority",   "labels",
        "mean",     "deviation",   "resident_bytes", "cache_dir",     "cache_limit", "weights",
        "groups",   "recipe",      "classes",        "bucket_window", "part",        "parts",
        NULL};
    struct tombola_options options = {.struct_bytes = sizeof(options)};
    Py_ssize_t batch_size = 0, slots = 0, fetchers = 0, cache_bytes = -1, resident_bytes = -1,
               classes = 0, bucket_window = 0;
    Py_buffer mean = {.buf = NULL}, deviation = {.buf = NULL};
    long long first_index = 0, batches = 0, patience_ms = 0, rank = 0, world = 0, cache_limit = 0,
              part = 0, parts = 0;
    if (self->calls) {
        PyErr_SetString(PyExc_TypeError, "a Feed is opened once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(
            args, words, "sy|$nzziiLLpfnnnLpLLpzzzO&iz*z*nO&LipznnLL", names, &options.sampler_url,
            &options.store_uri, &batch_size, &options.device, &options.stream, &options.pull,
            &options.bad_rows, &first_index, &batches, &options.expand, &options.scale, &slots,
            &fetchers, &cache_bytes, &patience_ms, &options.trust_labels, &rank, &world,
            &options.pad, &options.state, &options.worker, &options.token, take_path,
            &options.authority, &options.labels, &mean, &deviation, &resident_bytes, take_path,
            &options.cache_dir, &cache_limit, &options.weights, &options.groups, &options.recipe,
            &classes, &bucket_window, &part, &parts))
        return -1;
    if (batch_size < 0 || slots < 0 || fetchers < 0 || cache_bytes < -1 || resident_bytes < -1 ||
        cache_limit < 0 || classes < 0 || bucket_window < 0) {
        PyErr_SetString(PyExc_ValueError,
                        "batch_size, slots, fetchers, cache, cache_limit, resident, num_classes "
                        "and bucket_window are counts of 0 or more");
        goto out;
    }
    if (mean.len != deviation.len || mean.len % (Py_ssize_t)sizeof(float) != 0) {
        PyErr_SetString(PyExc_ValueError, "mean and deviation are equally many float32");
        goto out;
    }
    options.channels = (size_t)mean.len / sizeof(float);
    options.mean = mean.buf;
    options.deviation = deviation.buf;
    options.batch_rows = (size_t)batch_size;
    options.slots = (size_t)slots;
    options.classes = (size_t)classes;
    options.bucket_window = (size_t)bucket_window;
    options.fetchers = (size_t)fetchers;
    /* In Python 0 means no cache, and -1 the default. */
    options.cache_bytes = cache_bytes > 0    ? (size_t)cache_bytes
                          : cache_bytes == 0 ? TOMBOLA_NO_CACHE
                                             : 0;
    options.resident_bytes = resident_bytes > 0    ? (size_t)resident_bytes
                             : resident_bytes == 0 ? TOMBOLA_NOT_RESIDENT
                                                   : 0;
    options.cache_limit = (uint64_t)cache_limit;
    options.first_index = first_index;
    options.batches = batches;
    options.patience_ms = patience_ms;
    options.rank = rank;
    options.world = world;
    options.part = part;
    options.parts = parts;
    self->forks = core_forks();
    self->calls = PyThread_allocate_lock();
    if (!self->calls) {
        PyErr_NoMemory();
        goto out;
    }
    int status;
    struct tombola_feed *feed = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tombola_feed_open(&options, &feed);
    Py_END_ALLOW_THREADS;
    if (status) {
        core_raise(core_state(Py_TYPE(self)), status);
        goto out;
    }
    self->feed = feed;
    tombola_feed_describe(feed, &self->description, sizeof(self->description));
out:
    PyBuffer_Release(&mean);
    PyBuffer_Release(&deviation);
    return self->feed ? 0 : -1;
}

static PyObject *raise_closed(const struct feed_object *self)
{
    return core_raise_text(core_state(Py_TYPE(self)), TOMBOLA_USAGE, "the loader is closed");
}

static void close_feed(struct feed_object *self)
{
    struct tombola_feed *feed;
    Py_BEGIN_CRITICAL_SECTION(self);
    feed = self->feed;
    if (feed && self->forks == core_forks())
        tombola_feed_stats(feed, &self->last, sizeof(self->last));
    self->feed = NULL;
    Py_END_CRITICAL_SECTION();
    if (!feed || self->forks != core_forks())
        return;
    Py_BEGIN_ALLOW_THREADS;
    if (self->late)
        (void)tombola_feed_drop(feed, self->late_stream, self->late);
    tombola_feed_close(feed);
    Py_END_ALLOW_THREADS;
}

static void feed_dealloc(struct feed_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    close_feed(self);
    if (self->calls)
        PyThread_free_lock(self->calls);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Does this thread's signal handler call, while its next() waits between two slices? */
static bool is_in_call(struct feed_object *self)
{
    return atomic_load(&self->caller) == PyThread_get_thread_ident();
}

/* One thread at a time is in the feed. False: a signal handler raised, or the feed is a parent's,
 * one of whose threads may have had the lock at the fork: it will not be released here. */
static bool begin_call(struct feed_object *self)
{
    if (self->forks != core_forks()) {
        core_raise_text(core_state(Py_TYPE(self)), TOMBOLA_USAGE,
                        "this process was forked after the loader was opened, which is its "
                        "parent's; open one here");
        return false;
    }
    while (!is_in_call(self)) {
        PyLockStatus taken;
        Py_BEGIN_ALLOW_THREADS;
        taken = PyThread_acquire_lock_timed(self->calls, SLICE_MS * 1000, 0);
        Py_END_ALLOW_THREADS;
        if (taken == PY_LOCK_ACQUIRED)
            atomic_store(&self->caller, PyThread_get_thread_ident());
        else if (PyErr_CheckSignals())
            return false;
    }
    self->depth++;
    return true;
}

static void end_call(struct feed_object *self)
{
    if (--self->depth > 0)
        return;
    atomic_store(&self->caller, 0);
    PyThread_release_lock(self->calls);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* False: there is none, or it is not ready on this stream. */
static bool take_late(struct feed_object *self, void *stream,
                      const struct tombola_batch **ret_batch)
{
    const struct tombola_batch *late = self->late;
    self->late = NULL;
    if (late && stream != self->late_stream) {
        (void)tombola_feed_drop(self->feed, self->late_stream, late);
        late = NULL;
    }
    *ret_batch = late;
    return late != NULL;
}

/* Keeps a batch that came while a signal handler raised; a feed that it closed takes it back. */
static void leave_late(struct feed_object *self, struct tombola_feed *feed, void *stream,
                       const struct tombola_batch *batch)
{
    if (!self->feed) {
        (void)tombola_feed_drop(feed, stream, batch);
        return;
    }
    self->late = batch;
    self->late_stream = stream;
}

/* Runs signal handlers. False: one raised, or closed the feed; an exception is set. */
static bool heeds_signals(struct feed_object *self)
{
    if (PyErr_CheckSignals())
        return false;
    if (!self->feed)
        raise_closed(self);
    return self->feed != NULL;
}

/* In slices, so that Ctrl-C is noticed: then an exception is set, and a batch that came with it is
 * the next call's. */
static int wait_for_batch(struct feed_object *self, void *stream, int64_t timeout_ms,
                          const struct tombola_batch **ret_batch)
{
    int64_t deadline_ms = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
    if (take_late(self, stream, ret_batch))
        return TOMBOLA_OK;
    int status = tombola_feed_next(self->feed, stream, 0, ret_batch); /* often it is ready */
    while (status == TOMBOLA_NOT_YET) {
        int64_t left_ms = deadline_ms == INT64_MAX ? SLICE_MS : deadline_ms - now_ms();
        if (left_ms <= 0 || !heeds_signals(self))
            break;
        struct tombola_feed *feed = self->feed;
        Py_BEGIN_ALLOW_THREADS;
        status =
            tombola_feed_next(feed, stream, left_ms < SLICE_MS ? left_ms : SLICE_MS, ret_batch);
        Py_END_ALLOW_THREADS;
        if (status == TOMBOLA_OK && !heeds_signals(self)) {
            leave_late(self, feed, stream, *ret_batch);
            status = TOMBOLA_NOT_YET;
            break;
        }
    }
    return status;
}

/* next(timeout_ms, stream): a Batch; None at the stream's end; False: timeout. */
static PyObject *feed_next(struct feed_object *self, PyObject *args)
{
    const struct module_state *state = core_state(Py_TYPE(self));
    long long timeout_ms = -1;
    PyObject *number = NULL;
    void *stream = NULL;
    const struct tombola_batch *batch = NULL;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "|LO!", &timeout_ms, &PyLong_Type, &number))
        return NULL;
    if (number && !(stream = PyLong_AsVoidPtr(number)) && PyErr_Occurred())
        return NULL;
    if (is_in_call(self))
        return core_raise_text(state, TOMBOLA_USAGE,
                               "a signal handler asks for a batch while its thread waits for one");
    if (!begin_call(self))
        return NULL;
    if (!self->feed)
        raise_closed(self);
    else {
        int status = wait_for_batch(self, stream, timeout_ms, &batch);
        if (status == TOMBOLA_OK)
            result = batch_new(self, batch, stream);
        else if (status == TOMBOLA_END)
            result = Py_NewRef(Py_None);
        else if (status == TOMBOLA_NOT_YET && !PyErr_Occurred())
            result = Py_NewRef(Py_False);
        else if (!PyErr_Occurred())
            core_raise(state, status);
    }
    end_call(self);
    return result;
}

/* What another thread may close meanwhile is used in critical sections, for builds without a
 * GIL. */
static void interrupt(struct feed_object *self)
{
    Py_BEGIN_CRITICAL_SECTION(self);
    if (self->forks == core_forks() && self->feed)
        tombola_feed_interrupt(self->feed);
    Py_END_CRITICAL_SECTION();
}

static PyObject *feed_close(struct feed_object *self, PyObject *unused)
{
    (void)unused;
    if (self->forks != core_forks())
        Py_RETURN_NONE;
    interrupt(self);
    if (!begin_call(self))
        return NULL;
    close_feed(self);
    end_call(self);
    Py_RETURN_NONE;
}

static PyObject *feed_interrupt(struct feed_object *self, PyObject *unused)
{
    (void)unused;
    interrupt(self);
    Py_RETURN_NONE;
}

static PyObject *feed_state(struct feed_object *self, PyObject *unused)
{
    (void)unused;
    const char *text = NULL;
    PyObject *result = NULL;
    if (!begin_call(self))
        return NULL;
    if (!self->feed)
        raise_closed(self);
    else {
        int status = tombola_feed_state(self->feed, &text);
        result =
            status ? core_raise(core_state(Py_TYPE(self)), status) : PyUnicode_FromString(text);
    }
    end_call(self);
    return result;
}

/* left(epoch). */
static PyObject *feed_left(struct feed_object *self, PyObject *args)
{
    long long epoch;
    int64_t batches;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "L", &epoch) || !begin_call(self))
        return NULL;
    if (!self->feed)
        raise_closed(self);
    else {
        const struct tombola_batch *late = self->late; /* next() returns it first */
        int status = tombola_feed_left(self->feed, epoch, &batches);
        if (!status && late && (epoch < 0 || late->round_epoch < epoch))
            batches++;
        result =
            status ? core_raise(core_state(Py_TYPE(self)), status) : PyLong_FromLongLong(batches);
    }
    end_call(self);
    return result;
}

static PyObject *texts(const char *const *from, size_t count)
{
    PyObject *list = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(from[i], (Py_ssize_t)strlen(from[i]), "replace");
        if (!text)
            Py_CLEAR(list);
        else
            PyTuple_SET_ITEM(list, (Py_ssize_t)i, text);
    }
    return list;
}

static PyObject *shape_of(const struct tombola_description *is)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)is->dimensions);
    for (size_t i = 0; shape && i < is->dimensions; i++) {
        PyObject *length = PyLong_FromLongLong(is->shape[i]);
        if (!length)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, (Py_ssize_t)i, length);
    }
    return shape;
}

/* The description's texts live as long as the feed. */
static PyObject *feed_describe(struct feed_object *self, PyObject *unused)
{
    const struct tombola_description *is = &self->description;
    (void)unused;
    if (!self->feed)
        return raise_closed(self);
    PyObject *names = texts(is->feature_names, is->feature_names ? is->features : 0);
    PyObject *labels = texts(is->label_texts, is->label_text_count);
    PyObject *groups =
        is->group_texts ? texts(is->group_texts, is->group_text_count) : Py_NewRef(Py_None);
    PyObject *shape = shape_of(is);
    PyObject *result = NULL;
    if (names && labels && groups && shape)
        result = Py_BuildValue(
            "{s:L,s:n,s:i,s:i,s:O,s:i,s:s,s:O,s:O,s:n,s:O,s:O,s:z,s:n,s:i}", "rows",
            (long long)is->rows, "features", (Py_ssize_t)is->features, "element", is->element,
            "label_kind", is->label_kind, "device_is_cuda", is->device_is_cuda ? Py_True : Py_False,
            "device_index", is->device_index, "device", is->device, "feature_names", names,
            "label_texts", labels, "slots", (Py_ssize_t)is->slots, "shape", shape, "group_texts",
            groups, "recipe", is->recipe, "classes", (Py_ssize_t)is->classes, "lengths",
            is->lengths);
    Py_XDECREF(names);
    Py_XDECREF(labels);
    Py_XDECREF(groups);
    Py_XDECREF(shape);
    return result;
}

static PyObject *feed_stats(struct feed_object *self, PyObject *unused)
{
    struct tombola_stats stats;
    (void)unused;
    Py_BEGIN_CRITICAL_SECTION(self);
    stats = self->last;
    if (self->feed)
        tombola_feed_stats(self->feed, &stats, sizeof(stats));
    Py_END_CRITICAL_SECTION();
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "batches",
                         (long long)stats.batches, "rows", (long long)stats.rows, "bytes",
                         (long long)stats.bytes, "bad_rows", (long long)stats.bad_rows, "pull_ns",
                         (long long)stats.pull_ns, "fetch_ns", (long long)stats.fetch_ns, "copy_ns",
                         (long long)stats.copy_ns, "wait_ns", (long long)stats.wait_ns, "first_ns",
                         (long long)stats.first_ns, "lost", (long long)stats.lost, "resident_rows",
                         (long long)stats.resident_rows, "copied_rows",
                         (long long)stats.copied_rows);
}

static PyObject *feed_out(struct feed_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(atomic_load(&self->out));
}

static PyMethodDef feed_methods[] = {
    {"next", (PyCFunction)feed_next, METH_VARARGS,
     "next(timeout_ms=-1, stream=0): a Batch; None at the stream's end; False when time is over."},
    {"interrupt", (PyCFunction)feed_interrupt, METH_NOARGS, "Ends a next() that waits."},
    {"close", (PyCFunction)feed_close, METH_NOARGS, "Ends its threads; batches stay valid."},
    {"state", (PyCFunction)feed_state, METH_NOARGS, "How far it is, by index."},
    {"left", (PyCFunction)feed_left, METH_VARARGS,
     "left(epoch): how many batches come before this epoch (< 0: before the end), by index."},
    {"describe", (PyCFunction)feed_describe, METH_NOARGS, "What its batches are."},
    {"stats", (PyCFunction)feed_stats, METH_NOARGS, "What it did."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef feed_members[] = {
    {"out", (getter)feed_out, NULL, "Batches whose slots are not back.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot feed_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, feed_init},
    {Py_tp_dealloc, feed_dealloc},
    {Py_tp_methods, feed_methods},
    {Py_tp_getset, feed_members},
    {Py_tp_doc, "struct tombola_feed; tombola.h says what its options are."},
    {0, NULL},
};
PyType_Spec feed_spec = {"tombola._core.Feed", sizeof(struct feed_object), 0, Py_TPFLAGS_DEFAULT,
                         feed_slots};
