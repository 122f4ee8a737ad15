/* SPDX-License-Identifier: MIT */
/* Iteration: which batches a loop has trained. */
#include "loader/python/core.h"

#define SUSPENDS (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

struct iteration_object {
    PyObject_HEAD struct batch_object *batch; /* a reference; NULL: none is out */
    PyCodeObject *around; /* a reference; the generator or coroutine that contains the loop and may
                           * be closed from outside; NULL: none */
    bool is_placed;       /* `around` is known */
};

/* A new reference to the code running `depth` calls further out; NULL: none. */
static PyCodeObject *running_code(int depth)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame && depth-- > 0) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    Py_XDECREF(frame);
    return code;
}

/* From __next__(), which the loop has called. */
static void place(struct iteration_object *self)
{
    self->is_placed = true;
    self->around = running_code(1);
    if (self->around && !(self->around->co_flags & SUSPENDS))
        Py_CLEAR(self->around);
}

/* Did the code that runs the loop drop the iterator itself? Since Python 3.13 a generator that is
 * closed where it waits is discarded without GeneratorExit. */
static bool is_let_go_from_inside(const struct iteration_object *self)
{
    PyCodeObject *code = self->around ? running_code(0) : NULL;
    bool inside = code == self->around;
    Py_XDECREF(code);
    return inside;
}

/* If several threads share the loop, one may ask for the next batch before another holds its own:
 * that one was then trained, too. */
static PyObject *iteration_hold(struct iteration_object *self, PyObject *batch)
{
    struct batch_object *before;
    if (!Py_IS_TYPE(batch, core_state(Py_TYPE(self))->batch_type))
        return PyErr_Format(PyExc_TypeError, "not a Batch");
    Py_INCREF(batch);
    Py_BEGIN_CRITICAL_SECTION(self);
    if (!self->is_placed)
        place(self);
    before = self->batch;
    self->batch = (struct batch_object *)batch;
    Py_END_CRITICAL_SECTION();
    int status = before ? batch_settle(before, true) : TOMBOLA_OK;
    Py_XDECREF(before);
    if (status)
        return core_raise(core_state(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

/* settle(trained): settles the loop's batch, which it then no longer holds. */
static PyObject *iteration_settle(struct iteration_object *self, PyObject *args)
{
    struct batch_object *batch;
    Py_BEGIN_CRITICAL_SECTION(self);
    batch = self->batch;
    self->batch = NULL;
    Py_END_CRITICAL_SECTION();
    if (!batch)
        Py_RETURN_NONE;
    PyObject *result = batch_settle_by(batch, args);
    Py_DECREF(batch);
    return result;
}

/* A loop drops its iterator when it ends: after `break` the last batch was trained; if an exception
 * passes through it, or its generator is closed, it was not. */
static void iteration_finalize(PyObject *object)
{
    struct iteration_object *self = (struct iteration_object *)object;
    if (self->batch)
        (void)batch_settle(self->batch, !PyErr_Occurred() && is_let_go_from_inside(self));
    Py_CLEAR(self->batch);
    Py_CLEAR(self->around);
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
