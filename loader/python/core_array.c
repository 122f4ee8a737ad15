/* SPDX-License-Identifier: MIT */
/* Array: a batch's numbers, through the buffer protocol. */
#include "loader/python/core.h"

#include <stdlib.h>
#include <string.h>

#include "loader/python/dlpack.h"

#define ALIGNMENT_BYTES 64 /* JAX copies memory that is less aligned */

static void array_dealloc(struct array_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->base)
        Py_DECREF(self->base);
    else
        free(self->data);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t item_bytes_of(char format)
{
    return format == 'B' ? 1 : format == 'f' || format == 'i' ? 4 : 8;
}

static Py_ssize_t array_bytes(const struct array_object *array)
{
    Py_ssize_t bytes = array->item_bytes;
    for (int i = 0; i < array->dimensions; i++)
        bytes *= array->shape[i];
    return bytes;
}

struct array_object *array_new(PyTypeObject *type, void *data, PyObject *base, char format,
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
        size_t bytes = (size_t)array_bytes(array) + 1;
        array->data =
            aligned_alloc(ALIGNMENT_BYTES, (bytes / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES);
        if (!array->data) {
            Py_DECREF(array);
            PyErr_NoMemory();
            return NULL;
        }
    }
    return array;
}

struct array_object *array_copy(const struct array_object *array)
{
    struct array_object *copy =
        array_new(Py_TYPE(array), NULL, NULL, array->format, array->dimensions, array->shape);
    if (copy)
        memcpy(copy->data, array->data, (size_t)array_bytes(array));
    return copy;
}

static int array_get_buffer(struct array_object *self, Py_buffer *view, int flags)
{
    static char formats[][2] = {"B", "i", "q", "f", "d"};
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

static PyObject *array_repr(struct array_object *self)
{
    PyObject *shape = array_shape(self, NULL);
    const char *element = self->format == 'B'   ? "uint8"
                          : self->format == 'i' ? "int32"
                          : self->format == 'q' ? "int64"
                          : self->format == 'f' ? "float32"
                                                : "float64";
    PyObject *text = shape ? PyUnicode_FromFormat("<tombola array, %s %R>", element, shape) : NULL;
    Py_XDECREF(shape);
    return text;
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
    {Py_tp_repr, array_repr},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_members},
    {Py_bf_getbuffer, array_get_buffer},
    {Py_tp_doc, "Numbers of a batch: a view of the feed's memory (buffer protocol, DLPack)."},
    {0, NULL},
};
PyType_Spec array_spec = {"tombola._core.Array", sizeof(struct array_object), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, array_slots};
