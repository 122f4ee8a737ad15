/* SPDX-License-Identifier: MIT */
/*
 * libtombola for Python: Feed, Batch, Array, and Iteration, which decides what a loop has trained.
 * Nothing is copied: an Array is a view of a slot of the feed's ring, by the buffer protocol and by
 * DLPack. The slot goes back to the ring with the last Array of its Batch.
 *
 * The GIL is released wherever libtombola may wait; waits look for signals every SLICE_MS.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <tombola.h>
#include <unistd.h>

#include "loader/python/dlpack.h"

#define SLICE_MS 50
#define DIMENSIONS_LIMIT 8

struct module_state {
    PyTypeObject *feed_type, *batch_type, *array_type, *iteration_type;
    PyObject *errors; /* dict: enum tombola_status -> class */
};

struct feed_object {
    PyObject_HEAD struct tombola_feed *feed; /* NULL: closed */
    PyThread_type_lock calls;                /* held by who is in tombola_feed_next(), or closes */
    pid_t opener;                            /* a child that fork() made leaves the feed alone */
    struct tombola_description description;
    atomic_size_t out; /* batches that have slots */
};

struct batch_object {
    PyObject_HEAD struct feed_object *owner; /* a reference */
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    void *stream;
    bool is_settled;
};

struct array_object {
    PyObject_HEAD PyObject *base; /* the Batch; NULL: the memory is its own */
    void *data;
    char format; /* of struct: B, q, f, d */
    int device_type, device_index;
    int dimensions;
    Py_ssize_t item_bytes, shape[DIMENSIONS_LIMIT], strides[DIMENSIONS_LIMIT]; /* bytes */
};

struct iteration_object {
    PyObject_HEAD struct batch_object *batch; /* a reference; NULL: none is out */
};

static struct PyModuleDef core_module;

static struct module_state *state_of(PyTypeObject *type)
{
    return PyModule_GetState(PyType_GetModuleByDef(type, &core_module));
}

/* ---- errors ------------------------------------------------------------- */

static PyObject *raise_status(const struct module_state *state, int status)
{
    PyObject *number = PyLong_FromLong(status);
    if (!number)
        return NULL;
    PyObject *class = PyDict_GetItemWithError(state->errors, number);
    Py_DECREF(number);
    if (!PyErr_Occurred())
        PyErr_SetString(class ? class : PyExc_RuntimeError, tombola_error_message());
    return NULL;
}

/* The classes stand in errors.py, which registers them once. */
static PyObject *core_set_errors(PyObject *module, PyObject *errors)
{
    struct module_state *state = PyModule_GetState(module);
    if (!PyDict_Check(errors))
        return PyErr_Format(PyExc_TypeError, "a dict is right");
    Py_INCREF(errors);
    Py_XSETREF(state->errors, errors);
    Py_RETURN_NONE;
}

/* ---- arrays ------------------------------------------------------------- */

static void array_dealloc(struct array_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->base)
        Py_DECREF(self->base);
    else
        PyMem_RawFree(self->data);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t item_bytes_of(char format)
{
    return format == 'B' ? 1 : format == 'f' ? 4 : 8;
}

static Py_ssize_t array_bytes(const struct array_object *array)
{
    Py_ssize_t bytes = array->item_bytes;
    for (int i = 0; i < array->dimensions; i++)
        bytes *= array->shape[i];
    return bytes;
}

/* C order; on the CPU until its owner says otherwise. `data` NULL: memory of its own. */
static struct array_object *array_new(PyTypeObject *type, void *data, PyObject *base, char format,
                                      int dimensions, const Py_ssize_t shape[])
{
    struct array_object *array = (struct array_object *)type->tp_alloc(type, 0);
    if (!array)
        return NULL;
    Py_ssize_t stride = item_bytes_of(format);
    array->format = format;
    array->item_bytes = stride;
    array->dimensions = dimensions;
    array->device_type = DLPACK_CPU;
    for (int i = dimensions - 1; i >= 0; i--) {
        array->shape[i] = shape[i];
        array->strides[i] = stride;
        stride *= shape[i];
    }
    array->data = data;
    if (base) {
        Py_INCREF(base);
        array->base = base;
    } else {
        array->data = PyMem_RawMalloc((size_t)array_bytes(array) + 1);
        if (!array->data) {
            Py_DECREF(array);
            PyErr_NoMemory();
            return NULL;
        }
    }
    return array;
}

/* The same numbers in memory of their own. Only on the CPU. */
static struct array_object *array_copy(const struct array_object *array)
{
    struct array_object *copy =
        array_new(Py_TYPE(array), NULL, NULL, array->format, array->dimensions, array->shape);
    if (copy)
        memcpy(copy->data, array->data, (size_t)array_bytes(array));
    return copy;
}

static int array_get_buffer(struct array_object *self, Py_buffer *view, int flags)
{
    static char formats[][2] = {"B", "q", "f", "d"};
    view->obj = NULL;
    if (self->device_type != DLPACK_CPU) {
        PyErr_SetString(PyExc_BufferError,
                        "the batch is in the memory of a GPU: use __dlpack__ (output=\"torch\")");
        return -1;
    }
    view->buf = self->data;
    view->len = array_bytes(self);
    view->itemsize = self->item_bytes;
    view->readonly = 0;
    view->ndim = self->dimensions;
    view->format = NULL;
    for (size_t i = 0; (flags & PyBUF_FORMAT) && i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i][0] == self->format)
            view->format = formats[i];
    }
    view->shape = flags & PyBUF_ND ? self->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    Py_INCREF(self);
    view->obj = (PyObject *)self;
    return 0;
}

/* ---- arrays by DLPack ---------------------------------------------------- */

/* What a capsule carries: one of the two forms, and the array that it keeps alive. */
struct export
{
    union {
        struct dlpack_managed plain;
        struct dlpack_managed_versioned versioned;
    } form;
    PyObject *array;
    int64_t shape[DIMENSIONS_LIMIT], strides[DIMENSIONS_LIMIT]; /* strides in items */
};

static void export_free(struct export *export)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(export->array);
    PyGILState_Release(gil);
    PyMem_RawFree(export);
}

static void delete_plain(struct dlpack_managed *managed)
{
    export_free(managed->manager_context);
}

static void delete_versioned(struct dlpack_managed_versioned *managed)
{
    export_free(managed->manager_context);
}

/* A capsule that nobody consumed; one that was has another name. */
static void capsule_destroy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DLPACK_NAME))
        delete_plain(PyCapsule_GetPointer(capsule, DLPACK_NAME));
    else if (PyCapsule_IsValid(capsule, DLPACK_NAME_VERSIONED))
        delete_versioned(PyCapsule_GetPointer(capsule, DLPACK_NAME_VERSIONED));
}

static struct dlpack_tensor describe_tensor(const struct array_object *array, struct export *export)
{
    for (int i = 0; i < array->dimensions; i++) {
        export->shape[i] = array->shape[i];
        export->strides[i] = array->strides[i] / array->item_bytes;
    }
    uint8_t code = array->format == 'B'   ? DLPACK_UINT
                   : array->format == 'q' ? DLPACK_INT
                                          : DLPACK_FLOAT;
    return (struct dlpack_tensor){.data = array->data,
                                  .device = {array->device_type, array->device_index},
                                  .dimensions = array->dimensions,
                                  .type = {code, (uint8_t)(8 * array->item_bytes), 1},
                                  .shape = export->shape,
                                  .strides = export->strides};
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). The batch is ready on
 * the stream that next() was given, which is the consumer's; another one is its to order. */
static PyObject *array_dlpack(struct array_object *self, PyObject *args, PyObject *words)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, words, "|$OOOO", names, &stream, &version, &device,
                                     &copy))
        return NULL;
    int type = self->device_type, index = self->device_index;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &index))
        return NULL;
    if (type != self->device_type || index != self->device_index)
        return PyErr_Format(PyExc_BufferError, "the batch is on another device");
    struct array_object *array = self;
    if (copy == Py_True && type != DLPACK_CPU)
        return PyErr_Format(PyExc_BufferError, "a batch on a GPU is not copied here");
    if (copy == Py_True)
        array = array_copy(self);
    else
        Py_INCREF(array);
    long major = 0;
    if (array && version != Py_None)
        major = PyTuple_Check(version) && PyTuple_GET_SIZE(version) > 0
                    ? PyLong_AsLong(PyTuple_GET_ITEM(version, 0))
                    : 0;
    struct export *export = array && !PyErr_Occurred() ? PyMem_RawCalloc(1, sizeof(*export)) : NULL;
    if (!export) {
        Py_XDECREF(array);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    export->array = (PyObject *)array;
    struct dlpack_tensor tensor = describe_tensor(array, export);
    if (major >= 1)
        export->form.versioned =
            (struct dlpack_managed_versioned){.version = {1, 0},
                                              .manager_context = export,
                                              .deleter = delete_versioned,
                                              .flags = copy == Py_True ? DLPACK_FLAG_COPIED : 0,
                                              .tensor = tensor};
    else
        export->form.plain = (struct dlpack_managed){
            .tensor = tensor, .manager_context = export, .deleter = delete_plain};
    PyObject *capsule = PyCapsule_New(
        &export->form, major >= 1 ? DLPACK_NAME_VERSIONED : DLPACK_NAME, capsule_destroy);
    if (!capsule)
        export_free(export);
    return capsule;
}

static PyObject *array_dlpack_device(struct array_object *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(ii)", self->device_type, self->device_index);
}

static PyObject *array_shape(struct array_object *self, void *unused)
{
    (void)unused;
    PyObject *shape = PyTuple_New(self->dimensions);
    for (int i = 0; shape && i < self->dimensions; i++) {
        PyObject *length = PyLong_FromSsize_t(self->shape[i]);
        if (!length)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, i, length);
    }
    return shape;
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule of the array's memory."},
    {"__dlpack_device__", (PyCFunction)array_dlpack_device, METH_NOARGS,
     "(device type, device index) as DLPack has them."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef array_members[] = {
    {"shape", (getter)array_shape, NULL, "Its dimensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_members},
    {Py_bf_getbuffer, array_get_buffer},
    {Py_tp_doc, "Numbers of a batch: a view of the feed's memory (buffer protocol, DLPack)."},
    {0, NULL},
};
static PyType_Spec array_spec = {"tombola._core.Array", sizeof(struct array_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 array_slots};

/* ---- batches ------------------------------------------------------------ */

/* What was not settled was not trained. */
static void batch_dealloc(struct batch_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->batch && self->owner->opener == getpid()) {
        (void)tombola_feed_drop(self->feed, self->stream, self->batch);
        atomic_fetch_sub(&self->owner->out, 1);
    }
    Py_XDECREF(self->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

/* An enum tombola_status. */
static int settle(struct batch_object *self, bool trained)
{
    if (self->is_settled || self->owner->opener != getpid())
        return TOMBOLA_OK;
    self->is_settled = true;
    return tombola_feed_settle(self->feed, self->batch, trained);
}

static PyObject *batch_settle(struct batch_object *self, PyObject *args)
{
    int trained;
    if (!PyArg_ParseTuple(args, "p", &trained))
        return NULL;
    int status = settle(self, trained);
    if (status)
        return raise_status(state_of(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

static struct array_object *view(struct batch_object *self, const void *data, char format,
                                 int dimensions, const Py_ssize_t shape[])
{
    PyTypeObject *type = state_of(Py_TYPE(self))->array_type;
    return array_new(type, (void *)data, (PyObject *)self, format, dimensions, shape);
}

/* `array` (a reference, or NULL) itself, or a copy of it. */
static PyObject *view_or_copy(struct array_object *array, int copies)
{
    if (!array || !copies)
        return (PyObject *)array;
    struct array_object *copy = array_copy(array);
    Py_DECREF(array);
    return (PyObject *)copy;
}

static PyObject *batch_ids(struct batch_object *self, PyObject *args)
{
    int copies = 0;
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    if (!PyArg_ParseTuple(args, "|p", &copies))
        return NULL;
    return view_or_copy(view(self, self->batch->ids, 'q', 1, shape), copies);
}

/* labels(format, copy): as int64 (q) or float32 (f), which are copies, or float64 (d). */
static PyObject *batch_labels(struct batch_object *self, PyObject *args)
{
    const double *labels = self->batch->labels;
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    int format, copies = 0;
    if (!PyArg_ParseTuple(args, "C|p", &format, &copies))
        return NULL;
    if (format == 'd')
        return view_or_copy(view(self, labels, 'd', 1, shape), copies);
    if (format != 'q' && format != 'f')
        return PyErr_Format(PyExc_ValueError, "labels come as q, f or d");
    struct array_object *array =
        array_new(state_of(Py_TYPE(self))->array_type, NULL, NULL, (char)format, 1, shape);
    if (!array)
        return NULL;
    for (Py_ssize_t i = 0; i < shape[0]; i++) {
        if (format == 'q')
            ((int64_t *)array->data)[i] = (int64_t)labels[i];
        else
            ((float *)array->data)[i] = (float)labels[i];
    }
    return (PyObject *)array;
}

/* features(shape, copy): [rows, *shape]. */
static PyObject *batch_features(struct batch_object *self, PyObject *args)
{
    const struct tombola_description *description = &self->owner->description;
    PyObject *given;
    int copies = 0, dimensions = 1;
    Py_ssize_t shape[DIMENSIONS_LIMIT] = {(Py_ssize_t)self->batch->rows};
    if (!PyArg_ParseTuple(args, "O!|p", &PyTuple_Type, &given, &copies))
        return NULL;
    size_t items = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given) && dimensions < DIMENSIONS_LIMIT; i++) {
        Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
        if (length < 0)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a negative length");
        shape[dimensions++] = length;
        if (__builtin_mul_overflow(items, (size_t)length, &items))
            return PyErr_Format(PyExc_ValueError, "the shape is too large");
    }
    if (items != description->features || PyTuple_GET_SIZE(given) >= DIMENSIONS_LIMIT)
        return PyErr_Format(PyExc_ValueError, "the shape has %zu elements, a row has %zu", items,
                            description->features);
    char format = description->element == TOMBOLA_U8 ? 'B' : 'f';
    struct array_object *array = view(self, self->batch->features, format, dimensions, shape);
    if (array && description->device_is_cuda) {
        array->device_type = DLPACK_CUDA;
        array->device_index = description->device_index;
        copies = 0;
    }
    return view_or_copy(array, copies);
}

/* Where the numbers of a batch stand in it, all of 8 bytes. */
static size_t rows_at = offsetof(struct tombola_batch, rows);
static size_t epoch_at = offsetof(struct tombola_batch, epoch);
static size_t first_at = offsetof(struct tombola_batch, first);
static size_t index_at = offsetof(struct tombola_batch, index);
static size_t seq_at = offsetof(struct tombola_batch, seq);
static size_t attempt_at = offsetof(struct tombola_batch, attempt);

static PyObject *batch_number(struct batch_object *self, void *at)
{
    int64_t number;
    _Static_assert(sizeof(self->batch->rows) == sizeof(number), "a machine of 64 bits");
    memcpy(&number, (const char *)self->batch + *(const size_t *)at, sizeof(number));
    return PyLong_FromLongLong(number);
}

static PyMethodDef batch_methods[] = {
    {"ids", (PyCFunction)batch_ids, METH_VARARGS, "ids(copy=False): int64 [rows]."},
    {"labels", (PyCFunction)batch_labels, METH_VARARGS,
     "labels(format, copy=False): [rows] as q (int64), f (float32) or d (float64)."},
    {"features", (PyCFunction)batch_features, METH_VARARGS,
     "features(shape, copy=False): [rows, *shape], uint8 or float32."},
    {"settle", (PyCFunction)batch_settle, METH_VARARGS,
     "settle(trained): whether it was; its arrays stay valid. The first word counts."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_members[] = {
    {"rows", (getter)batch_number, NULL, "How many rows.", &rows_at},
    {"epoch", (getter)batch_number, NULL, "The epoch of its first row.", &epoch_at},
    {"first", (getter)batch_number, NULL, "The first row's position in the order.", &first_at},
    {"index", (getter)batch_number, NULL, "Its number.", &index_at},
    {"seq", (getter)batch_number, NULL, "The number of its lease.", &seq_at},
    {"attempt", (getter)batch_number, NULL, "How often it was lent.", &attempt_at},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_members},
    {Py_tp_doc, "A batch that is out; its slot goes back with its last Array."},
    {0, NULL},
};
static PyType_Spec batch_spec = {"tombola._core.Batch", sizeof(struct batch_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 batch_slots};

/* ---- feeds -------------------------------------------------------------- */

static int feed_init(struct feed_object *self, PyObject *args, PyObject *words)
{
    static char *names[] = {"sampler",      "store",    "batch_size",  "device",      "stream",
                            "pull",         "bad_rows", "first_index", "batches",     "expand",
                            "scale",        "slots",    "fetchers",    "cache_bytes", "patience_ms",
                            "trust_labels", "rank",     "world",       "pad",         "state",
                            "worker",       "token",    "authority",   NULL};
    struct tombola_options options = {.struct_bytes = sizeof(options)};
    Py_ssize_t batch_size = 0, slots = 0, fetchers = 0, cache_bytes = -1;
    long long first_index = 0, batches = 0, patience_ms = 0, rank = 0, world = 0;
    if (self->calls) {
        PyErr_SetString(PyExc_TypeError, "a Feed is opened once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(
            args, words, "ss|$nzziiLLpfnnnLpLLpzzzz", names, &options.sampler_url,
            &options.store_uri, &batch_size, &options.device, &options.stream, &options.pull,
            &options.bad_rows, &first_index, &batches, &options.expand, &options.scale, &slots,
            &fetchers, &cache_bytes, &patience_ms, &options.trust_labels, &rank, &world,
            &options.pad, &options.state, &options.worker, &options.token, &options.authority))
        return -1;
    if (batch_size < 0 || slots < 0 || fetchers < 0 || cache_bytes < -1) {
        PyErr_SetString(PyExc_ValueError,
                        "batch_size, slots, fetchers and cache are counts of 0 or more");
        return -1;
    }
    options.batch_rows = (size_t)batch_size;
    options.slots = (size_t)slots;
    options.fetchers = (size_t)fetchers;
    /* In Python 0 is none, and -1 stands for the default. */
    options.cache_bytes = cache_bytes > 0    ? (size_t)cache_bytes
                          : cache_bytes == 0 ? TOMBOLA_NO_CACHE
                                             : 0;
    options.first_index = first_index;
    options.batches = batches;
    options.patience_ms = patience_ms;
    options.rank = rank;
    options.world = world;
    self->opener = getpid();
    self->calls = PyThread_allocate_lock();
    if (!self->calls) {
        PyErr_NoMemory();
        return -1;
    }
    int status;
    struct tombola_feed *feed = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tombola_feed_open(&options, &feed);
    Py_END_ALLOW_THREADS;
    if (status) {
        raise_status(state_of(Py_TYPE(self)), status);
        return -1;
    }
    self->feed = feed;
    tombola_feed_describe(feed, &self->description, sizeof(self->description));
    return 0;
}

static void close_feed(struct feed_object *self)
{
    struct tombola_feed *feed = self->feed;
    self->feed = NULL;
    if (!feed || self->opener != getpid())
        return;
    Py_BEGIN_ALLOW_THREADS;
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

/* One thread at a time is in the feed. False: a signal's handler raised. */
static bool begin_call(struct feed_object *self)
{
    for (;;) {
        PyLockStatus taken;
        Py_BEGIN_ALLOW_THREADS;
        taken = PyThread_acquire_lock_timed(self->calls, SLICE_MS * 1000, 0);
        Py_END_ALLOW_THREADS;
        if (taken == PY_LOCK_ACQUIRED)
            return true;
        if (PyErr_CheckSignals())
            return false;
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static PyObject *batch_new(struct feed_object *self, const struct tombola_batch *batch,
                           void *stream)
{
    PyTypeObject *type = state_of(Py_TYPE(self))->batch_type;
    struct batch_object *object = (struct batch_object *)type->tp_alloc(type, 0);
    if (!object) {
        (void)tombola_feed_drop(self->feed, stream, batch);
        return NULL;
    }
    Py_INCREF(self);
    object->owner = self;
    object->feed = self->feed;
    object->batch = batch;
    object->stream = stream;
    atomic_fetch_add(&self->out, 1);
    return (PyObject *)object;
}

/* In slices, so that Ctrl-C is heard: then an exception is set. */
static int wait_for_batch(struct feed_object *self, void *stream, int64_t timeout_ms,
                          const struct tombola_batch **ret_batch)
{
    int64_t deadline_ms = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
    int status = tombola_feed_next(self->feed, stream, 0, ret_batch); /* often it is there */
    while (status == TOMBOLA_NOT_YET) {
        int64_t left_ms = deadline_ms == INT64_MAX ? SLICE_MS : deadline_ms - now_ms();
        if (left_ms <= 0 || PyErr_CheckSignals())
            break;
        struct tombola_feed *feed = self->feed;
        Py_BEGIN_ALLOW_THREADS;
        status =
            tombola_feed_next(feed, stream, left_ms < SLICE_MS ? left_ms : SLICE_MS, ret_batch);
        Py_END_ALLOW_THREADS;
    }
    return status;
}

/* next(timeout_ms, stream): a Batch; None at the stream's end; False: the time is over. */
static PyObject *feed_next(struct feed_object *self, PyObject *args)
{
    const struct module_state *state = state_of(Py_TYPE(self));
    long long timeout_ms = -1;
    PyObject *number = NULL;
    void *stream = NULL;
    const struct tombola_batch *batch = NULL;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "|LO!", &timeout_ms, &PyLong_Type, &number))
        return NULL;
    if (number && !(stream = PyLong_AsVoidPtr(number)) && PyErr_Occurred())
        return NULL;
    if (!begin_call(self))
        return NULL;
    if (!self->feed)
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
    else {
        int status = wait_for_batch(self, stream, timeout_ms, &batch);
        if (status == TOMBOLA_OK)
            result = batch_new(self, batch, stream);
        else if (status == TOMBOLA_END)
            result = Py_NewRef(Py_None);
        else if (status == TOMBOLA_NOT_YET && !PyErr_Occurred())
            result = Py_NewRef(Py_False);
        else if (!PyErr_Occurred())
            raise_status(state, status);
    }
    PyThread_release_lock(self->calls);
    return result;
}

static PyObject *feed_close(struct feed_object *self, PyObject *unused)
{
    (void)unused;
    if (self->opener == getpid() && self->feed)
        tombola_feed_interrupt(self->feed);
    if (!begin_call(self))
        return NULL;
    close_feed(self);
    PyThread_release_lock(self->calls);
    Py_RETURN_NONE;
}

static PyObject *feed_interrupt(struct feed_object *self, PyObject *unused)
{
    (void)unused;
    if (self->feed)
        tombola_feed_interrupt(self->feed);
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
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
    else {
        int status = tombola_feed_state(self->feed, &text);
        result =
            status ? raise_status(state_of(Py_TYPE(self)), status) : PyUnicode_FromString(text);
    }
    PyThread_release_lock(self->calls);
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

/* The description's texts live as long as the feed. */
static PyObject *feed_describe(struct feed_object *self, PyObject *unused)
{
    const struct tombola_description *is = &self->description;
    (void)unused;
    if (!self->feed)
        return PyErr_Format(PyExc_ValueError, "the loader is closed");
    PyObject *names = texts(is->feature_names, is->feature_names ? is->features : 0);
    PyObject *labels = texts(is->label_texts, is->label_text_count);
    PyObject *result = NULL;
    if (names && labels)
        result = Py_BuildValue("{s:L,s:n,s:i,s:i,s:O,s:i,s:s,s:O,s:O,s:n}", "rows",
                               (long long)is->rows, "features", (Py_ssize_t)is->features, "element",
                               is->element, "label_kind", is->label_kind, "device_is_cuda",
                               is->device_is_cuda ? Py_True : Py_False, "device_index",
                               is->device_index, "device", is->device, "feature_names", names,
                               "label_texts", labels, "slots", (Py_ssize_t)is->slots);
    Py_XDECREF(names);
    Py_XDECREF(labels);
    return result;
}

static PyObject *feed_stats(struct feed_object *self, PyObject *unused)
{
    struct tombola_stats stats;
    (void)unused;
    if (!self->feed)
        return PyErr_Format(PyExc_ValueError, "the loader is closed");
    tombola_feed_stats(self->feed, &stats, sizeof(stats));
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "batches",
                         (long long)stats.batches, "rows", (long long)stats.rows, "bytes",
                         (long long)stats.bytes, "bad_rows", (long long)stats.bad_rows, "pull_ns",
                         (long long)stats.pull_ns, "fetch_ns", (long long)stats.fetch_ns, "copy_ns",
                         (long long)stats.copy_ns, "wait_ns", (long long)stats.wait_ns, "first_ns",
                         (long long)stats.first_ns, "lost", (long long)stats.lost);
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
static PyType_Spec feed_spec = {"tombola._core.Feed", sizeof(struct feed_object), 0,
                                Py_TPFLAGS_DEFAULT, feed_slots};

/* ---- what a loop has trained -------------------------------------------- */

static PyObject *iteration_hold(struct iteration_object *self, PyObject *batch)
{
    if (!Py_IS_TYPE(batch, state_of(Py_TYPE(self))->batch_type))
        return PyErr_Format(PyExc_TypeError, "a Batch is right");
    Py_INCREF(batch);
    Py_XSETREF(self->batch, (struct batch_object *)batch);
    Py_RETURN_NONE;
}

/* settle(trained): of the batch that the loop has, which is no longer its. */
static PyObject *iteration_settle(struct iteration_object *self, PyObject *args)
{
    struct batch_object *batch = self->batch;
    if (!batch)
        Py_RETURN_NONE;
    self->batch = NULL;
    PyObject *result = batch_settle(batch, args);
    Py_DECREF(batch);
    return result;
}

/* A loop lets go of its iterator when it ends: by `break` the last batch was trained; while an
 * exception goes through it, it was not. */
static void iteration_finalize(PyObject *object)
{
    struct iteration_object *self = (struct iteration_object *)object;
    if (self->batch)
        (void)settle(self->batch, !PyErr_Occurred());
    Py_CLEAR(self->batch);
}

static void iteration_dealloc(struct iteration_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0)
        return;
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef iteration_methods[] = {
    {"hold", (PyCFunction)iteration_hold, METH_O, "The loop has this batch now."},
    {"settle", (PyCFunction)iteration_settle, METH_VARARGS,
     "settle(trained): whether it trained the batch that it had."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot iteration_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, iteration_dealloc},
    {Py_tp_finalize, iteration_finalize},
    {Py_tp_methods, iteration_methods},
    {Py_tp_doc, "The batch that a loop has; an exception in the loop leaves it untrained."},
    {0, NULL},
};
static PyType_Spec iteration_spec = {"tombola._core.Iteration", sizeof(struct iteration_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, iteration_slots};

/* ---- the module --------------------------------------------------------- */

static PyObject *core_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(tombola_version());
}

static PyObject *core_log_level(PyObject *module, PyObject *args)
{
    int level;
    (void)module;
    if (!PyArg_ParseTuple(args, "i", &level))
        return NULL;
    tombola_log_level(level);
    Py_RETURN_NONE;
}

static PyMethodDef core_methods[] = {
    {"set_errors", core_set_errors, METH_O, "The classes of errors by status."},
    {"version", core_version, METH_NOARGS, "libtombola's."},
    {"log_level", core_log_level, METH_VARARGS, "0 all, 1 news, 2 warnings, 3 errors."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type))
        Py_CLEAR(type);
    return type;
}

static int core_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    state->errors = PyDict_New();
    state->array_type = add_type(module, &array_spec);
    state->batch_type = add_type(module, &batch_spec);
    state->feed_type = add_type(module, &feed_spec);
    state->iteration_type = add_type(module, &iteration_spec);
    return state->errors && state->array_type && state->batch_type && state->feed_type &&
                   state->iteration_type
               ? 0
               : -1;
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    const struct module_state *state = PyModule_GetState(module);
    Py_VISIT(state->errors);
    Py_VISIT(state->array_type);
    Py_VISIT(state->batch_type);
    Py_VISIT(state->feed_type);
    Py_VISIT(state->iteration_type);
    return 0;
}

static int core_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->errors);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->batch_type);
    Py_CLEAR(state->feed_type);
    Py_CLEAR(state->iteration_type);
    return 0;
}

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tombola._core",
    .m_doc = "libtombola for Python.",
    .m_size = sizeof(struct module_state),
    .m_methods = core_methods,
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}
