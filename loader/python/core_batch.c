/* SPDX-License-Identifier: MIT */
/* Batch: one that is out, and its contents. */
#include "loader/python/core.h"

#include <string.h>

#include "loader/python/dlpack.h"

PyObject *batch_new(struct feed_object *feed, const struct tombola_batch *batch, void *stream)
{
    PyTypeObject *type = core_state(Py_TYPE(feed))->batch_type;
    struct batch_object *object = (struct batch_object *)type->tp_alloc(type, 0);
    if (!object) {
        (void)tombola_feed_drop(feed->feed, stream, batch);
        return NULL;
    }
    Py_INCREF(feed);
    object->owner = feed;
    object->feed = feed->feed;
    object->batch = batch;
    object->stream = stream;
    atomic_fetch_add(&feed->out, 1);
    return (PyObject *)object;
}

/* An unsettled batch counts as not trained. */
static void batch_dealloc(struct batch_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->batch && self->owner->forks == core_forks()) {
        (void)tombola_feed_drop(self->feed, self->stream, self->batch);
        atomic_fetch_sub(&self->owner->out, 1);
    }
    Py_XDECREF(self->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

int batch_settle(struct batch_object *self, bool trained)
{
    if (self->is_settled || self->owner->forks != core_forks())
        return TOMBOLA_OK;
    self->is_settled = true;
    return tombola_feed_settle(self->feed, self->batch, trained);
}

PyObject *batch_settle_by(struct batch_object *self, PyObject *args)
{
    int trained;
    if (!PyArg_ParseTuple(args, "p", &trained))
        return NULL;
    int status = batch_settle(self, trained);
    if (status)
        return core_raise(core_state(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

static struct array_object *view(struct batch_object *self, const void *data, char format,
                                 int dimensions, const Py_ssize_t shape[])
{
    PyTypeObject *type = core_state(Py_TYPE(self))->array_type;
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

/* An array on the feed's device: `array` (a reference, or NULL), wherever that is; otherwise a copy
 * if requested. */
static PyObject *on_device(const struct batch_object *self, struct array_object *array, int copies)
{
    const struct tombola_description *description = &self->owner->description;
    if (!array || !description->device_is_cuda)
        return view_or_copy(array, copies);
    array->device_type = DLPACK_CUDA;
    array->device_index = description->device_index;
    return (PyObject *)array;
}

/* As int64 (q), float32 (f) or float64 (d); on the device if the feed's options ask for those, else
 * on the host, where the first two are copies. */
static PyObject *labels_of(struct batch_object *self, char format, int copies)
{
    const double *labels = self->batch->labels;
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    if (format == "\0dqf\0\0\0"[self->owner->description.labels]) /* enum tombola_labels */
        return on_device(self, view(self, self->batch->device_labels, format, 1, shape), copies);
    if (format == 'd')
        return view_or_copy(view(self, labels, 'd', 1, shape), copies);
    if (format != 'q' && format != 'f')
        return PyErr_Format(PyExc_ValueError, "labels come as q, f or d");
    struct array_object *array =
        array_new(core_state(Py_TYPE(self))->array_type, NULL, NULL, format, 1, shape);
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

/* [rows, classes], on the device; float32 or uint8 as in the feed's options. */
static PyObject *one_hot_of(struct batch_object *self, int copies)
{
    const struct tombola_description *description = &self->owner->description;
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows, (Py_ssize_t)description->classes};
    char format = description->labels == TOMBOLA_LABELS_ONE_HOT_U8 ? 'B' : 'f';
    return on_device(self, view(self, self->batch->device_labels, format, 2, shape), copies);
}

/* [rows, *given]; given None: [rows, width]. */
static PyObject *features_of(struct batch_object *self, PyObject *given, int copies)
{
    Py_ssize_t shape[DIMENSIONS_LIMIT] = {(Py_ssize_t)self->batch->rows,
                                          (Py_ssize_t)self->batch->width};
    int dimensions = given == Py_None ? 2 : 1;
    size_t items = given == Py_None ? self->batch->width : 1;
    Py_ssize_t lengths = given == Py_None ? 0 : PyTuple_GET_SIZE(given);
    for (Py_ssize_t i = 0; i < lengths && dimensions < DIMENSIONS_LIMIT; i++) {
        Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
        if (length < 0)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a negative length");
        shape[dimensions++] = length;
        if (__builtin_mul_overflow(items, (size_t)length, &items))
            return PyErr_Format(PyExc_ValueError, "the shape is too large");
    }
    if (items != self->batch->width || lengths >= DIMENSIONS_LIMIT)
        return PyErr_Format(PyExc_ValueError, "the shape has %zu elements, a row has %zu", items,
                            self->batch->width);
    char format = "Bfi"[self->owner->description.element]; /* enum tombola_element */
    return on_device(self, view(self, self->batch->features, format, dimensions, shape), copies);
}

/* The result of `convert` for an array (a reference, or NULL). */
static PyObject *converted(PyObject *convert, PyObject *array)
{
    PyObject *result = array ? PyObject_CallOneArg(convert, array) : NULL;
    Py_XDECREF(array);
    return result;
}

/* show(convert, shape, format, copy): ids, labels and features, each an Array passed through
 * `convert`. shape None: [rows, width]; format None, unless labels are one-hot: they are None. */
static PyObject *batch_show(struct batch_object *self, PyObject *args)
{
    Py_ssize_t rows[] = {(Py_ssize_t)self->batch->rows};
    PyObject *convert, *shape, *ids, *labels = NULL, *features = NULL, *result = NULL;
    const char *format;
    int copies;
    if (!PyArg_ParseTuple(args, "OOzp", &convert, &shape, &format, &copies))
        return NULL;
    if (shape != Py_None && !PyTuple_Check(shape))
        return PyErr_Format(PyExc_TypeError, "a shape is a tuple or None");
    ids = converted(convert, view_or_copy(view(self, self->batch->ids, 'q', 1, rows), copies));
    if (ids && self->owner->description.classes > 0)
        labels = converted(convert, one_hot_of(self, copies));
    else if (ids)
        labels =
            format ? converted(convert, labels_of(self, format[0], copies)) : Py_NewRef(Py_None);
    if (labels)
        features = converted(convert, features_of(self, shape, copies));
    if (features)
        result = PyTuple_Pack(3, ids, labels, features);
    Py_XDECREF(ids);
    Py_XDECREF(labels);
    Py_XDECREF(features);
    return result;
}

/* weights(copy), groups(copy): [rows], on the device; float32 or float64 as in the feed's options,
 * and int64. None: not requested. */
static PyObject *batch_weights(struct batch_object *self, PyObject *args)
{
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    char format = self->owner->description.weights == TOMBOLA_WEIGHTS_F32 ? 'f' : 'd';
    int copies = 0;
    if (!PyArg_ParseTuple(args, "|p", &copies))
        return NULL;
    if (!self->batch->device_weights)
        Py_RETURN_NONE;
    return on_device(self, view(self, self->batch->device_weights, format, 1, shape), copies);
}

static PyObject *batch_groups(struct batch_object *self, PyObject *args)
{
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    int copies = 0;
    if (!PyArg_ParseTuple(args, "|p", &copies))
        return NULL;
    if (!self->batch->device_groups)
        Py_RETURN_NONE;
    return on_device(self, view(self, self->batch->device_groups, 'q', 1, shape), copies);
}

/* lengths(copy): [rows], on the device: features of each row. None: all rows are alike. */
static PyObject *batch_lengths(struct batch_object *self, PyObject *args)
{
    Py_ssize_t shape[] = {(Py_ssize_t)self->batch->rows};
    int copies = 0;
    if (!PyArg_ParseTuple(args, "|p", &copies))
        return NULL;
    if (!self->batch->device_lengths)
        Py_RETURN_NONE;
    return on_device(self, view(self, self->batch->device_lengths, 'q', 1, shape), copies);
}

/* Offsets of the batch's numbers, all of 8 bytes. */
static size_t rows_at = offsetof(struct tombola_batch, rows);
static size_t width_at = offsetof(struct tombola_batch, width);
static size_t epoch_at = offsetof(struct tombola_batch, epoch);
static size_t round_epoch_at = offsetof(struct tombola_batch, round_epoch);
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
    {"show", (PyCFunction)batch_show, METH_VARARGS,
     "show(convert, shape, format, copy): (ids, labels, features), each converted: int64 [rows]; "
     "[rows] as q (int64), f (float32) or d (float64), [rows, classes] where one-hot, or None; "
     "[rows, *shape], uint8, float32 or int32."},
    {"weights", (PyCFunction)batch_weights, METH_VARARGS,
     "weights(copy=False): [rows], float32 or float64; None: the feed was not asked for them."},
    {"groups", (PyCFunction)batch_groups, METH_VARARGS,
     "groups(copy=False): int64 [rows]; None: the feed was not asked for them."},
    {"lengths", (PyCFunction)batch_lengths, METH_VARARGS,
     "lengths(copy=False): int64 [rows]: features of each row; None: all have as many."},
    {"settle", (PyCFunction)batch_settle_by, METH_VARARGS,
     "settle(trained): whether it was; its arrays stay valid. The first word counts."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_members[] = {
    {"rows", (getter)batch_number, NULL, "How many rows.", &rows_at},
    {"width", (getter)batch_number, NULL, "Features of a row, zeros behind a shorter one included.",
     &width_at},
    {"epoch", (getter)batch_number, NULL, "The epoch of its first row.", &epoch_at},
    {"round_epoch", (getter)batch_number, NULL,
     "The epoch of rank 0's batch in this step: the same for all ranks.", &round_epoch_at},
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
PyType_Spec batch_spec = {"tombola._core.Batch", sizeof(struct batch_object), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, batch_slots};
