/* SPDX-License-Identifier: MIT */
/*
 * DLPack 1.0: passes tensors between array libraries without a copy, in a capsule with one of the
 * two names. Layout: https://dmlc.github.io/dlpack/latest/c_api.html
 */
#ifndef LOADER_PYTHON_DLPACK_H
#define LOADER_PYTHON_DLPACK_H

#include <stdint.h>

#define DLPACK_NAME "dltensor"
#define DLPACK_NAME_VERSIONED "dltensor_versioned"
#define DLPACK_FLAG_COPIED UINT64_C(2)

enum dlpack_device_type { DLPACK_CPU = 1, DLPACK_CUDA = 2 };
enum dlpack_type_code { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2 };

struct dlpack_device {
    int32_t type, index;
};

struct dlpack_type {
    uint8_t code, bits;
    uint16_t lanes;
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t dimensions;
    struct dlpack_type type;
    int64_t *shape;
    int64_t *strides; /* in items */
    uint64_t byte_offset;
};

struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *manager_context;
    void (*deleter)(struct dlpack_managed *managed);
};

struct dlpack_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_context;
    void (*deleter)(struct dlpack_managed_versioned *managed);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
