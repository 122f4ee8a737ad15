/* SPDX-License-Identifier: MIT */
/* The module: its types, and the errors that they raise. */
#include "loader/python/core.h"

#include <pthread.h>
#include <string.h>

static struct PyModuleDef core_module;

struct module_state *core_state(PyTypeObject *type)
{
    return PyModule_GetState(PyType_GetModuleByDef(type, &core_module));
}

/* A new reference: the message, with the options of a program, or of C, as they are in Python. */
static PyObject *message_of(const char *text)
{
    static const char *const names[][2] = {{"--bad-rows skip", "bad_rows=\"skip\""},
                                           {"TOMBOLA_INDEX", "pull=\"index\""},
                                           {"TOMBOLA_LEASE", "pull=\"lease\""}};
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    for (size_t i = 0; message && i < sizeof(names) / sizeof(names[0]); i++)
        Py_SETREF(message, PyObject_CallMethod(message, "replace", "ss", names[i][0], names[i][1]));
    return message;
}

PyObject *core_raise_text(const struct module_state *state, int status, const char *text)
{
    PyObject *number = PyLong_FromLong(status);
    PyObject *message = number ? message_of(text) : NULL;
    PyObject *class = message ? PyDict_GetItemWithError(state->errors, number) : NULL;
    if (message && !PyErr_Occurred())
        PyErr_SetObject(class ? class : PyExc_RuntimeError, message);
    Py_XDECREF(number);
    Py_XDECREF(message);
    return NULL;
}

PyObject *core_raise(const struct module_state *state, int status)
{
    return core_raise_text(state, status, tombola_error_message());
}

/* errors.py defines the classes and registers them once. */
static PyObject *core_set_errors(PyObject *module, PyObject *errors)
{
    struct module_state *state = PyModule_GetState(module);
    if (!PyDict_Check(errors))
        return PyErr_Format(PyExc_TypeError, "not a dict");
    Py_INCREF(errors);
    Py_XSETREF(state->errors, errors);
    Py_RETURN_NONE;
}

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
    {"log_level", core_log_level, METH_VARARGS,
     "log_level(level)\n--\n\nThe least severe messages that go to standard error: 0 all, 1 info, "
     "2 warnings (the default), 3 errors."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type))
        Py_CLEAR(type);
    return type;
}

static unsigned forks;

/* In the child. */
static void count_fork(void)
{
    forks++;
}

static void count_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned core_forks(void)
{
    return forks;
}

static int core_exec(PyObject *module)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_forks);
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
