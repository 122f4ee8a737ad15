/* SPDX-License-Identifier: MIT */
/* Iteration: what a loop has trained. */
#include "loader/python/core.h"

struct iteration_object {
    PyObject_HEAD struct batch_object *batch; /* a reference; NULL: none is out */
};

static PyObject *iteration_hold(struct iteration_object *self, PyObject *batch)
{
    if (!Py_IS_TYPE(batch, core_state(Py_TYPE(self))->batch_type))
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
    PyObject *result = batch_settle_by(batch, args);
    Py_DECREF(batch);
    return result;
}

/* A loop lets go of its iterator when it ends: by `break` the last batch was trained; while an
 * exception goes through it, it was not. */
static void iteration_finalize(PyObject *object)
{
    struct iteration_object *self = (struct iteration_object *)object;
    if (self->batch)
        (void)batch_settle(self->batch, !PyErr_Occurred());
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
PyType_Spec iteration_spec = {"tombola._core.Iteration", sizeof(struct iteration_object), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, iteration_slots};
