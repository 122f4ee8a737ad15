/* SPDX-License-Identifier: MIT */
/*
 * libtombola for Python: Feed, Batch, Array, and Iteration, which decides what a loop has trained.
 * Nothing is copied: an Array is a view of a slot of the feed's ring, through the buffer protocol
 * and DLPack. The slot returns to the ring with the last Array of its Batch.
 *
 * The GIL is released wherever libtombola may wait; waits check for signals every SLICE_MS.
 *
 * Shared by the module's files. A function that returns NULL or -1 has set an exception.
 */
#ifndef LOADER_PYTHON_CORE_H
#define LOADER_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tombola.h>

#define DIMENSIONS_LIMIT 17 /* 16 of a row (IDX), and the rows */

#ifndef Py_BEGIN_CRITICAL_SECTION /* before Python 3.13, in which the GIL always exists */
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* ---- the module --------------------------------------------------------- */

struct module_state {
    PyTypeObject *feed_type, *batch_type, *array_type, *iteration_type;
    PyObject *errors; /* dict: enum tombola_status -> class */
};

struct module_state *core_state(PyTypeObject *type);
/* Sets the exception for an enum tombola_status; NULL. */
PyObject *core_raise(const struct module_state *state, int status);
/* The same with a message from this module; NULL. */
PyObject *core_raise_text(const struct module_state *state, int status, const char *text);

/* Number of fork()s between this process and the one that loaded the module. */
unsigned core_forks(void);

extern PyType_Spec array_spec, batch_spec, feed_spec, iteration_spec;

/* ---- its objects -------------------------------------------------------- */

struct array_object {
    PyObject_HEAD PyObject *base; /* the Batch; NULL: owns its memory */
    void *data;
    char format; /* as in Python's struct: B, q, f, d */
    int device_type, device_index;
    int dimensions;
    Py_ssize_t item_bytes, shape[DIMENSIONS_LIMIT], strides[DIMENSIONS_LIMIT]; /* bytes */
};

struct feed_object {
    PyObject_HEAD struct tombola_feed *feed; /* NULL: closed */
    PyThread_type_lock calls;                /* held while in tombola_feed_next(), or closing */
    atomic_ulong caller;                     /* the thread that holds it; 0: none */
    unsigned depth; /* its calls: a signal handler may call while next() waits; under the lock */
    unsigned forks; /* core_forks() at the open: a forked child leaves the feed alone */
    struct tombola_description description;
    struct tombola_stats last;        /* those of a closed feed */
    atomic_size_t out;                /* batches that hold slots */
    const struct tombola_batch *late; /* came while a signal handler raised; NULL: none */
    void *late_stream;                /* for which next() awaited it */
};

struct batch_object {
    PyObject_HEAD struct feed_object *owner; /* a reference */
    struct tombola_feed *feed;
    const struct tombola_batch *batch;
    void *stream;
    bool is_settled;
};

/* C order; on the CPU unless its owner changes that. `data` NULL: allocates memory. */
struct array_object *array_new(PyTypeObject *type, void *data, PyObject *base, char format,
                               int dimensions, const Py_ssize_t shape[]);
/* A copy in its own memory. Only on the CPU. */
struct array_object *array_copy(const struct array_object *array);
/* __dlpack__() and __dlpack_device__(). */
PyObject *array_dlpack(struct array_object *self, PyObject *args, PyObject *words);
PyObject *array_dlpack_device(struct array_object *self, PyObject *unused);

/* Wraps a batch from tombola_feed_next(); puts it back if there is no memory for the object. */
PyObject *batch_new(struct feed_object *feed, const struct tombola_batch *batch, void *stream);
/* The first call counts. Returns an enum tombola_status. */
int batch_settle(struct batch_object *self, bool trained);
/* The same for Python: settle(trained). */
PyObject *batch_settle_by(struct batch_object *self, PyObject *args);

#endif
