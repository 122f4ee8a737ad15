/* SPDX-License-Identifier: MIT */
/* Exports an Array to other libraries through DLPack. */
#include "loader/python/core.h"

#include "loader/python/dlpack.h"

/* A capsule's content: one of the two forms, and the array that it keeps alive. */
struct export
{
    union {
        struct dlpack_managed plain;
        struct dlpack_managed_versioned versioned;
    } form;
    PyObject *array;
    int64_t shape[DIMENSIONS_LIMIT], strides[DIMENSIONS_LIMIT]; /* strides in items */
};

/* At the end of a process, a consumer's static objects outlive Python, and so the array. */
static void export_free(struct export *export)
{
    if (!Py_IsInitialized())
        return;
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

/* A capsule that nobody consumed; a consumed one has another name. */
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
    uint8_t code = array->format == 'B'                           ? DLPACK_UINT
                   : array->format == 'q' || array->format == 'i' ? DLPACK_INT
                                                                  : DLPACK_FLOAT;
    return (struct dlpack_tensor){.data = array->data,
                                  .device = {array->device_type, array->device_index},
                                  .dimensions = array->dimensions,
                                  .type = {code, (uint8_t)(8 * array->item_bytes), 1},
                                  .shape = export->shape,
                                  .strides = export->strides};
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). The batch is ready on
 * the stream passed to next(), the consumer's; on another stream the consumer must synchronize
 * itself. */
PyObject *array_dlpack(struct array_object *self, PyObject *args, PyObject *words)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, words, "|$OOOO", names, &stream, &version, &device,
                                     &copy))
        return NULL;
    int type = self->device_type, index = self->device_index;
    if (device != Py_None && !PyArg_Parse(device, "(ii)", &type, &index))
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

PyObject *array_dlpack_device(struct array_object *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(ii)", self->device_type, self->device_index);
}
